"""scripts/models_check tells apart models that work, are refused, differ or crash, and goes on where it was stopped."""

from __future__ import annotations

import csv
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, List

import numpy as np
import pytest

from armnet import comparison
from scripts.checking import isolated, one_model
from tests.support.faulty_pairs import with_larger_weights
from tests.support.paths import DEMO, ROOT, names_of_script

SCRIPT = ROOT / "scripts" / "models_check"


def rows_of(path: Path) -> Dict[str, Dict[str, str]]:
    with path.open(newline="") as file:
        return {row["model"]: row for row in csv.DictReader(file)}


def test_a_folder_is_checked_and_the_rest_only_once(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="the models are compared with onnxruntime")
    folder, table = tmp_path / "models", tmp_path / "found.csv"
    (folder / "inner").mkdir(parents=True)
    shutil.copy(DEMO / "digits.onnx", folder / "inner")
    command = [sys.executable, str(SCRIPT), str(folder), "--csv", str(table)]
    first = subprocess.run(command, capture_output=True, text=True, check=False)
    assert first.returncode == 0, first.stdout + first.stderr
    row = rows_of(table)["inner/digits.onnx"]
    assert row["outcome"] == "ok"
    assert row["inputs"] == "image=1,1,8,8; image=3,1,8,8"
    for column in ("from the runtime", "optimised from plain", "two workers from one"):
        assert float(row[column]) < 1e-4
    (folder / "bad.onnx").write_bytes(b"no model")
    second = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "digits" not in second.stderr
    assert "2 of 2" not in second.stderr
    assert {name: one["outcome"] for name, one in rows_of(table).items()} == {
        "inner/digits.onnx": "ok",
        "bad.onnx": "refused",
    }
    assert "1 ok, 1 refused" in second.stdout
    again = subprocess.run([*command, "--again", "refused"], capture_output=True, text=True, check=False)
    assert "bad.onnx: refused" in again.stderr


def check_with(monkeypatch: pytest.MonkeyPatch, **instead: Any) -> Dict[str, Any]:
    """The row of the demo's network if these functions were others."""
    for name, function in instead.items():
        monkeypatch.setattr(one_model, name, function)
    return dict(one_model.checked([DEMO / "digits.onnx"]))


def test_an_optimised_pair_that_differs_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    really = one_model.optimize

    def spoil(pair: Any, **options: Any) -> Any:
        return with_larger_weights(really(pair, **options))

    row = check_with(monkeypatch, optimize=spoil)
    assert row["outcome"] == "wrong"
    assert "optimised from plain differs" in row["remark"]


def sine_of_large_angles() -> Any:
    """A pair whose optimised form multiplies once instead of twice; its angles of some 50,000 lose all but two digits
    behind the point, so that rounding alone moves their sines."""
    from runtime_arm.netdef import NetDef, OperatorDef
    from runtime_arm.pair.fills import fill
    from runtime_arm.pair.metadata import TensorInfo
    from runtime_arm.pair.pair import Pair

    rng = np.random.default_rng(0)
    weights = {"w": rng.standard_normal((8, 4, 3, 3)), "b": rng.standard_normal(8), "s": 1000 * rng.standard_normal(8)}
    init = NetDef("init", tuple(fill(name, value.astype(np.float32)) for name, value in weights.items()))
    ops = (
        OperatorDef.of("Conv", ["x", "w", "b"], ["y"], kernel=3),
        OperatorDef.of("Mul", ["y", "s"], ["angle"], broadcast=1, axis=1),
        OperatorDef.of("Sin", ["angle"], ["z"]),
    )
    net = NetDef("sines", ops, external_input=("x", *weights), external_output=("z",))
    infos = [TensorInfo("x", (1, 4, 9, 9), "float32")], [TensorInfo("z", (1, 8, 7, 7), "float32")]
    return Pair(init, net, *infos, {})


