"""Bundles: one file that runs where Python and NumPy are."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from runtime_arm import Pair, load
from runtime_arm.bundle import open_bundle
from runtime_arm.errors import PairError
from runtime_arm.netdef import NetDef, OperatorDef
from runtime_arm.pair_meta import TensorInfo

bundles = pytest.importorskip("exporter.bundle", reason="the exporter is not installed beside the runtime")

W = np.random.default_rng(0).standard_normal((4, 300)).astype(np.float32)


@pytest.fixture
def pair() -> Pair:
    init = NetDef(
        "init",
        (
            OperatorDef.of("GivenTensorFill", [], ["w"], values=W),
            OperatorDef.of("GivenTensorFill", [], ["b"], values=np.zeros(4, np.float32)),
        ),
    )
    predict = NetDef.from_text('net "predict": x, w, b -> y\nFC(x, w, b) -> y')
    return Pair(
        init,
        predict,
        (TensorInfo("x", (1, 300), "float32"),),
        (TensorInfo("y"),),
        meta={"labels": ["zero", "one", "two", "three"]},
    )


@pytest.fixture
def bundle(pair: Pair, tmp_path: Path) -> Path:
    bundles.pack(pair, tmp_path / "app.pyz")
    return tmp_path / "app.pyz"


def app(bundle: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Runs the bundle as a user does, with nothing of the project on the path."""
    return subprocess.run(
        [sys.executable, "-I", bundle.name, *words], cwd=bundle.parent, capture_output=True, text=True, check=False
    )


def test_a_bundle_answers(bundle: Path) -> None:
    x = np.random.default_rng(1).standard_normal((1, 300)).astype(np.float32)
    np.save(bundle.parent / "x.npy", x)
    done = app(bundle, "x.npy", "--top", "1", "--output", "y.npz")
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(np.load(bundle.parent / "y.npz")["y"], x @ W.T, rtol=1e-4, atol=1e-4)
    assert ["zero", "one", "two", "three"][int(np.argmax(x @ W.T))] in done.stdout


def test_a_bundle_tests_itself_and_describes_itself_and_times_itself(bundle: Path) -> None:
    tested = app(bundle, "--self-test")
    assert tested.returncode == 0, tested.stderr
    assert "self-test passed" in tested.stdout
    assert json.loads(app(bundle, "--info", "--json").stdout)["inputs"] == "x float32 (1, 300)"
    assert json.loads(app(bundle, "--bench", "3", "--json").stdout)["runs"] == 3


def test_equal_pairs_give_equal_bytes(pair: Pair, tmp_path: Path) -> None:
    for name in ("a.pyz", "b.pyz"):
        bundles.pack(pair, tmp_path / name)
    assert (tmp_path / "a.pyz").read_bytes() == (tmp_path / "b.pyz").read_bytes()


def test_weights_are_views_of_the_mapped_file(bundle: Path) -> None:
    values = open_bundle(bundle).pair.init_net.op[0].get_tensor("values")
    assert not values.flags.owndata
    assert values.ctypes.data % 64 == 0
    np.testing.assert_array_equal(values, W)


def test_load_takes_a_bundle(bundle: Path) -> None:
    assert load(bundle).run([np.ones((1, 300), np.float32)])["y"].shape == (1, 4)


@pytest.mark.parametrize("part", ["pair/init_net.pb", "runtime_arm/plan.py", "pair/sample.npz"])
def test_a_tampered_part_is_refused_by_name(bundle: Path, part: str) -> None:
    data = bytearray(bundle.read_bytes())
    with zipfile.ZipFile(bundle) as archive:
        content = archive.read(part)
    at = data.find(content) + len(content) - 3
    data[at] ^= 1
    bundle.write_bytes(data)
    with pytest.raises(PairError, match=part):
        open_bundle(bundle)


def test_missing_and_truncated_parts_are_refused(bundle: Path, tmp_path: Path) -> None:
    without = tmp_path / "without.pyz"
    with zipfile.ZipFile(bundle) as source, zipfile.ZipFile(without, "w") as target:
        for entry in source.infolist():
            if entry.filename != "runtime_arm/arena.py":
                target.writestr(entry, source.read(entry))
    with pytest.raises(PairError, match=r"runtime_arm/arena\.py"):
        open_bundle(without)
    for size in (0, 100, bundle.stat().st_size // 2, bundle.stat().st_size - 10):
        cut = tmp_path / "cut.pyz"
        cut.write_bytes(bundle.read_bytes()[:size])
        with pytest.raises(PairError):
            open_bundle(cut)


def test_a_compressed_part_is_refused(bundle: Path, tmp_path: Path) -> None:
    squeezed = tmp_path / "squeezed.pyz"
    with zipfile.ZipFile(bundle) as source, zipfile.ZipFile(squeezed, "w", zipfile.ZIP_DEFLATED) as target:
        for name in source.namelist():
            target.writestr(name, source.read(name))
    with pytest.raises(PairError, match="not stored"):
        open_bundle(squeezed)


def test_a_python_too_old_is_told_so(bundle: Path) -> None:
    program = "import runpy, sys; sys.version_info = (3, 8, 2); runpy.run_path(sys.argv[1], run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", program, str(bundle)], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("this program needs Python 3.9 or newer")
    assert len(done.stderr.splitlines()) == 1


def test_a_user_mistake_is_one_line_and_status_2(bundle: Path) -> None:
    for words in (("nowhere.npy",), ("--bench", "0"), (), ("a.npy", "b.npy", "c.npy")):
        done = app(bundle, *words)
        assert done.returncode == 2, words
        assert len(done.stderr.strip().splitlines()) == 1, done.stderr
