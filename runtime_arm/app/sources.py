"""Where inputs come from: files, folders, patterns, videos, cameras and standard input, one after the other."""

from __future__ import annotations

import glob
import os
import sys
from typing import Any, Dict, Iterator, Optional, Sequence

from runtime_arm.app.inputs import named, read_npy, read_npz
from runtime_arm.app.pictures import SUFFIXES
from runtime_arm.app.sounds import SUFFIXES as SOUNDS
from runtime_arm.errors import ArmnetError, FeedError, MissingDependency, UsageError, first_line
from runtime_arm.pair.metadata import TensorInfo
from runtime_arm.records import NamedTuple

VIDEOS = (".mp4", ".mov", ".mkv", ".avi", ".webm", ".m4v", ".mpg", ".mpeg", ".ts")
CAMERA = "camera"
_MOST_BYTES = 1 << 28  # read from standard input


class Item(NamedTuple):
    """One input: its name for people, and the value for ``Model.answers``, or why it cannot be read."""

    name: str
    value: Any
    error: Optional[ArmnetError] = None


def items_of(
    words: Sequence[str], infos: Sequence[TensorInfo], every: int = 1, hears: Optional[bool] = None
) -> Iterator[Item]:
    """The inputs that the words name, in order, read when they are asked for.

    A word is a picture, a sound, an .npz, a folder of these, a pattern (``photos/*.jpg``), a video, ``camera`` or
    ``camera:1``, ``-`` for standard input, or NAME=FILE for the input of that name; all .npy files together are one
    input. every: for videos and cameras, take one frame in this many. hears: whether the net takes sounds and not
    pictures: folders are searched for these; None for both.
    """
    arrays: Dict[str, Any] = {}
    positional = iter(infos)
    for word in words:
        name, path = word.split("=", 1) if "=" in word and not os.path.exists(word) else ("", word)
        if path.lower().endswith(".npy"):
            info = named(name, infos) if name else next(positional, None)
            if info is None:
                raise FeedError(f"{path}: more files than the net's {len(infos)} inputs")
            arrays[info.name] = read_npy(path)
        elif name:
            arrays.update(_named_file(named(name, infos), path))
        else:
            yield from _items(path, infos, every, hears)
    if arrays:
        yield Item(", ".join(arrays), arrays)


def _named_file(info: TensorInfo, path: str) -> Dict[str, Any]:
    if path.lower().endswith(".npz"):
        return dict(read_npz(path, [info.name]))
    from runtime_arm.app.pictures import read_picture

    return {info.name: read_picture(path, {}, info.shape, info.dtype or "float32")}


def _items(path: str, infos: Sequence[TensorInfo], every: int, hears: Optional[bool]) -> Iterator[Item]:
    if path == "-":
        yield Item("-", _standard_input())
    elif path == CAMERA or path.startswith(f"{CAMERA}:"):
        yield from _frames(_camera(path), path, every)
    elif os.path.isdir(path):
        files = list(_below(path, hears))
        if not files:
            wanted = {None: "picture, sound, video", True: "sound", False: "picture, video"}[hears]
            raise FeedError(f"{path}: the folder holds no {wanted} or .npz")
        for file in files:
            yield from _file(file, infos, every)
    elif not os.path.exists(path) and glob.has_magic(path):
        found = sorted(glob.glob(path, recursive=True))
        if not found:
            raise FeedError(f"{path}: no file fits this pattern")
        for file in found:
            yield from _file(file, infos, every)
    else:
        yield from _file(path, infos, every)


def _file(path: str, infos: Sequence[TensorInfo], every: int) -> Iterator[Item]:
    if path.lower().endswith(VIDEOS):
        yield from _frames(_video(path), path, every)
    elif path.lower().endswith((".npz", ".npy")):
        try:
            names = [info.name for info in infos]
            yield Item(path, read_npz(path, names) if path.lower().endswith(".npz") else {names[0]: read_npy(path)})
        except ArmnetError as error:
            yield Item(path, None, error)
    else:
        yield Item(path, path)


