"""LiteRT computes from a pair's TFLite file what Caffe2 was recorded to compute."""

from __future__ import annotations

from typing import Any, Dict

import numpy as np
import pytest

from runtime_arm.errors import ArmnetError
from runtime_arm.pair.fills import fill
from runtime_arm.pair.pair import Pair
from tests.exporter.to_onnx.test_recorded import net_pair
from tests.support import caffe2_goldens

pytest.importorskip("tflite", reason="tflite is not installed to write models with")
pytest.importorskip("ai_edge_litert", reason="LiteRT is not installed to run models with")

from tests.exporter.to_tflite.written import run_written

# Where TFLite's kernels define something else than Caffe2's.
OTHER_IN_TFLITE = {
    "Reciprocal_003": "LiteRT limits quotients to finite numbers",
    "Softplus_004": "beyond what exp can hold, where ours goes on",
    "Sign_004": "the sign of NaN",
    **dict.fromkeys(("Cast_008", "Cast_018", "Cast_022"), "numbers beyond an integer type saturate"),
}
LEAST = 800  # cases that are translated; the others are refused


def with_weights(pair: Pair, feeds: Dict[str, Any]) -> Pair:
    """The pair with all inputs but the first as weights, as they mostly are."""
    more = [info.name for info in pair.inputs[1:]]
    fills = (*pair.init_net.op, *(fill(name, feeds[name]) for name in more))
    init_net = pair.init_net.replace(op=fills, external_output=(*pair.init_net.external_output, *more))
    return pair.replace(init_net=init_net, inputs=pair.inputs[:1]).check()


def test_what_is_translated_computes_the_same() -> None:
    if not caffe2_goldens.load_cases("ops"):
        pytest.skip("the recorded runs of Caffe2 are not here")
    translated, refused = 0, 0
    for parameters in caffe2_goldens.golden_cases("ops", "ok"):
        case = parameters.values[0]
        if case["id"] in OTHER_IN_TFLITE or any("array" not in blob for blob in case["outputs"]):
            continue
        feeds = {blob["name"]: caffe2_goldens.blob_value(blob) for blob in case["inputs"]}
        try:
            _, outputs = run_written(with_weights(net_pair(case, feeds), feeds), feeds)
        except ArmnetError:
            refused += 1
            continue
        translated += 1
        for result, blob in zip(outputs.values(), case["outputs"]):
            shape = np.shape(caffe2_goldens.blob_value(blob))
            result = result.reshape(()) if shape == () else result  # LiteRT gives a number as a vector
            caffe2_goldens.compare(result, blob, case, caffe2_goldens.TERMS)
    assert translated >= LEAST, (translated, refused)