@pytest.mark.parametrize("really_wrong", [False, True])
def test_rounding_of_optimised_pairs_is_told_from_faults(monkeypatch: pytest.MonkeyPatch, really_wrong: bool) -> None:
    plain = sine_of_large_angles()
    fast = with_larger_weights(one_model.optimize(plain)) if really_wrong else one_model.optimize(plain)
    monkeypatch.setattr(one_model, "_compare_with_runtime", lambda paths, plain, feeds, row: None)
    row: Dict[str, Any] = {}
    if really_wrong:
        with pytest.raises(one_model.Problem, match="optimised from plain differs"):
            one_model._run_all([], plain, fast, row)
    else:
        one_model._run_all([], plain, fast, row)
    assert float(row["optimised from plain"]) > one_model.TOLERANCE


def softmax_of_large_scores(axis: int) -> Any:
    """A pair with scores of some 50,000 before a Softmax: rounding alone turns its probabilities over."""
    from runtime_arm.netdef import NetDef, OperatorDef
    from runtime_arm.pair.pair import Pair

    product, softmax = OperatorDef("MatMul", ("x", "w"), ("scores",)), OperatorDef("Softmax", ("scores",), ("p",))
    ops = (product, softmax.with_args(axis=axis))
    return Pair.from_nets(NetDef("init"), NetDef("large", ops, external_input=("x", "w"), external_output=("p",)))


def test_rounding_that_grows_is_told_from_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    from exporter.common.reference_run import run_reference
    from exporter.compare.divergence import relative_error

    rng = np.random.default_rng(0)
    alike = 50 * rng.standard_normal((512, 1)) + 0.001 * rng.standard_normal((512, 64))
    feeds = {"x": 50 * rng.standard_normal((64, 512)), "w": alike}
    feeds = {name: value.astype(np.float32) for name, value in feeds.items()}
    original = run_reference(softmax_of_large_scores(axis=1), feeds)
    monkeypatch.setattr(one_model, "run_original", lambda paths, feeds, blobs: original)
    good, bad = softmax_of_large_scores(axis=1), softmax_of_large_scores(axis=0)
    grown = relative_error(original.blobs[-1].value, one_model._outputs(good, feeds, 1)["p"])
    assert grown > 2 * one_model.TOLERANCE
    both = {one.blob for one in original.blobs}
    assert one_model._fault([], good, feeds, both) is None
    found = one_model._fault([], bad, feeds, both)
    assert found is not None
    assert found.blob == "p"


def test_tiny_outputs_are_as_exact_as_a_sigmoid() -> None:
    wanted = np.asarray([1e-5, np.inf], np.float32)
    assert one_model._apart(wanted, wanted + np.float32(1e-7)) == 0
    assert one_model._apart(wanted, wanted + np.float32(1e-6)) == pytest.approx(0.1, rel=0.01)
    assert one_model._apart(np.arange(3), np.arange(3.0)) == float("inf")


def test_suggested_sizes_take_the_place_of_open_ones() -> None:
    from runtime_arm.pair.metadata import TensorInfo

    infos = [TensorInfo("x", ("n", 3, None), "float32"), TensorInfo("y", (2,), "int64")]
    assert [info.shape for info in one_model._with(infos, {"x": (4, 3, 7)})] == [(4, 3, 7), (2,)]


def test_nets_that_take_a_second_of_sound_are_run() -> None:
    from runtime_arm.netdef import NetDef, OperatorDef
    from runtime_arm.pair.metadata import TensorInfo
    from runtime_arm.pair.pair import Pair

    def shapes(*shape: Any) -> List[Any]:
        net = NetDef(op=(OperatorDef.of("Relu", ["x"], ["y"]),), external_input=("x",), external_output=("y",))
        pair = Pair(NetDef(), net, [TensorInfo("x", shape, "float32")], [TensorInfo("y", shape, "float32")], {})
        return [choice()["x"].shape for choice in one_model._choices(pair)]

    assert shapes("n", "samples")[-1] == (1, 16000)
    assert max(shape[-1] for shape in shapes("n", 3, "h", "w")) < 1000
    assert shapes(2, 7) == [(2, 7)]


