"""onnxruntime computes from a pair's ONNX model what Caffe2, Caffe and onnxruntime were recorded to compute."""

from __future__ import annotations

import re
import tempfile
import warnings
from pathlib import Path
from typing import Any, Dict, List, Sequence

import numpy as np
import pytest

from device_tests.suite.tolerance import assert_close
from exporter import export
from optimize import optimize
from runtime_arm.errors import ArmnetError
from runtime_arm.execution.net_runner import SMALL
from runtime_arm.netdef import NetDef, OperatorDef
from runtime_arm.pair.fills import fill
from runtime_arm.pair.metadata import TensorInfo
from runtime_arm.pair.pair import Pair
from runtime_arm.registry.specs import QuantizedTensor
from tests.exporter.caffe.test_export import REAL
from tests.exporter.onnx.test_real_models import FLOAT_NETWORKS, QUANTISED, RELATIVE_ERROR, samples
from tests.support import caffe2_goldens, caffe_goldens
from tests.support.caffe2_nets import golden_nets, pair_of
from tests.support.onnx_models import run_model

pytest.importorskip("onnx", reason="onnx is not installed to write models with")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed to run models with")

from exporter.to_onnx.export import to_onnx

Case = Dict[str, Any]

# Cases that ONNX leaves open, where onnxruntime differs from Caffe2: NaN, infinities, reductions of nothing.
OPEN_IN_ONNX = {
    "ArgMax_011": "the index of NaN",
    "ReduceMax_008": "the largest of nothing",
    "ReduceMin_008": "the smallest of nothing",
    "Reshape_020": "a zero in the shape of an empty blob",
    "Sign_004": "the sign of NaN",
    "Softplus_004": "beyond what exp can hold",
    "ConvTranspose_040": "onnxruntime refuses an output_padding of a stride or more",
}
# Caffe2's operators that are refused, and a part of the reason.
NO_MEANING = "ONNX has no operators that mean the same"
REFUSED = {
    **dict.fromkeys(
        (
            "BBoxTransform",
            "BatchOneHot",
            "BoxWithNMSLimit",
            "CollectAndDistributeFpnRpnProposals",
            "CrossEntropy",
            "GRUUnit",
            "GaussianFill",
            "GenerateProposals",
            "GenerateProposalsCPP",
            "HeatmapMaxKeypoint",
            "Histogram",
            "Im2Col",
            "IntegralImage",
            "LSTMUnit",
            "LabelCrossEntropy",
            "LengthsMax",
            "LengthsMean",
            "LengthsRangeFill",
            "LengthsSum",
            "LengthsTile",
            "LengthsToRanges",
            "LengthsToShape",
            "MSRAFill",
            "PackSegments",
            "RoIAlignRotated",
            "RoIPool",
            "SegmentIdsToLengths",
            "SegmentOneHot",
            "SequenceMask",
            "SigmoidCrossEntropyWithLogits",
            "SoftmaxWithLoss",
            "SparseLengthsMean",
            "SparseLengthsSum",
            "SplitByLengths",
            "Unique",
            "XavierFill",
        ),
        NO_MEANING,
    ),
    "Cast": "strings",
    "ConstantFill": "strings",
    "GivenTensorStringFill": "strings",
    "Dropout": "at random",
    "Gather": "match_outer",
    "Range": "integer steps",
    "SpatialBN": "as in training",
    "TopK": "k is |'Y2'",
    "UpsampleBilinear": "computed scales",
}


def net_pair(case: Case, feeds: Dict[str, Any]) -> Pair:
    """The recorded net as a pair. Small integer inputs after the first become weights, like shapes and indices."""
    net = NetDef.from_bytes(case["netdef"], case["id"])
    outputs = [blob["name"] for blob in case["outputs"]]
    copies = [OperatorDef.of("Copy", [name], [f"{name} now"]) for name in outputs if name in feeds]
    outputs = [f"{name} now" if name in feeds else name for name in outputs]
    net = net.replace(op=(*net.op, *copies), external_input=tuple(feeds), external_output=tuple(outputs))
    fills = [
        fill(name, feeds[name])
        for name in list(feeds)[1:]
        if feeds[name].dtype.kind in "iub" and feeds[name].size <= SMALL
    ]
    filled = {op.output[0] for op in fills}
    inputs = [TensorInfo(name, value.shape, value.dtype.name) for name, value in feeds.items() if name not in filled]
    init_net = NetDef("init", tuple(fills), external_output=tuple(sorted(filled)))
    return Pair(init_net, net, tuple(inputs), tuple(map(TensorInfo, outputs))).check()


