"""Models inside other files: archives as MediaPipe's .task bundles, PyTorch's programs, TensorFlow's models."""

from __future__ import annotations

import io
import json
import sys
import types
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any, Dict

import numpy as np
import pytest

import armnet
from device_tests.suite.tolerance import assert_close
from exporter import export
from exporter.archives import archived
from exporter.compare.original_run import run_original
from exporter.support import support
from runtime_arm import Predictor
from runtime_arm.errors import ArmnetError, ExportError, FormatError, UsageError
from tests.support.paths import DEMO
from tests.support.tflite_models import Model

ONNX = (DEMO / "digits.onnx").read_bytes()


def doubling() -> bytes:
    """A .tflite file that adds its input to itself."""
    model = Model()
    x, y = model.input("x", (4,)), model.tensor("y", (4,))
    model.operator("ADD", [x, x], [y], "AddOptions")
    return model.to_bytes([y])


def archive(members: Dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compression) as made:
        for name, content in members.items():
            made.writestr(name, content)
    return stream.getvalue()


def doubles(pair: Any) -> bool:
    with Predictor(pair) as predictor:
        (y,) = predictor.run([np.arange(4, dtype=np.float32)]).values()
        return bool((y == 2 * np.arange(4)).all())


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("suffix", [".task", ".zip", ".bin"])
def test_the_only_model_of_an_archive(tmp_path: Path, suffix: str, compression: int) -> None:
    """Known by its bytes, whatever its name, beside other files."""
    path = tmp_path / f"bundle{suffix}"
    path.write_bytes(archive({"labels.txt": b"cat\ndog\n", "MODEL": doubling(), "folder/": b""}, compression))
    pair = export(path)
    assert doubles(pair)
    assert pair.meta["source"]["name"] == "MODEL"
    assert [row.type for row in support(path)] == ["ADD"]
    assert doubles(armnet.open(path).pair)


def test_one_of_several_models_is_named_by_its_path(tmp_path: Path) -> None:
    """Also in an archive that lies in the archive, as in gesture_recognizer.task."""
    inner = archive({"detector.tflite": doubling(), "digits.onnx": ONNX})
    path = tmp_path / "gesture.task"
    path.write_bytes(archive({"hand.task": inner, "embedder.tflite": doubling()}))
    for task in (export, support, armnet.open):
        with pytest.raises(UsageError, match=r"holds 3 models, hand.task/detector.tflite, hand.task/digits.onnx, emb"):
            task(str(path))
    for name in ("hand.task/detector.tflite", "embedder.tflite"):
        assert doubles(export(path / name))
        assert doubles(armnet.open(path / name).pair)
        original = run_original([path / name], {"x": np.ones(4, np.float32)})
        np.testing.assert_array_equal(original.blobs[0].value, 2 * np.ones(4))
    assert export(path / "hand.task/digits.onnx").inputs == export(DEMO / "digits.onnx").inputs
    with pytest.raises(FormatError, match=r"holds no model palm.tflite; it has hand.task/detector.tflite"):
        export(path / "palm.tflite")