def test_support_that_disagrees_with_export_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    from exporter.common.support_rows import Support

    row = check_with(monkeypatch, support=lambda *paths: [Support("Conv", 1, "missing")])
    assert row["outcome"] == "wrong"
    assert "support finds Conv missing" in row["remark"]


def test_an_exception_that_escapes_is_a_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*paths: Any) -> Any:
        raise KeyError("x")

    row = check_with(monkeypatch, export=fail)
    assert row["outcome"] == "crash"
    assert row["remark"].startswith("KeyError in test_models_check.py:")


def test_a_model_that_takes_too_long_is_a_crash() -> None:
    row = isolated.checked_in_process([DEMO / "digits.onnx"], isolated.Limits(0.05, 8))
    assert row == {"outcome": "crash", "remark": "took more than 0.05 seconds"}


def test_files_make_up_models(tmp_path: Path) -> None:
    names: List[str] = [
        "caffe/net.prototxt",
        "caffe/net.caffemodel",
        "caffe2/init_net.pb",
        "caffe2/predict_net.pb",
        "more/a.pbtxt",
        "more/b.pbtxt",
        "more/c.pb",
        "onnx/m.onnx",
        "onnx/input_0.pb",
        "readme.md",
    ]
    models_below = names_of_script("models_check")["models_below"]
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    found = [[str(file.relative_to(tmp_path)) for file in model] for model in models_below(tmp_path)]
    assert found == [
        ["caffe/net.prototxt", "caffe/net.caffemodel"],
        ["caffe2/init_net.pb", "caffe2/predict_net.pb"],
        ["more/a.pbtxt"],
        ["more/b.pbtxt"],
        ["more/c.pb"],
        ["onnx/m.onnx"],
    ]


def test_inputs_that_belong_together_get_one_size() -> None:
    from runtime_arm.netdef import NetDef, OperatorDef
    from runtime_arm.pair.metadata import TensorInfo
    from runtime_arm.pair.pair import Pair

    def choices(*infos: TensorInfo) -> List[Dict[str, Any]]:
        names = tuple(info.name for info in infos)
        net = NetDef(op=(OperatorDef.of("Sum", names, ["y"]),), external_input=names, external_output=("y",))
        pair = Pair(NetDef(), net, infos, [TensorInfo("y", None, "float32")], {})
        return [{name: spec.shape for name, spec in choice().items()} for choice in one_model._choices(pair)]

    sound, state = TensorInfo("sound", (None, None), "float32"), TensorInfo("state", (2, None, 128), "float32")
    assert {"sound": (1, 256), "state": (2, 1, 128)} in choices(sound, state)
    assert choices(TensorInfo("x", None, None)) == [{"x": (1, 3, 224, 224)}]
    assert all(len(set(chosen.values())) == 1 for chosen in choices(TensorInfo("x", (3, "n"), "float32")))


def test_a_fault_is_found_portion_by_portion(monkeypatch: pytest.MonkeyPatch) -> None:
    from exporter.common.reference_run import run_reference

    rng = np.random.default_rng(0)
    feeds = {"x": rng.standard_normal((4, 8)).astype(np.float32), "w": rng.standard_normal((8, 3)).astype(np.float32)}
    original = run_reference(softmax_of_large_scores(axis=1), feeds)
    asked: List[Any] = []

    def run_original(paths: Any, feeds: Any, blobs: Any) -> Any:
        asked.append(blobs)
        return original

    monkeypatch.setattr(one_model, "run_original", run_original)
    monkeypatch.setattr(comparison, "MOST_KEPT", 1)
    both = {one.blob for one in original.blobs}
    assert one_model._fault([], softmax_of_large_scores(axis=1), feeds, both) is None
    found = one_model._fault([], softmax_of_large_scores(axis=0), feeds, both)
    assert found is not None
    assert found.blob == "p"
    assert asked == [{"scores", "x", "w"}, {"p", "scores"}] * 2
    part, reads = one_model._fed_with(softmax_of_large_scores(axis=1), {"scores": original.blobs[0].value}, ["p"])
    assert [op.type for op in part.predict_net.op] == ["Softmax"]
    assert list(reads) == ["theirs:scores"]