@pytest.mark.parametrize("case", caffe2_goldens.golden_cases("ops", "ok"))
def test_an_operator_of_caffe2(case: Case) -> None:
    if case["id"] in OPEN_IN_ONNX:
        pytest.skip(OPEN_IN_ONNX[case["id"]])
    feeds = {blob["name"]: caffe2_goldens.blob_value(blob) for blob in case["inputs"]}
    pair = net_pair(case, feeds)
    model = _model_or_refusal(pair, REFUSED.get(case["op"], "never"))
    if model is not None:
        results = run_model(model, {info.name: feeds[info.name] for info in pair.inputs})
        for result, blob in zip(results, case["outputs"]):
            caffe2_goldens.compare(_as_bytes(np.asarray(result)), blob, case, caffe2_goldens.TERMS)


def _as_bytes(result: Any) -> Any:
    """Strings as bytes, as in Caffe2; onnxruntime returns text."""
    return np.vectorize(str.encode, otypes=[object])(result) if result.dtype == object else result


def _model_or_refusal(pair: Pair, reason: str) -> Any:
    """The model, or None if it is refused for this reason (a regular expression). Other refusals are raised."""
    try:
        return to_onnx(pair)
    except ArmnetError as error:
        if re.search(reason, str(error)) is None:
            raise
        return None


@pytest.mark.parametrize("case", caffe_goldens.golden_cases("ok"))
def test_a_layer_of_caffe(case: Case) -> None:
    with tempfile.TemporaryDirectory() as folder:
        plain = caffe_goldens.exported(case, Path(folder))
    expected = caffe_goldens.recorded_blobs(case)
    for pair in (plain, optimize(plain)):
        model = _model_or_refusal(pair, "mean the same|that the net overwrites|SPP.*--shape")
        if model is None:
            continue
        results = run_model(model, {info.name: case["in"][info.name] for info in pair.inputs})
        for info, result in zip(pair.outputs, results):
            wanted = np.asarray(expected[info.name], np.float32)
            assert_close(result, wanted, terms=caffe_goldens.TERMS, what=f"{case['id']}: {info.name}")


@pytest.mark.parametrize("case", golden_nets())
def test_a_net_of_caffe2(case: Case) -> None:
    plain = pair_of(case)
    name = plain.inputs[0].name
    shapes = {name: case["data"].shape}
    for pair in (plain, optimize(plain, shapes=shapes)):
        results = run_model(to_onnx(pair, shapes=shapes), {name: case["data"]})
        for info, result in zip(pair.outputs, results):
            assert_close(result, case["outputs"][info.name], terms=caffe2_goldens.TERMS, what=f"{case['id']}")


@pytest.mark.parametrize("name", [*FLOAT_NETWORKS, QUANTISED[0]])
@pytest.mark.parametrize("optimised", [False, True], ids=["plain", "optimised"])
def test_a_network_from_onnx_and_back(shared: Path, name: str, optimised: bool) -> None:
    plain = export(shared / "models/onnx" / {**FLOAT_NETWORKS, QUANTISED[0]: QUANTISED[1]}[name])
    pair = optimize(plain) if optimised else plain
    reference = dict(np.load(shared / f"models/references/onnx_{name}.npz"))
    model = to_onnx(pair)
    for feeds, expected in samples(pair, reference):
        _compare(run_model(model, feeds), expected)


@pytest.mark.parametrize("name", REAL)
@pytest.mark.parametrize("optimised", [False, True], ids=["plain", "optimised"])
def test_a_network_of_caffe(shared: Path, name: str, optimised: bool) -> None:
    files = [f"{path}.{suffix}" for path, suffix in zip(REAL[name], ("prototxt", "caffemodel"))]
    plain = export(*(shared / "models/caffe" / file for file in files))
    reference = dict(np.load(shared / f"models/references/caffe_{name}.npz"))
    results = run_model(to_onnx(optimize(plain) if optimised else plain), {plain.inputs[0].name: reference["input"]})
    for info, result in zip(plain.outputs, results):
        wanted = reference.get(info.name, reference.get("output"))
        assert wanted is not None
        _compare([result.reshape(wanted.shape)], [wanted])


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("squeezenet_v1.1_reconstructed", ("squeeze_init_net.pb", "squeezeNetPredict.pb")),
        ("superres_from_onnx", ("init_net.pb", "predict_net.pb")),
    ],
)
@pytest.mark.parametrize("optimised", [False, True], ids=["plain", "optimised"])
def test_a_network_of_caffe2(shared: Path, name: str, files: Sequence[str], optimised: bool) -> None:
    plain = export(*(shared / "models/caffe2" / name / file for file in files))
    reference = dict(np.load(shared / f"models/references/caffe2_{name}.npz"))
    shapes = {plain.inputs[0].name: reference["input"].shape}
    pair = optimize(plain, shapes=shapes) if optimised else plain
    result = run_model(to_onnx(pair, shapes=shapes), {plain.inputs[0].name: reference["input"]})[0]
    _compare([result.reshape(reference["output"].shape)], [reference["output"]])


