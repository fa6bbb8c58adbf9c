"""``armnet compare`` finds what users get wrong: limits, NaN, and pictures that are prepared in another way."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Dict, List

import numpy as np
import pytest

import armnet as api
from armnet import comparison
from armnet.opening import pair_of
from runtime_arm.netdef import NetDef
from runtime_arm.pair.fills import fill
from runtime_arm.pair.metadata import TensorInfo
from runtime_arm.pair.pair import Pair
from tests.support.commands import Armnet, refused
from tests.support.paths import DEMO, SHARED

Image = pytest.importorskip("PIL.Image", reason="pictures need Pillow")

MODELS = SHARED / "models"


def saved(folder: Path, text: str, shape: List[Any], weights: Dict[str, Any], **meta: Any) -> Path:
    fills = tuple(fill(name, np.asarray(value, np.float32)) for name, value in weights.items())
    info = TensorInfo("x", tuple(shape), "float32")
    Pair(NetDef("init", fills), NetDef.from_text(text), (info,), meta=meta).save(folder)
    return folder


def test_a_limit_shows_that_small_numbers_never_reach(armnet: Armnet, tmp_path: Path) -> None:
    whole = saved(tmp_path / "whole", 'net "": x -> y\n Relu(x) -> a\n Sigmoid(a) -> y', [1, 50], {})
    cut = saved(tmp_path / "cut", 'net "": x -> y\n Clip(x) -> a  min=0.0 max=6.0\n Sigmoid(a) -> y', [1, 50], {})
    assert armnet("compare", whole, cut, "--samples", 1)[0] == 0
    status, out, _ = armnet("compare", whole, cut, "--json")
    assert status == 1
    assert json.loads(out)["first"]["blob"] == "a"
    refused(armnet("compare", whole, cut, "--samples", 0), "at least one sample")


def test_what_rounding_alone_turns_over_is_no_divergence(tmp_path: Path) -> None:
    """The product of wide numbers goes into a softmax: the last bit decides."""
    weights = np.random.default_rng(0).standard_normal((64, 500)) * 50
    net = 'net "": x, w, b -> y\n FC(x, w, b) -> a\n Softmax(a) -> y'
    pair = Pair.load(saved(tmp_path / "pair", net, [1, 500], {"w": weights, "b": np.zeros(64)}))
    assert api.compare(tmp_path / "pair", pair).first is None
    wrong = saved(tmp_path / "wrong", net, [1, 500], {"w": weights * 1.01, "b": np.zeros(64)})
    first = api.compare(tmp_path / "pair", Pair.load(wrong)).first
    assert first is not None
    assert first.blob == "a"


def test_statistics_and_the_first_nan_are_told(armnet: Armnet, tmp_path: Path) -> None:
    pair = saved(tmp_path / "pair", 'net "": x -> y\n Relu(x) -> a\n Sqrt(x) -> b\n Add(a, b) -> y', [1, 4], {})
    np.save(tmp_path / "x.npy", np.asarray([[-4, 0, 4, 16]], np.float32))
    words = ["compare", pair, pair, "--input", tmp_path / "x.npy"]
    status, out, _ = armnet(*words, "--json", "--statistics")
    assert status == 0
    facts = json.loads(out)
    assert facts["not_finite"] == "b"
    known = {row["blob"]: row["pair"] for row in facts["statistics"]}
    assert known["a"] == {"least": 0, "most": 16, "mean": 5, "zeros": 0.5, "not_finite": 0, "size": 4}
    assert known["b"] == {"least": 0, "most": 4, "mean": 2, "zeros": 0.25, "not_finite": 1, "size": 4}
    out = armnet(*words, "--statistics")[1]
    assert "the first NaN or infinity: b, in the original and the pair, computed by Sqrt(x) -> b" in out
    assert "25%" in out


# Red against blue, beside a third class that wins where both are small.
COLOURS = """
    net "colours": x, w, b -> y
    AveragePool(x) -> a  global_pooling=1
    Conv(a, w, b) -> c  kernel=1
    Reshape(c) -> d, old  shape=[1, 4]
    Softmax(d) -> y
