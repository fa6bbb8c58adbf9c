"""``armnet compare`` for every format: the runtime that runs the original, the blobs compared, the suggested cause."""

from __future__ import annotations

import json
import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, Dict, List, Sequence, Tuple

import numpy as np
import pytest

from armnet.__main__ import main
from device_tests.suite.tolerance import assert_close
from exporter import export
from exporter.compare.original_run import run_original
from optimize import optimize
from runtime_arm import Predictor
from runtime_arm.errors import MissingDependency, UsageError
from runtime_arm.netdef import OperatorDef
from runtime_arm.pair.pair import Pair
from tests.exporter.caffe.models import caffemodel, net

OPENCV = pytest.mark.skipif(find_spec("cv2") is None, reason="OpenCV is not installed to run Caffe nets with")
LITERT = pytest.mark.skipif(
    find_spec("ai_edge_litert") is None and find_spec("tflite_runtime") is None,
    reason="neither ai-edge-litert nor tflite-runtime is installed to run TFLite models with",
)

LAYERS = net(
    'layer { name: "c" type: "Convolution" bottom: "x" top: "c" convolution_param { num_output: 4 kernel_size: 3 } }',
    'layer { name: "r" type: "ReLU" bottom: "c" top: "c" }',
    'layer { name: "p" type: "Pooling" bottom: "c" top: "p" pooling_param { pool: MAX kernel_size: 2 stride: 2 } }',
    dims=(1, 3, 9, 9),
)
RANDOM = np.random.default_rng(3)
WEIGHTS: Dict[str, Sequence[Any]] = {"c": [RANDOM.standard_normal((4, 3, 3, 3)), RANDOM.standard_normal(4)]}


@pytest.fixture
def caffe_files(tmp_path: Path) -> Tuple[str, str]:
    prototxt, model = tmp_path / "net.prototxt", tmp_path / "net.caffemodel"
    prototxt.write_text(LAYERS)
    model.write_bytes(caffemodel(WEIGHTS))
    return str(prototxt), str(model)


def compared(capsys: pytest.CaptureFixture[str], *words: Any) -> Dict[str, Any]:
    """The command's JSON output, with its exit status."""
    capsys.readouterr()
    status = main(["compare", *map(str, words), "--json"])
    return {"status": status, **json.loads(capsys.readouterr().out)}


def tampered(pair: Pair, type: str, **arguments: Any) -> Pair:
    """The pair with arguments of its first operator of that type changed."""
    ops: List[OperatorDef] = list(pair.predict_net.op)
    at = next(i for i, op in enumerate(ops) if op.type == type)
    ops[at] = ops[at].with_args(**arguments)
    return pair.replace(predict_net=pair.predict_net.replace(op=tuple(ops)))


@LITERT
@pytest.mark.parametrize(
    "model",
    [
        "hello_world/hello_world_int8.tflite",
        "hello_world/hello_world_float.tflite",
        "mlperf_tiny_ic_resnet8/pretrainedResnet_quant.tflite",
        "mlperf_tiny_ic_resnet8/pretrainedResnet.tflite",
    ],
)
def test_tflite_agrees_blob_by_blob(
    shared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], model: str
) -> None:
    path = shared / "models/tflite" / model
    plain = export(path)
    for pair in (plain, optimize(plain)):
        pair.save(tmp_path / "pair")
        facts = compared(capsys, path, tmp_path / "pair")
        assert facts["agree"], facts["first"]
        assert facts["status"] == 0
        assert facts["blobs"] >= 3
        assert "reference kernels" in facts["runtime"]


