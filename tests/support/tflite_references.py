"""The TFLite networks of integers against both recordings of LiteRT: reference kernels and XNNPACK.

    python -m tests.support.tflite_references ../shared/models

prints for every network how far its outputs are from both at most.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Dict, Iterator, List, NamedTuple

import numpy as np

from exporter import export
from runtime_arm import Predictor

NETWORKS = (
    "coco_ssd_mobilenet_v1_quant__coco_ssd_mobilenet_v1_1.0_quant_2018_06_29_no_metadata",
    "hello_world__hello_world_int8",
    "mlperf_tiny_ad_autoencoder__ad01_int8",
    "mlperf_tiny_ic_resnet8__pretrainedResnet_quant",
    "mlperf_tiny_kws_dscnn__kws_ref_model",
    "mlperf_tiny_kws_dscnn__kws_ref_model_float32",
    "mlperf_tiny_vww_mobilenet__vww_96_int8",
    "mobilenet_v1_0.25_224_quant__mobilenet_v1_0.25_224_quant",
    "mobilenet_v2_1.0_224_quant__mobilenet_v2_1.0_224_quant",
    "movenet_lightning_ptq__movenet_single_pose_lightning_ptq",
    "tf2_mobilenet_v2_1.0_224_ptq__tf2_mobilenet_v2_1.0_224_ptq",
)


class Output(NamedTuple):
    """One output as we compute it, and as it was recorded."""

    name: str
    result: Any
    reference: Any
    xnnpack: Any


def outputs_of(models: Path, name: str) -> Iterator[Output]:
    """Every output of a network for its recorded inputs, which may be several samples for a batch of one."""
    folder, file = name.split("__")
    pair = export(models / "tflite" / folder / f"{file}.tflite")
    recorded, other = (dict(np.load(models / where / f"tflite_{name}.npz"))
                       for where in ("references_tflite_builtin_ref", "references"))
    inputs = {info.name: _first(recorded, "in", place) for place, info in enumerate(pair.inputs)}
    samples = len(next(iter(inputs.values())))
    with Predictor(pair, threads=1) as predictor:
        if pair.inputs[0].shape[0] in (1, samples) and samples > 1:
            runs = [predictor.run({key: value[i : i + 1] for key, value in inputs.items()}) for i in range(samples)]
        else:
            runs = [predictor.run(inputs)]
        for place, info in enumerate(pair.outputs):
            result = np.concatenate([run[info.name] for run in runs])
            yield Output(info.name, result, _first(recorded, "out", place), _first(other, "out", place))


def _first(recorded: Dict[str, Any], start: str, place: int) -> Any:
    """The recording's array that belongs to an input or output by its place."""
    return [recorded[key] for key in recorded if key.startswith(start)][place]


def _distance(left: Any, right: Any) -> float:
    return float(np.abs(left.astype(np.float64) - right.astype(np.float64)).max(initial=0))


def table(models: Path) -> List[str]:
    """One line an output."""
    lines = [f"{'network, output':52} {'type':8} {'to BUILTIN_REF':>14} {'to XNNPACK':>11}"]
    for name in NETWORKS:
        for one in outputs_of(models, name):
            lines.append(f"{name.split('__')[1][:36]:36} {one.name[-15:]:15} {one.result.dtype.name:8} "
                         f"{_distance(one.result, one.reference):14.3g} {_distance(one.result, one.xnnpack):11.3g}")
    return lines


if __name__ == "__main__":
    print("\n".join(table(Path(sys.argv[1]))))