def count_of(words: Sequence[str], hears: Optional[bool] = None) -> Optional[int]:
    """How many inputs the words make; None if that is not known before the end."""
    total = 0
    for word in words:
        if word == "-" or word.startswith(CAMERA) or word.lower().endswith(VIDEOS):
            return None
        if os.path.isdir(word):
            total += sum(1 for _ in _below(word, hears))
        elif not os.path.exists(word) and glob.has_magic(word):
            total += len(glob.glob(word, recursive=True))
        else:
            total += 1
    return total


def _below(folder: str, hears: Optional[bool]) -> Iterator[str]:
    """The files of a folder and of those in it that can be inputs, in the order of their names."""
    seen = () if hears else (*SUFFIXES, *VIDEOS)
    suffixes = (*seen, *(() if hears is False else SOUNDS), ".npz")
    for place, folders, files in os.walk(folder):
        folders.sort()
        for name in sorted(files):
            path = os.path.join(place, name)
            if path.lower().endswith(suffixes):
                yield path


def _standard_input() -> bytes:
    content = sys.stdin.buffer.read(_MOST_BYTES + 1)
    if not content:
        raise FeedError("-: standard input is empty; send a picture or a sound through it")
    if len(content) > _MOST_BYTES:
        raise FeedError(f"-: more than {_MOST_BYTES} bytes on standard input")
    return content


def _frames(frames: Iterator[Any], name: str, every: int) -> Iterator[Item]:
    if every < 1:
        raise UsageError(f"--every must be 1 or more, got {every}")
    try:
        for number, frame in enumerate(frames):
            if number % every == 0:
                yield Item(f"{name}#{number}", frame)
    except FeedError as error:
        yield Item(name, None, error)


def _video(path: str) -> Iterator[Any]:
    """The frames of a video as pixels (H, W, 3)."""
    try:
        import av
    except ImportError as error:
        raise MissingDependency(f"{path}: videos need PyAV: pip install 'armnet[video]'") from error
    if not os.path.isfile(path):
        raise FeedError(f"{path}: no such file")
    try:
        with av.open(path) as container:
            for frame in container.decode(video=0):
                yield frame.to_ndarray(format="rgb24")
    except ArmnetError:
        raise
    except Exception as error:  # FFmpeg's errors have another base in each version of PyAV
        raise FeedError(f"{path}: cannot be read as a video: {first_line(error)}") from error


def _camera(word: str) -> Iterator[Any]:
    """Frames of a camera as pixels (H, W, 3), by OpenCV, else by picamera2, until the camera ends."""
    number = word.partition(":")[2] or "0"
    if not number.isdigit():
        raise UsageError(f"a camera is camera or camera:NUMBER, got {word!r}")
    try:
        import cv2
    except ImportError:
        yield from _pi_camera(int(number))
        return
    cv2.utils.logging.setLogLevel(cv2.utils.logging.LOG_LEVEL_SILENT)  # the error is reported below
    camera = cv2.VideoCapture(int(number))
    try:
        if not camera.isOpened():
            raise FeedError(f"{word}: there is no such camera, or it is in use")
        while True:
            good, frame = camera.read()
            if not good:
                return
            yield frame[:, :, ::-1].copy()
    finally:
        camera.release()


def _pi_camera(number: int) -> Iterator[Any]:
    try:
        from picamera2 import Picamera2
    except ImportError as error:
        raise MissingDependency(
            "a camera needs OpenCV (pip install 'armnet[video]') or picamera2 (apt-get install python3-picamera2)"
        ) from error
    camera = Picamera2(number)
    camera.configure(camera.create_preview_configuration({"format": "BGR888"}))  # libcamera's name for R, G, B
    camera.start()
    try:
        while True:
            yield camera.capture_array()
    finally:
        camera.stop()
