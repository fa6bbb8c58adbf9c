"""An .npz: arrays for the inputs, and one with the labels."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Dict, List, Mapping, Optional, Sequence

import numpy as np

from runtime_arm.app.model import Model
from runtime_arm.errors import ArmnetError, FeedError, first_line
from runtime_arm.netdef import Array
from runtime_arm.pair.metadata import TensorInfo
from training.data.samples import ArraySamples

LABELS = ("labels", "label", "targets", "target", "y")
IMAGES = "images"  # the key of data sets with ``images`` and ``labels``


def archive_samples(path: Path, model: Model, labels: Optional[str] = None) -> ArraySamples:
    """The samples of an .npz: an array by the name of each input, or ``images`` for the only one, and the labels.

    labels: the key of these (default: the first of LABELS that is present). Pixels (N, H, W[, C]) of uint8 are prepared
    like pictures. FeedError if something is missing or does not fit.
    """
    arrays = arrays_in(path)
    infos = model.pair.inputs
    key = labels if labels is not None else next((name for name in LABELS if name in arrays), "")
    if key not in arrays:
        wanted = labels if labels is not None else ", ".join(LABELS)
        raise FeedError(f"{path}: holds {', '.join(arrays) or 'nothing'}; its labels should be called {wanted}")
    names = {info.name: _key(info, infos, arrays, key, path) for info in infos}
    inputs = {info.name: _fitting(arrays[names[info.name]], info, model, path) for info in infos}
    truths = arrays[key]
    if truths.ndim == 2 and truths.shape[1] == 1 and truths.dtype.kind in "iu":
        truths = truths[:, 0]
    if truths.dtype.kind not in "iuf":
        raise FeedError(f"{path}: {key} must be numbers, they are {truths.dtype.name}")
    return ArraySamples(inputs, truths)


def arrays_in(path: Path) -> Dict[str, Array]:
    """All arrays of an .npz. FeedError if it cannot be read."""
    try:
        with zipfile.ZipFile(path):  # NumPy's own reader prints more than an error for other files
            pass
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except ArmnetError:
        raise
    except OSError as error:
        raise FeedError(f"{path}: cannot be read: {error.strerror or error}") from error
    except Exception as error:  # NumPy raises anything for a broken file
        raise FeedError(f"{path}: cannot be read as an .npz: {first_line(error)}") from error


def _key(info: TensorInfo, infos: Sequence[TensorInfo], arrays: Mapping[str, Array], labels: str, path: Path) -> str:
    """The key of the array for an input."""
    if info.name in arrays:
        return info.name
    others: List[str] = [name for name in arrays if name != labels]
    if len(infos) == 1 and IMAGES in others:
        return IMAGES
    if len(infos) == 1 and len(others) == 1:
        return others[0]
    raise FeedError(f"{path}: holds {', '.join(arrays)}; none is for the input {info.name!r}")


def _fitting(array: Array, info: TensorInfo, model: Model, path: Path) -> Array:
    """The array in the shape and dtype of the input; pixels are prepared."""
    dtype = np.dtype(info.dtype or "float32")
    if array.dtype == np.uint8 != dtype and model.input is not None and array.ndim in (3, 4):
        return np.concatenate([model.prepared(pixels).feeds[info.name] for pixels in array])
    if array.dtype != dtype and not (array.dtype.kind == dtype.kind == "f"):
        raise FeedError(f"{path}: input {info.name!r} takes {dtype.name}, the array is {array.dtype.name}")
    inner = (info.shape or ())[1:]
    fits = len(inner) == array.ndim - 1 and all(
        not isinstance(size, int) or size == given for size, given in zip(inner, array.shape[1:])
    )
    if info.shape is not None and not fits:
        sizes = [size for size in inner if isinstance(size, int)]
        if len(sizes) < len(inner) or np.prod(sizes) != np.prod(array.shape[1:]):
            raise FeedError(f"{path}: input {info.name!r} takes {info.shape_text()}, the array is {array.shape}")
        array = array.reshape(len(array), *sizes)
    return np.ascontiguousarray(array, dtype)
