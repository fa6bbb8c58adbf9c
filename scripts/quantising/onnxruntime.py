"""Networks that onnxruntime has quantised and runs."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence

from exporter.to_onnx.export import to_onnx
from runtime_arm.netdef import Array
from runtime_arm.pair.pair import Pair

Feeds = Mapping[str, Array]
AXES_SINCE = 13  # the opset since which scales may belong to the indices of an axis


def onnxruntime_outputs(
    pair: Pair, model: Optional[Path], calibration: Sequence[Feeds], judged: Sequence[Feeds]
) -> List[Dict[str, Array]]:
    """The outputs of onnxruntime's static int8: QDQ, one scale per channel, min-max ranges.

    model: the ONNX file; None for the pair written as ONNX, which is also used for a file of an old opset. The model is
    prepared as onnxruntime advises.
    """
    import onnx
    import onnxruntime
    from onnxruntime import quantization
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Reader(quantization.CalibrationDataReader):  # type: ignore[misc]
        def __init__(self, feeds: Sequence[Feeds]) -> None:
            self._feeds: Iterator[Feeds] = iter(feeds)

        def get_next(self) -> Optional[Feeds]:
            return next(self._feeds, None)

    onnxruntime.set_default_logger_severity(3)
    with tempfile.TemporaryDirectory() as name:
        plain, prepared, small = (str(Path(name, f"{part}.onnx")) for part in ("plain", "prepared", "small"))
        onnx.save(_with_axes(pair, model), plain)
        quant_pre_process(plain, prepared, skip_symbolic_shape=True)
        quantization.quantize_static(
            prepared,
            small,
            Reader(calibration),
            quant_format=quantization.QuantFormat.QDQ,
            per_channel=True,
            activation_type=quantization.QuantType.QInt8,
            weight_type=quantization.QuantType.QInt8,
        )
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        session = onnxruntime.InferenceSession(small, options, providers=["CPUExecutionProvider"])
        names = [output.name for output in session.get_outputs()]
        return [dict(zip(names, session.run(None, dict(feeds)))) for feeds in judged]


def _with_axes(pair: Pair, model: Optional[Path]) -> Any:
    """The model, in an opset that allows one scale per channel."""
    import onnx

    given = None if model is None else onnx.load(str(model))
    old = given is None or any(one.domain == "" and one.version < AXES_SINCE for one in given.opset_import)
    return to_onnx(pair) if old else given