"""
FILTERS = [[1, 0, -1], [-1, 0, 1], [0, 0, 0], [0, 0, 0]]
WEIGHTS = {"w": np.reshape(FILTERS, (4, 3, 1, 1)), "b": [0, 0, 10, -10]}


@pytest.fixture
def colours(tmp_path: Path) -> Path:
    Image.new("RGB", (20, 10), (250, 30, 20)).save(tmp_path / "red.png")
    return saved(tmp_path / "colours", COLOURS, [1, 3, 8, 8], WEIGHTS, labels=["red", "blue", "dark", "never"])


@pytest.mark.parametrize(
    ("rule", "found", "changes"),
    [
        ({"channels": "BGR", "scale": 1}, "blue", ["RGB instead of BGR"]),
        ({"channels": "RGB", "scale": 1 / 255}, "dark", ["values 0..255"]),
        ({"channels": "BGR", "scale": 1 / 255}, "dark", ["values 0..255", "RGB instead of BGR"]),
    ],
)
def test_what_is_mixed_up_is_named(
    armnet: Armnet, colours: Path, tmp_path: Path, rule: Dict[str, Any], found: str, changes: List[str]
) -> None:
    words = ["compare", colours, "--picture", tmp_path / "red.png", "--label", "red"]
    given = ["--preprocessing", json.dumps(rule)]
    status, out, _ = armnet(*words, *given, "--json")
    facts = json.loads(out)
    assert status == 1
    assert facts["agree"]
    assert (facts["picture"]["right"], facts["picture"]["found"]) == (False, found)
    assert facts["picture"]["fix"]["changes"] == changes
    fixed = json.dumps(facts["picture"]["fix"]["preprocessing"])
    assert armnet(*words, "--preprocessing", fixed)[0] == 0
    out = armnet(*words, *given)[1]
    told = out.splitlines()[-1]
    assert told.startswith(f"likely cause: {', '.join(changes)}; say it: --preprocessing '{{")
    assert armnet(*words, "--preprocessing", told.split("'")[1])[0] == 0


def test_what_no_preparation_mends_is_said(armnet: Armnet, colours: Path, tmp_path: Path) -> None:
    Image.new("RGB", (20, 10), (99, 99, 99)).save(tmp_path / "grey.png")
    words = ["compare", colours, "--picture", tmp_path / "grey.png", "--preprocessing", "0..255"]
    status, out, _ = armnet(*words, "--label", "never")
    assert status == 1
    assert "other ways to prepare it gives never" in out
    refused(armnet(*words, "--label", "rad"), "no class is called 'rad'", "did you mean 'red'?")
    refused(armnet(*words, "--label", 7), "no class 7; the net has 4")
    refused(armnet(*words), "--picture needs --label")
    refused(armnet("compare", colours, "--label", "red"), "--label needs --picture")


def test_blobs_that_do_not_fit_at_a_time_are_compared_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnxruntime", reason="comparing needs onnxruntime")
    model = DEMO / "digits.onnx"
    pair = api.export(model)
    at_once = api.compare(model, pair)
    shown: List[int] = []
    run = comparison.run_original

    def run_original(paths: Any, feeds: Any, blobs: Any) -> Any:
        original = run(paths, feeds, blobs)
        shown.append(len(original.blobs))
        return original

    monkeypatch.setattr(comparison, "run_original", run_original)
    monkeypatch.setattr(comparison, "MOST_KEPT", 1000)
    assert api.compare(model, pair) == at_once
    assert max(shown) < len(at_once.blobs) / 2


@pytest.mark.skipif(not MODELS.is_dir(), reason="real networks and photographs are not beside the project")
def test_a_real_network_says_how_it_wants_its_pictures(armnet: Armnet) -> None:
    pytest.importorskip("onnxruntime", reason="comparing needs onnxruntime")
    (model,) = (MODELS / "onnx" / "squeezenet_v1.1").glob("*.onnx")
    lemon, labels = (MODELS / "photos" / name for name in ("caffe2_tutorials/lemon.jpg", "coral/imagenet_labels.txt"))
    words = ["--picture", lemon, "--label", "lemon", "--labels", labels, "--preprocessing", "0..1", "--samples", 1]
    status, out, _ = armnet("compare", model, *words, "--json")
    assert status == 1
    fix = json.loads(out)["picture"]["fix"]
    assert fix["changes"] == ["mean and std of caffe", "BGR instead of RGB"]


@pytest.mark.skipif(not MODELS.is_dir(), reason="real networks are not beside the project")
@pytest.mark.parametrize(
    "name", ["onnx/mnist_8/*.onnx", "onnx/silero_vad/*.onnx", "tflite/mlperf_tiny_vww*/*int8.tflite"]
)
def test_wide_samples_find_nothing_in_pairs_that_are_right(name: str) -> None:
    pytest.importorskip("onnxruntime", reason="comparing needs onnxruntime")
    pytest.importorskip("ai_edge_litert", reason="comparing needs LiteRT")
    from armnet.shapes import shapes_of

    (model,) = MODELS.glob(name)
    pair = pair_of(model, plain=True)
    assert api.compare(model, pair, shapes=shapes_of([], pair)).first is None
