"""Files that are no models are named by what they are, with what to do; nothing of them is run."""

from __future__ import annotations

import json
import pickle
import zipfile
from pathlib import Path
from typing import Any, Dict

import pytest

from exporter import export
from exporter.bundle.pack import pack
from exporter.support import support
from runtime_arm.errors import FormatError
from tests.support.paths import DEMO


class Trap:
    """Leaves a trace where it is unpickled."""

    def __init__(self, trace: Path):
        self.trace = trace

    def __reduce__(self) -> Any:
        return Path.touch, (self.trace,)


HEADER = json.dumps({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
CONTENTS: Dict[str, Any] = {
    "a Git LFS pointer; .*git lfs pull": b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 3\n",
    "a web page; download": b"\n<!DOCTYPE html><html>404</html>",
    "an onnxruntime .ort file": b"\x20\x00\x00\x00ORTM" + bytes(20),
    "a safetensors file; it holds weights": len(HEADER).to_bytes(8, "little") + HEADER + bytes(4),
    "a GGUF file": b"GGUF" + bytes(20),
    "an HDF5 file; if it is a Keras model: .*pip install tensorflow": b"\x89HDF\r\n\x1a\n" + bytes(20),
    "an ncnn network": b"7767517\n1 1\n",
    "an empty file": b"",
    "a damaged zip archive": b"PK\x03\x04" + bytes(20),
}


@pytest.mark.parametrize("suffix", [".onnx", ".tflite", ".bin"])
@pytest.mark.parametrize("words", CONTENTS)
def test_is_named_by_its_bytes_whatever_its_suffix(words: str, suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"model{suffix}"
    path.write_bytes(CONTENTS[words])
    for task in (export, support):
        with pytest.raises(FormatError, match=f"model{suffix} is {words}") as refusal:
            task(str(path))
        assert "\n" not in str(refusal.value)


def test_pairs_and_bundles_need_no_export(tmp_path: Path) -> None:
    pair = export(str(DEMO / "digits.onnx"))
    pair.save(tmp_path / "digits")
    pack(pair, tmp_path / "digits.pyz")
    for name, kind in {"digits": "a pair already", "digits.pyz": "a bundle, which holds a pair already"}.items():
        for task in (export, support):
            with pytest.raises(FormatError, match=f"{name} is {kind}; the other commands take it as it is"):
                task(str(tmp_path / name))


def test_a_folder_without_a_model_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="is a folder; name the file of a model in it"):
        export(str(tmp_path))


@pytest.mark.parametrize("protocol", range(2, 6))
@pytest.mark.parametrize("name", ["forest.joblib", "model.pkl", "model.pt", "model.onnx"])
def test_pickles_are_never_opened(name: str, protocol: int, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(pickle.dumps(Trap(tmp_path / "trace"), protocol))
    with pytest.raises(FormatError, match="is a pickle; armnet never opens pickles"):
        export(str(tmp_path / name))
    assert not (tmp_path / "trace").exists()


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["hand.tflite", "palm.tflite"], "a zip archive without a model: hand.tflite, palm.tflite"),
        (["model/data.pkl", "model/data/0"], "a PyTorch file, which holds pickles"),
        (["model/archive_format", "model/models/model.json"], "a torch.export archive .*pip install torch"),
        (["config.json", "model.weights.h5"], "a Keras model"),
        (["a", "b", "c", "d", "e"], "a zip archive without a model: a, b, c, d and 1 more"),
    ],
)
def test_archives_are_named_by_what_is_in_them(names: Any, words: str, tmp_path: Path) -> None:
    path = tmp_path / "model.task"
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(name, b"")
    with pytest.raises(FormatError, match=f"is {words}"):
        export(str(path))


def test_folders_and_suffixes_that_say_enough(tmp_path: Path) -> None:
    (tmp_path / "saved").mkdir()
    (tmp_path / "saved" / "saved_model.pb").write_bytes(b"\x08\x01")
    (tmp_path / "net.mlmodel").write_bytes(b"\x08\x05")
    with pytest.raises(FormatError, match=r"a TensorFlow SavedModel; .*pip install tensorflow"):
        export(str(tmp_path / "saved"))
    with pytest.raises(FormatError, match="a Core ML model; export"):
        export(str(tmp_path / "net.mlmodel"))


def test_models_are_models() -> None:
    assert export(str(DEMO / "digits.onnx")).predict_net.op
