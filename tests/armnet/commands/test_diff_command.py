"""``armnet diff``: two variants of a model side by side."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest

from armnet.variants.blobs import aligned, common_blobs, real, scales_of
from armnet.variants.noise import noise_between
from optimize.quantization.signal import MOST_DB
from runtime_arm import Predictor
from runtime_arm.netdef import NetDef, OperatorDef
from runtime_arm.pair.metadata import TensorInfo
from runtime_arm.pair.pair import Pair
from runtime_arm.registry.specs import QuantizedTensor
from tests.support.commands import Armnet, refused
from tests.support.paths import DEMO

DATA = DEMO / "held_back.npz"


def scaled(factor: float) -> Pair:
    """y = factor x, then z = relu(y)."""
    ops = (
        OperatorDef.of("Scale", ["x"], ["y"], scale=factor),
        OperatorDef.of("Relu", ["y"], ["z"]),
    )
    net = NetDef("scaled", ops, external_input=("x",), external_output=("z",))
    return Pair(NetDef(), net, (TensorInfo("x", (6,), "float32"),), (TensorInfo("z", (6,), "float32"),)).check()


def test_the_noise_of_a_blob_is_what_its_formula_says() -> None:
    """A factor of 1.01 is an error of a hundredth: 40 dB."""
    feeds = {"x": np.arange(1, 7, dtype=np.float32)}
    with Predictor(scaled(1.0)) as first, Predictor(scaled(1.01)) as second:
        found = noise_between(first, second, [(feeds, feeds)] * 3)
        same = noise_between(first, first, [(feeds, feeds)])
    assert [(one.blob, one.operator, round(one.snr, 3)) for one in found.blobs] == [
        ("y", "Scale", 40),
        ("z", "Relu", 40),
    ]
    assert found.samples == 3
    assert found.output == pytest.approx(40, abs=1e-3)
    assert same.output == MOST_DB


def test_integer_blobs_are_compared_by_what_they_stand_for() -> None:
    """Scales come from the operators, also through one that only moves elements."""
    first = NetDef(op=(OperatorDef.of("Relu", ["x"], ["y"]), OperatorDef.of("Relu", ["y"], ["z"])))
    second = NetDef(
        op=(
            OperatorDef.of("Quantize", ["x"], ["y_int8"], domain="tflite", Y_scale=0.5, Y_zero_point=-3),
            OperatorDef.of("Transpose", ["y_int8"], ["y_nhwc"], axes=[0, 2, 3, 1]),
            OperatorDef.of("Relu", ["y_nhwc"], ["w"]),
        )
    )
    assert [(one.first, one.second) for one in common_blobs(first, second)] == [("y", "y_nhwc")]
    assert scales_of(Pair(NetDef(), second, ()))["y_nhwc"] == (0.5, -3)
    stands_for = real(np.array([-3, 1], np.int8), (0.5, -3))
    assert stands_for is not None
    assert stands_for.tolist() == [0.0, 2.0]
    held = real(QuantizedTensor(np.array([7], np.uint8), 0.25, 3), None)
    assert held is not None
    assert held.tolist() == [1.0]
    assert real(np.array([1], np.int32), None) is None
    assert real(np.array(["a"]), None) is None


@pytest.mark.parametrize(
    ("given", "wanted"),
    [((2, 4, 5, 3), (2, 3, 4, 5)), ((2, 3, 4, 5), (2, 4, 5, 3)), ((1, 7), (7,)), ((1, 1, 1, 6), (1, 6))],
)
def test_layouts_are_brought_together(given: tuple[int, ...], wanted: tuple[int, ...]) -> None:
    value = np.random.default_rng(0).random(given)
    found = aligned(value, wanted)
    assert found is not None
    assert found.shape == wanted
    assert sorted(found.ravel()) == sorted(value.ravel())
    assert aligned(value, (*wanted, 2)) is None


@pytest.fixture(scope="module")
def small(digits: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from armnet.__main__ import main

    pair = tmp_path_factory.mktemp("variants") / "digits_int8"
    words = ["--activations", "int8", "--data", str(DATA), "--samples", "50"]
    assert main(["quantize", str(digits), "-o", str(pair), *words]) == 0
    return pair


def test_an_integer_variant_beside_the_float_one(armnet: Armnet, digits: Path, small: Path, tmp_path: Path) -> None:
    status, out, _ = armnet("diff", digits, small, DATA, "--runs", "3", "--json")
    assert status == 0
    facts = json.loads(out)
    assert facts["samples"] == 32
    assert facts["metrics"]["A"]["top1"] >= 0.99
    assert facts["metrics"]["B"]["top1"] >= 0.98
    assert facts["agreement"] >= 0.99
    assert facts["output_snr"] > 25
    blobs = {one["blob"]: one["snr"] for one in facts["blobs"]}
    assert {"relu1", "relu2", "logits", "probabilities"} <= set(blobs)
    assert all(25 < snr < 80 for snr in blobs.values())
    costs = facts["costs"]
    assert costs["B"]["weights_nbytes"] < 0.3 * costs["A"]["weights_nbytes"]
    assert costs["A"]["multiply_adds"] == costs["B"]["multiply_adds"]
    status, out, _ = armnet("diff", digits, small, DATA, "--runs", "1")
    assert status == 0
    assert "answers alike" in out
    assert "relu2" in out
    page = tmp_path / "diff.html"
    assert armnet("diff", digits, small, DATA, "--runs", "1", "--html", page)[:2] == (0, "")
    content = page.read_text()
    assert "relu2" in content
    assert "<script" not in content


def test_the_bytes_of_a_file_inside_an_archive_are_not_known(armnet: Armnet, small: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "models.zip", "w") as archive:
        archive.write(DEMO / "digits.onnx", "digits.onnx")
    words = ["diff", tmp_path / "models.zip" / "digits.onnx", small, DATA, "--runs", "1"]
    costs = json.loads(armnet(*words, "--json")[1])["costs"]
    assert (costs["A"]["file_nbytes"], costs["B"]["file_nbytes"] > 0) == (None, True)
    status, out, _ = armnet(*words)
    assert status == 0
    assert not any(line.startswith("files") for line in out.splitlines())


def test_samples_without_truths_tell_no_accuracy(armnet: Armnet, digits: Path, small: Path, tmp_path: Path) -> None:
    for number in range(3):
        np.save(tmp_path / f"{number}.npy", np.random.default_rng(number).random((1, 1, 8, 8), np.float32))
    status, out, err = armnet("diff", digits, small, tmp_path, "--runs", "1", "--json")
    assert status == 0
    facts = json.loads(out)
    assert facts["samples"] == 3
    assert facts["metrics"] is None
    assert facts["agreement"] is None
    assert "no accuracy" in err


def test_strangers_have_nothing_in_common(armnet: Armnet, digits: Path, tmp_path: Path) -> None:
    """Nets whose blobs have other names are told apart; their costs are compared all the same."""
    pair = Pair.load(digits)
    renamed = {name: f"other_{name}" for op in pair.predict_net.op for name in op.output}
    ops = tuple(
        op.replace(
            input=tuple(renamed.get(name, name) for name in op.input),
            output=tuple(renamed[name] for name in op.output),
        )
        for op in pair.predict_net.op
    )
    outputs = tuple(TensorInfo(renamed[info.name], info.shape, info.dtype) for info in pair.outputs)
    net = pair.predict_net.replace(op=ops, external_output=tuple(info.name for info in outputs))
    meta = {key: value for key, value in pair.meta.items() if key != "result"}
    pair.replace(predict_net=net, outputs=outputs, meta=meta).save(tmp_path / "other")
    status, out, err = armnet("diff", digits, tmp_path / "other", DATA, "--runs", "1", "--json")
    assert status == 0
    assert json.loads(out)["blobs"] == []
    assert "no blob in common" in err


def test_mistakes_are_told_in_a_line(armnet: Armnet, digits: Path, tmp_path: Path) -> None:
    refused(armnet("diff", digits, digits, tmp_path / "nothing"), "nothing")
    refused(armnet("diff", digits, tmp_path / "none.onnx", DATA), "none.onnx")
    refused(armnet("diff", digits, digits, DATA, "--runs", "0"), "--runs")
    refused(armnet("diff", digits, digits, DATA, "--samples", "0"), "at least one sample")
    refused(armnet("diff", digits, digits, DATA, "--count", "z80"), "z80")
