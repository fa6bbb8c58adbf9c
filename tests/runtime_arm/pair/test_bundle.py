"""Bundles: one file that runs on any machine with Python and NumPy."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Iterator

import numpy as np
import pytest

from device_tests.suite.tolerance import assert_close
from runtime_arm import Pair, load
from runtime_arm.app.command_line import UNREAD
from runtime_arm.errors import PairError, ResourceError
from runtime_arm.netdef import NetDef, OperatorDef
from runtime_arm.pair.bundle import open_bundle
from runtime_arm.pair.metadata import TensorInfo

bundles = pytest.importorskip("exporter.bundle.pack", reason="the exporter is not installed beside the runtime")

W = np.random.default_rng(0).standard_normal((4, 300)).astype(np.float32)


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cache of these tests' own, which their bundles share."""
    folder: Path = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ARMNET_CACHE", str(folder))
        patch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
        yield folder


@pytest.fixture(scope="module")
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


@pytest.fixture(scope="module")
def packed(pair: Pair, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp("packed") / "app.pyz"
    bundles.pack(pair, path)
    return path


@pytest.fixture
def bundle(packed: Path, tmp_path: Path) -> Path:
    """A copy that may be changed."""
    return Path(shutil.copy(packed, tmp_path))


def app(bundle: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Runs the bundle as a user does, with nothing of the project on the path."""
    return subprocess.run(
        [sys.executable, "-I", bundle.name, *words], cwd=bundle.parent, capture_output=True, text=True, check=False
    )


def test_a_bundle_runs_inputs(bundle: Path) -> None:
    x = np.random.default_rng(1).standard_normal((1, 300)).astype(np.float32)
    np.save(bundle.parent / "x.npy", x)
    done = app(bundle, "x.npy", "--top", "1", "--output", "y.npz")
    assert done.returncode == 0, done.stderr
    assert_close(np.load(bundle.parent / "y.npz")["y"], x @ W.T, terms=300)
    assert ["zero", "one", "two", "three"][int(np.argmax(x @ W.T))] in done.stdout


def test_a_bundle_tests_itself_and_describes_itself_and_times_itself(bundle: Path) -> None:
    tested = app(bundle, "--self-test")
    assert tested.returncode == 0, tested.stderr
    assert "self-test passed" in tested.stdout
    assert json.loads(app(bundle, "--info", "--json").stdout)["inputs"] == "x float32 (1, 300)"
    assert json.loads(app(bundle, "--bench", "3", "--json").stdout)["runs"] == 3


def test_a_bundle_keeps_its_compiled_code_and_runs_where_it_cannot(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARMNET_CACHE", str(tmp_path / "own"))
    first, program = app(bundle, "--self-test"), "import sys; sys.argv = sys.argv[1:]; import runpy\n"
    program += "sys.addaudithook(lambda event, given: event == 'compile' and print(given[1]))\n"
    program += "runpy.run_path(sys.argv[0], run_name='__main__')"
    (entry,) = (tmp_path / "own" / "code").iterdir()
    again = subprocess.run(
        [sys.executable, "-Ic", program, str(bundle), "--self-test"], capture_output=True, text=True, check=True
    )
    compiled = {Path(line).name for line in again.stdout.splitlines() if line.endswith(".py")}
    assert compiled == {"__main__.py", "bytecode_cache.py"}
    assert again.stdout.endswith(first.stdout)
    entry.write_bytes(entry.read_bytes()[:-100])
    assert app(bundle, "--self-test").stdout == first.stdout
    monkeypatch.setenv("ARMNET_CACHE", "/dev/null")
    assert app(bundle, "--self-test").stdout == first.stdout


def test_equal_pairs_give_equal_bytes(pair: Pair, packed: Path, tmp_path: Path) -> None:
    bundles.pack(pair, tmp_path / "again.pyz")
    assert (tmp_path / "again.pyz").read_bytes() == packed.read_bytes()


def test_each_item_of_a_batch_has_answers_of_its_own(bundle: Path) -> None:
    x = np.zeros((2, 300), np.float32)
    x[0], x[1] = W[2], W[1]
    np.save(bundle.parent / "x.npy", x)
    (run,) = json.loads(app(bundle, "x.npy", "--top", "1", "--json").stdout)["runs"]
    assert [(answer["item"], answer["label"]) for answer in run["top"]] == [(0, "two"), (1, "one")]
    lines = app(bundle, "x.npy", "--top", "1").stdout.splitlines()
    assert [line.split()[::2] for line in lines[1:]] == [["[0]", "two"], ["[1]", "one"]]


def test_a_bundle_runs_from_anywhere_read_only_and_under_any_name(bundle: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.ones((1, 300), np.float32))
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    app_file = bundle.rename(folder / "für alle (1).pyz")
    app_file.chmod(0o444)
    folder.chmod(0o555)
    done = subprocess.run(
        [sys.executable, "-I", str(app_file), "x.npy"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    folder.chmod(0o755)
    assert done.returncode == 0, done.stderr
    assert len(list(folder.iterdir())) == 1


def test_a_closed_pipe_is_told_by_the_status_alone_and_an_ascii_terminal_is_no_error(bundle: Path) -> None:
    np.save(bundle.parent / "x.npy", np.ones((1, 300), np.float32))
    (bundle.parent / "labels.txt").write_text("größe\n" * 4, encoding="utf-8")
    words = [sys.executable, bundle.name, "x.npy", "--labels", "labels.txt"]
    reading, writing = os.pipe()
    os.close(reading)
    help_statuses = (0, UNREAD)  # argparse of newer Pythons hides that nobody reads
    for command, statuses in ((words, (UNREAD,)), ([*words[:2], "--help"], help_statuses)):
        gone = subprocess.run(command, cwd=bundle.parent, stdout=writing, stderr=subprocess.PIPE, check=False)
        assert gone.returncode in statuses
        assert gone.stderr == b""
    os.close(writing)
    plain = subprocess.run(
        words,
        cwd=bundle.parent,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (plain.returncode, plain.stderr) == (0, "")
    assert "gr\\xf6\\xdfe" in plain.stdout


def test_ctrl_c_is_one_line(bundle: Path) -> None:
    program = (
        "import runpy, signal, sys, os; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from runtime_arm import Predictor; Predictor.run = lambda *a: os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.argv = [sys.argv[1], '--bench']; runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    environment = {**os.environ, "PYTHONPATH": str(bundle)}
    done = subprocess.run(
        [sys.executable, "-c", program, str(bundle)], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 128 + signal.SIGINT
    assert done.stderr == "app.pyz: interrupted\n"


def test_weights_are_views_of_the_mapped_file(bundle: Path) -> None:
    values = open_bundle(bundle).pair.init_net.op[0].get_tensor("values")
    assert not values.flags.owndata
    assert values.ctypes.data % 64 == 0
    np.testing.assert_array_equal(values, W)


def test_load_takes_a_bundle(bundle: Path) -> None:
    assert load(bundle).run([np.ones((1, 300), np.float32)])["y"].shape == (1, 4)


@pytest.mark.parametrize("part", ["pair/init_net.pb", "runtime_arm/planning/plan.py", "pair/sample.npz"])
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
            if entry.filename != "runtime_arm/planning/arena.py":
                target.writestr(entry, source.read(entry))
    with pytest.raises(PairError, match=r"runtime_arm/planning/arena\.py"):
        open_bundle(without)
    for size in (0, 100, bundle.stat().st_size // 2, bundle.stat().st_size - 10):
        cut = tmp_path / "cut.pyz"
        cut.write_bytes(bundle.read_bytes()[:size])
        with pytest.raises(PairError):
            open_bundle(cut)


def test_damage_anywhere_in_the_archive_is_refused_in_one_line(packed: Path, tmp_path: Path) -> None:
    whole, draw = packed.read_bytes(), random.Random(0)
    directory, opened = whole.find(b"PK\x01\x02"), []
    for attempt in range(300):
        damaged = bytearray(whole[draw.randrange(1, 60) if attempt % 10 == 0 else 0 :])
        for _ in range(draw.randint(1, 4)):
            damaged[draw.randrange(directory - 60, len(damaged))] = draw.choice([0, 1, 0x7F, 0x80, 0xFF])
        path = tmp_path / f"{attempt}.pyz"
        path.write_bytes(damaged)
        with suppress(PairError):  # what spoils but a date or a mode is no damage
            open_bundle(path)
            opened.append(path)
        path.unlink()
    assert len(opened) < 100


def test_a_compressed_bundle_is_smaller_and_does_the_same(pair: Pair, packed: Path, tmp_path: Path) -> None:
    squeezed = tmp_path / "squeezed.pyz"
    bundles.pack(pair, squeezed, compress=True)
    assert squeezed.stat().st_size < 0.6 * packed.stat().st_size
    assert open_bundle(squeezed).pair == open_bundle(packed).pair
    assert load(squeezed).run([np.ones((1, 300), np.float32)])["y"].shape == (1, 4)
    np.save(tmp_path / "x.npy", np.ones((1, 300), np.float32))
    shutil.copy(packed, tmp_path)
    of_both = [app(tmp_path / name, "x.npy", "--json") for name in (packed.name, squeezed.name)]
    assert of_both[0].stdout == of_both[1].stdout
    damaged = bytearray(squeezed.read_bytes())
    damaged[damaged.index(b"pair/init_net.pb") + 1000] ^= 1
    squeezed.write_bytes(damaged)
    with pytest.raises(PairError, match=r"pair/init_net\.pb"):
        open_bundle(squeezed)


def test_a_compressed_bundle_that_becomes_too_large_is_refused(
    pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundles.pack(pair, tmp_path / "squeezed.pyz", compress=True)
    monkeypatch.setattr("runtime_arm.machine.memory.memory_limit", lambda: 1 << 20)
    with pytest.raises(ResourceError, match=r"squeezed\.pyz needs"):
        open_bundle(tmp_path / "squeezed.pyz")


def test_a_python_that_is_too_old_is_refused_in_one_line(bundle: Path) -> None:
    program = "import runpy, sys; sys.version_info = (3, 8, 2); runpy.run_path(sys.argv[1], run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", program, str(bundle)], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("this program needs Python 3.9 or newer")
    assert len(done.stderr.splitlines()) == 1


NO_LIBRARY = "raise ImportError('\\nREAD THIS\\nOriginal error was: libcblas.so.3: cannot open\\n')"


@pytest.mark.parametrize(
    ("numpy", "told"),
    [
        ("raise ModuleNotFoundError(name='numpy')", "this program needs NumPy: apt-get install python3-numpy"),
        (NO_LIBRARY, "this program needs NumPy: Original error was: libcblas.so.3"),
        ("raise KeyboardInterrupt", ""),
    ],
)
def test_a_numpy_that_does_not_start_is_reported_in_one_line(
    bundle: Path, tmp_path: Path, numpy: str, told: str
) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "numpy.py").write_text(numpy)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "broken")}
    done = subprocess.run([sys.executable, bundle], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == (2 if told else 130)
    assert told in done.stderr
    assert len(done.stderr.splitlines()) == bool(told)


def test_a_user_mistake_is_one_line_and_status_2(bundle: Path) -> None:
    for words in (("nowhere.npy",), ("--bench", "0"), (), ("a.npy", "b.npy", "c.npy")):
        done = app(bundle, *words)
        assert done.returncode == 2, words
        assert len(done.stderr.strip().splitlines()) == 1, done.stderr
