"""An .npz with ``images`` and ``labels``."""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING, Any, Callable, Dict, Sequence

import numpy as np

from armnet.evaluation.classification import ClassMeasure
from armnet.evaluation.example import Data, Example, stamp
from armnet.evaluation.truths import as_classifier, class_numbers, model_count, model_labels
from runtime_arm.errors import FeedError, first_line
from runtime_arm.netdef import Array
from runtime_arm.pair.metadata import TensorInfo

if TYPE_CHECKING:
    from runtime_arm.app.model import Model

KEYS = ("images", "labels")


def fits(path: str) -> bool:
    """Whether the file is an archive by its name."""
    return path.lower().endswith(".npz")


def read(path: str, model: Model, notice: Callable[[str], None]) -> Data:
    """The examples: ``images`` as the net takes them, or pixels (N, H, W[, C]) of uint8; ``labels`` are numbers of
    classes or their names."""
    as_classifier(model, notice)
    images, labels = _arrays(path)
    if labels.dtype.kind in "US":
        names = [str(name) for name in labels.astype(str)]
        numbers = class_numbers(sorted(set(names)), model_labels(model), model_count(model), path)
        truths = [numbers[name] for name in names]
    else:
        count = model_count(model)
        if count is not None and len(labels) and not 0 <= labels.min() <= labels.max() < count:
            raise FeedError(f"{path}: labels from {labels.min()} to {labels.max()}, but the model has {count} classes")
        truths = [int(number) for number in labels]
    examples = _Examples(images, truths, model.pair.inputs, model.input is not None, path)
    what = f"{len(truths)} images of {len(set(truths))} classes"
    return Data(examples, ClassMeasure(model.labels), stamp(path), what)


def _arrays(path: str) -> Sequence[Array]:
    try:
        with zipfile.ZipFile(path):  # NumPy's own reader prints more than an error for other files
            pass
        with np.load(path, allow_pickle=False) as archive:
            missing = [key for key in KEYS if key not in archive.files]
            if missing:
                raise FeedError(
                    f"{path}: has no array {missing[0]!r}; it holds {', '.join(archive.files) or 'nothing'}"
                )
            images, labels = archive["images"], archive["labels"]
    except FeedError:
        raise
    except Exception as error:  # NumPy raises anything for a broken file
        raise FeedError(f"{path}: cannot be read as an .npz: {first_line(error)}") from error
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1 or labels.dtype.kind not in "iuUS":
        raise FeedError(f"{path}: labels must be (N,) numbers or names, got {labels.dtype.name} {labels.shape}")
    if images.ndim < 2 or len(images) != len(labels):
        raise FeedError(f"{path}: images {images.shape} and labels {labels.shape} differ in number")
    return images, labels


class _Examples(Sequence[Example]):
    """Examples that are made on demand, from arrays in memory."""

    def __init__(self, images: Array, truths: Sequence[int], infos: Sequence[TensorInfo], pictures: bool, path: str):
        self._images, self._truths, self._path = images, truths, path
        self._feed = _feeder(images, infos, pictures, path)

    def __len__(self) -> int:
        return len(self._truths)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        if not 0 <= index < len(self):
            raise IndexError(index)
        return Example(f"images[{index}]", self._feed(self._images[index]), self._truths[index])


def _feeder(images: Array, infos: Sequence[TensorInfo], pictures: bool, path: str) -> Callable[[Array], Any]:
    """A function that turns an image into what the model takes: {input: array} in the net's own shape, or pixels."""
    info = infos[0]
    dtype = np.dtype(info.dtype or "float32")
    inner = images.shape[1:]
    if len(infos) == 1 and _castable(images.dtype, dtype):
        shape = (1, *inner) if info.shape is None else _shape_for(info.shape[1:], inner)
        if shape is not None:

            def as_array(image: Array) -> Dict[str, Array]:
                return {info.name: np.ascontiguousarray(image.reshape(shape), dtype)}

            return as_array
    if pictures and images.dtype == np.uint8 and (len(inner) == 2 or (len(inner) == 3 and inner[2] in (1, 3, 4))):
        return lambda image: image
    takes = ", ".join(f"{one.name} {one.dtype or '?'} {one.shape_text()}" for one in infos)
    raise FeedError(
        f"{path}: images of {images.dtype.name} {images.shape} are neither what the net takes, {takes}, "
        "nor pixels (N, H, W, C) of uint8"
    )


def _castable(given: Any, wanted: Any) -> bool:
    """Whether numbers of one dtype can be fed as another; integers never count as prepared floats."""
    return bool(given == wanted or (given.kind == wanted.kind == "f"))


def _shape_for(declared: Sequence[Any], inner: Sequence[int]) -> Any:
    """The shape, with a batch of one, in which an image of the shape ``inner`` is fed; None if it does not fit."""
    if len(declared) == len(inner) and all(not isinstance(a, int) or a == b for a, b in zip(declared, inner)):
        return (1, *inner)
    plain = [size for size in declared if size != 1]
    if all(isinstance(size, int) for size in plain) and plain == [size for size in inner if size != 1]:
        return (1, *declared)  # (8, 8) for a net that takes (1, 8, 8)
    return None