@LITERT
def test_tflite_names_the_first_tensor_that_differs(
    shared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = shared / "models/tflite/mlperf_tiny_ic_resnet8/pretrainedResnet.tflite"
    pair = export(path)
    convolution = next(op for op in pair.predict_net.op if op.type == "Conv")
    tampered(pair, "Conv", pads=[2, 2, 0, 0], pad=None, legacy_pad=None).save(tmp_path / "pair")
    facts = compared(capsys, path, tmp_path / "pair")
    assert facts["status"] == 1
    assert convolution.output[0].startswith(facts["first"]["blob"])
    assert "padding" in facts["first"]["cause"]


@OPENCV
def test_caffe_agrees_with_opencv(
    caffe_files: Tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pair = export(*caffe_files)
    pair.save(tmp_path / "pair")
    facts = compared(capsys, *caffe_files, tmp_path / "pair", "--shape", "x=2,3,9,9")
    assert facts["agree"], facts["first"]
    assert facts["runtime"].startswith("OpenCV 4")
    tampered(pair, "MaxPool", legacy_pad=0).save(tmp_path / "pair")
    facts = compared(capsys, *caffe_files, tmp_path / "pair", "--shape", "x=2,3,9,9")
    assert facts["status"] == 1
    assert "ceil mode" in facts["first"]["cause"]


@pytest.mark.parametrize("version", [None, "5.0.0"])
def test_caffe_without_opencv_4_says_what_to_install(
    caffe_files: Tuple[str, str], version: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    module: Any = None
    if version:
        module = ModuleType("cv2")
        module.dnn, module.__version__ = ModuleType("cv2.dnn"), version
    monkeypatch.setitem(sys.modules, "cv2", module)
    with pytest.raises(MissingDependency, match=r"OpenCV 4.*armnet\[caffe\]"):
        run_original(caffe_files, {"x": np.zeros((1, 3, 9, 9), np.float32)})


def test_caffe2_nets_run_by_reference_kernels(
    caffe_files: Tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pair = export(*caffe_files, caffe2_compatible=True)
    pair.save(tmp_path / "pair")
    files = [tmp_path / "pair" / name for name in ("init_net.pb", "predict_net.pb")]
    export(*files).save(tmp_path / "again")
    facts = compared(capsys, *files, tmp_path / "again", "--shape", "x=1,3,9,9")
    assert facts["agree"], facts["first"]
    assert facts["blobs"] >= 3
    assert "reference kernels" in facts["runtime"]


def test_a_pair_is_compared_with_its_optimised_pair(
    caffe_files: Tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pair = export(*caffe_files)
    pair.save(tmp_path / "pair")
    optimize(pair, shapes={"x": (1, 3, 9, 9)}).save(tmp_path / "fast")
    assert compared(capsys, tmp_path / "pair", tmp_path / "fast", "--shape", "x=1,3,9,9")["agree"]


def test_the_reference_kernels_run(caffe_files: Tuple[str, str], tmp_path: Path) -> None:
    pair = export(*caffe_files)
    pair.save(tmp_path / "pair")
    x = RANDOM.standard_normal((1, 3, 9, 9)).astype(np.float32)
    seen = {one.blob: one.value for one in run_original([tmp_path / "pair"], {"x": x}).blobs}
    with Predictor(pair, threads=1) as predictor:
        assert_close(predictor.run([x])["p"], seen["p"], terms=3 * 3 * 3)


def test_files_of_no_format_are_refused() -> None:
    with pytest.raises(UsageError, match=r"net\.h5"):
        run_original(["net.h5"], {})


def test_a_pair_of_another_model_is_told_so(
    caffe_files: Tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    export(*caffe_files).save(tmp_path / "pair")
    other = tmp_path / "other.prototxt"
    other.write_text(
        LAYERS.replace('top: "c"', 'top: "d"').replace('bottom: "c"', 'bottom: "d"').replace('top: "p"', 'top: "q"')
    )
    export(other, caffe_files[1]).save(tmp_path / "other")
    assert main(["compare", str(tmp_path / "other"), str(tmp_path / "pair"), "--shape", "x=1,3,9,9"]) == 2
    assert "made from this model" in capsys.readouterr().err