def _compare(results: Sequence[Any], expected: Sequence[Any]) -> None:
    for result, wanted in zip(results, expected):
        assert result.shape == wanted.shape
        assert np.abs(result - wanted).max() <= RELATIVE_ERROR * np.abs(wanted).max()


def node_cases() -> List[Any]:
    """Up to three cases per operator from ONNX's backend suite, without random operators."""
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = collect_testcases(None)
    chosen: Dict[str, List[Any]] = {}
    for case in cases:
        assert case.model is not None
        type = case.model.graph.node[0].op_type
        if "expanded" not in case.name and len(chosen.setdefault(type, [])) < 3:
            chosen[type].append(pytest.param(case, id=case.name))
    return [case for of_type in chosen.values() for case in of_type]


@pytest.mark.parametrize("case", node_cases())
def test_a_node_of_onnx_and_back(case: Any) -> None:
    """onnxruntime computes the same from the exported and re-written model as from the original."""
    from onnx import numpy_helper

    from exporter.onnx.export import from_onnx

    graph, inputs = case.model.graph, case.data_sets[0][0]
    try:
        feeds = {
            value.name: numpy_helper.to_array(x) if hasattr(x, "dims") else np.asarray(x)
            for value, x in zip(graph.input, inputs)
        }
        expected = run_model(case.model, feeds)
        pair = from_onnx(case.model)
    except Exception as error:  # any error of onnxruntime, onnx or NumPy means that there is nothing to compare with
        pytest.skip(f"not run there or not exported: {str(error).splitlines()[0][:100]}")
    model = _model_or_refusal(pair, "sequence of blobs")
    if model is None:
        pytest.skip("sequences are not written to ONNX")
    results = run_model(model, {info.name: feeds[info.name] for info in pair.inputs})
    for result, wanted in zip(results, expected):
        if isinstance(wanted, np.ndarray):
            assert (result.shape, result.dtype) == (wanted.shape, wanted.dtype)
            if wanted.dtype.kind == "f" and case.name not in RANDOM:
                assert_close(result, wanted, terms=caffe2_goldens.TERMS)


RANDOM = (
    "test_training_dropout_default",
    "test_training_dropout",
    "test_training_dropout_default_mask",
    "test_bernoulli",
    "test_bernoulli_double",
    "test_bernoulli_seed",
)


@pytest.mark.parametrize("case", caffe2_goldens.golden_cases("int8", "ok"))
def test_an_operator_of_quantised_bytes_is_exact(case: Case) -> None:
    """The recorded net fills its quantised blobs itself; its float blobs are the model's inputs."""
    feeds = {blob["name"]: caffe2_goldens.blob_value(blob) for blob in case["inputs"]}
    net = NetDef.from_bytes(case["netdef"], case["id"])
    outputs = tuple(blob["name"] for blob in case["outputs"])
    inputs = tuple(TensorInfo(name, value.shape, value.dtype.name) for name, value in feeds.items())
    pair = Pair(NetDef(), net.replace(external_input=tuple(feeds), external_output=outputs), inputs).check()
    refused = {"Int8ConvTranspose": NO_MEANING, "Int8RoIAlign": NO_MEANING}
    model = _model_or_refusal(pair, refused.get(case["op"], "never"))
    if model is None:
        return
    for result, blob in zip(run_model(model, feeds), case["outputs"]):
        expected = caffe2_goldens.blob_value(blob)
        if isinstance(expected, QuantizedTensor):
            np.testing.assert_array_equal(result, expected.values)
        else:
            assert_close(result, expected, terms=caffe2_goldens.TERMS)


def test_a_quantised_blob_of_unknown_scale_is_refused() -> None:
    net = NetDef("n", (OperatorDef.of("Int8Relu", ["x"], ["y"], Y_scale=1.0, Y_zero_point=0),), ("x",), ("y",))
    pair = Pair(NetDef(), net, (TensorInfo("x", (1, 2, 2, 1), "uint8"),)).check()
    with pytest.raises(ArmnetError, match=r"Int8Relu.*the quantisation of 'x' must be known"):
        to_onnx(pair)