def test_archives_that_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "bundle.task"
    data = archive({"model.tflite": doubling()}, zipfile.ZIP_DEFLATED)
    for length in (4, 30, len(data) // 2, len(data) - 5):
        path.write_bytes(data[:length])
        with pytest.raises(FormatError, match="a damaged zip archive"):
            export(path)
        with pytest.raises(FormatError, match="is a damaged zip archive"):
            export(path / "model.tflite")
    rng = np.random.default_rng(3)
    for _ in range(300):
        damaged = bytearray(data)
        damaged[rng.integers(0, len(data))] = rng.integers(0, 256)
        path.write_bytes(damaged)
        with suppress(ArmnetError):
            export(path)


def test_a_member_larger_than_memory_is_refused(tmp_path: Path) -> None:
    """It is not read."""
    path = tmp_path / "bundle.task"
    data = bytearray(archive({"model.tflite": doubling()}, zipfile.ZIP_DEFLATED))
    directory = data.rindex(b"PK\x01\x02")
    data[directory + 24 : directory + 28] = (0xFFFFFFF0).to_bytes(4, "little")  # the size after unpacking
    path.write_bytes(data)
    with pytest.raises(ArmnetError):
        export(path)


def test_what_is_no_archive_is_left_alone(tmp_path: Path) -> None:
    assert archived(DEMO / "digits.onnx") is None
    assert archived(tmp_path) is None
    assert archived(tmp_path / "missing" / "model.tflite") is None
    assert archived(DEMO / "digits.onnx" / "inside") is None


def program(folder: Path) -> Path:
    path = folder / "net.pt2"
    path.write_bytes(archive({"net/archive_format": b"pt2", "net/models/model.json": json.dumps({}).encode()}))
    return path


def fake(monkeypatch: pytest.MonkeyPatch, name: str, **content: Any) -> Any:
    """A module of this name in place of the real one."""
    module = types.ModuleType(name)
    for key, value in content.items():
        setattr(module, key, value)
    monkeypatch.setitem(sys.modules, name, module)
    return module


def test_a_program_is_loaded_without_pickles(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With a stand-in for PyTorch that loads as torch.export does: pickles as well, if it may."""
    seen = []

    def load(path: str, weights_only: bool = False) -> None:
        seen.append((Path(path).name, weights_only))

    torch = fake(monkeypatch, "torch", load=load)

    def load_program(path: str) -> Any:
        torch.load(path, weights_only=False)
        raise RuntimeError("the program is\nbroken")

    torch.export = types.SimpleNamespace(load=load_program)
    with pytest.raises(ExportError, match=r"net.pt2: PyTorch cannot read it: the program is$") as refusal:
        export(program(tmp_path))
    assert "\n" not in str(refusal.value)
    assert seen == [("net.pt2", True)]
    assert torch.load is load


def test_without_pytorch_a_program_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(FormatError, match=r"a torch.export archive .*pip install torch onnxscript"):
        export(program(tmp_path))


def test_a_program_answers_as_in_pytorch(tmp_path: Path) -> None:
    pytest.importorskip("onnxscript", reason="PyTorch's ONNX exporter needs onnxscript")
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    network, x = torch.nn.Linear(5, 3).eval(), torch.randn(2, 5)
    torch.export.save(torch.export.export(network, (x,)), str(tmp_path / "net.pt2"))
    with Predictor(export(tmp_path / "net.pt2")) as predictor, torch.no_grad():
        (y,) = predictor.run([x.numpy()]).values()
        assert_close(y, network(x).numpy(), terms=6)


def saved_model(folder: Path) -> Path:
    (folder / "saved").mkdir()
    (folder / "saved" / "saved_model.pb").write_bytes(b"\x08\x01")
    return folder / "saved"


def keras_file(folder: Path) -> Path:
    path = folder / "net.keras"
    path.write_bytes(archive({"config.json": b"{}", "metadata.json": b"{}", "model.weights.h5": b"\x89HDF\r\n"}))
    return path


def hdf5_file(folder: Path) -> Path:
    path = folder / "net.h5"
    path.write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(20))
    return path


def tensorflow(monkeypatch: pytest.MonkeyPatch, convert: Any) -> Any:
    """A stand-in for TensorFlow that converts everything in this way, and the list of what it was given."""
    given: Any = []

    def converter(model: Any) -> Any:
        given.append(model)
        return types.SimpleNamespace(convert=convert)

    def load_model(path: str, compile: bool, safe_mode: bool) -> str:
        assert safe_mode
        assert not compile
        return path

    lite = types.SimpleNamespace(TFLiteConverter=types.SimpleNamespace(from_saved_model=converter))
    lite.TFLiteConverter.from_keras_model = converter
    models = types.SimpleNamespace(models=types.SimpleNamespace(load_model=load_model))
    fake(monkeypatch, "tensorflow", lite=lite, keras=models)
    return given


@pytest.mark.parametrize("make", [saved_model, keras_file, hdf5_file])
def test_tensorflow_converts_its_models(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, make: Any) -> None:
    given, path = tensorflow(monkeypatch, doubling), make(tmp_path)
    assert doubles(export(path))
    assert given == [str(path)]
    assert [row.type for row in support(path)] == ["ADD"]
    assert doubles(armnet.open(path).pair)


def test_what_tensorflow_prints_is_no_output(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def convert() -> Any:
        print("Saved artifact")
        return doubling()

    tensorflow(monkeypatch, convert)
    assert doubles(export(saved_model(tmp_path)))
    printed = capsys.readouterr()
    assert not printed.out
    assert "Saved artifact" in printed.err


@pytest.mark.parametrize("make", [saved_model, keras_file, hdf5_file])
def test_what_tensorflow_cannot_convert(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, make: Any) -> None:
    def convert() -> bytes:
        raise ValueError("an operator\nis missing")

    tensorflow(monkeypatch, convert)
    with pytest.raises(ExportError, match="TensorFlow cannot convert it: an operator") as refusal:
        export(make(tmp_path))
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("make", [saved_model, keras_file, hdf5_file])
def test_without_tensorflow_its_models_say_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, make: Any
) -> None:
    monkeypatch.setitem(sys.modules, "tensorflow", None)
    with pytest.raises(FormatError, match="where TensorFlow is installed: pip install tensorflow"):
        export(make(tmp_path))
