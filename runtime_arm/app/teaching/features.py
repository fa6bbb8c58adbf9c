"""Features of pictures and sounds: computed once for each, and kept, so that teaching resumes after it was killed."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.app.inputs import read_npy
from runtime_arm.app.model import Model
from runtime_arm.app.pictures import open_picture
from runtime_arm.app.sounds import answer_windows, read_sound
from runtime_arm.app.teaching.augment import varied
from runtime_arm.app.teaching.clock import Clock
from runtime_arm.app.teaching.cutting import VECTOR, sound_of
from runtime_arm.errors import ArmnetError, ExportError, MissingDependency, UsageError
from runtime_arm.machine.cache import CachePart
from runtime_arm.netdef import Array
from runtime_arm.pair.pair import Pair
from runtime_arm.results.decoder import Decoder

ALONE = ("mirror", "flip")  # ways whose outcome is one more view
VARIANTS = 3  # views that are drawn, if there are other ways
WINDOWS = 4  # of a sound, that are learned in addition to their mean

Progress = Callable[[str, int, int], None]
Views = Dict[str, Array]  # the outputs of all views of a sample, by name


class Features(NamedTuple):
    """Features (n, views, size) of the samples at ``kept``; ``skipped``: a line for each file that could not be
    read."""

    values: Array
    kept: Array
    skipped: List[str]


class Extractor:
    """Runs a part of a net on files. It is opened as a context.

    part: the pair that computes the outputs; whole: the Model of the net it is part of, which says how files become
    inputs. ways: how pictures are varied. The first view is the picture itself; each way among ALONE adds one; if there
    are other ways, VARIANTS are drawn from all of them. Of a sound the first view is the mean over its windows.
    """

    def __init__(self, part: Pair, whole: Model, ways: Sequence[str] = ()):
        self._ways, self._cache = tuple(ways), CachePart("pairs")
        self.sound, self._decoder = sound_of(whole.pair), whole.decoder
        self._runner = Model(part, task="tensors", preprocessing=dict(whole.rule), notice=lambda text: None)
        told = json.dumps([self.sound, dict(whole.rule), self._ways], sort_keys=True, default=str)
        self._base = hashlib.sha256(part.predict_net.to_bytes())
        self._base.update(part.init_net.to_bytes())
        self._base.update(told.encode())

    def __enter__(self) -> Extractor:
        return self

    def __exit__(self, *exception: object) -> None:
        self._runner.close()

    def views(self, path: Path, content: Optional[bytes] = None) -> Views:
        """The outputs for all views of a file, each (views, ...); kept from one run to the next."""
        kept = self.kept(path, content)
        if kept is not None:
            return kept
        found = self.computed(path)
        self.keep(path, found, content)
        return found

    def look_ahead(self, paths: Sequence[Path], progress: Progress) -> None:
        """Called with the files that will be asked for, so that a subclass may compute them in advance."""

    def kept(self, path: Path, content: Optional[bytes] = None) -> Optional[Views]:
        """The kept features of a file; None if there are none."""
        return self._cache.get(self._name(path, content), _read)

    def keep(self, path: Path, found: Views, content: Optional[bytes] = None) -> None:
        """Keep the features, if the disk has room for them."""
        self._cache.put(self._name(path, content), lambda file: _write(file, found))

    def _name(self, path: Path, content: Optional[bytes]) -> str:
        key = self._base.copy()
        key.update(path.read_bytes() if content is None else content)
        return f"features-{key.hexdigest()}"

    def computed(self, path: Path) -> Views:
        """The outputs for all views of a file. ArmnetError, naming it, if it cannot be read."""
        if self.sound:
            return heard(self._runner, self.sound, self._decoder, read_sound(path, int(self.sound["rate"])))
        return seen(self._runner, self.inputs(path))

    def inputs(self, path: Path) -> List[Dict[str, Array]]:
        """The net's input for each view of a picture or an array."""
        if path.suffix.lower() == ".npy":
            array, info = read_npy(str(path)), self._runner.pair.inputs[0]
            return [{info.name: array}]
        pixels = np.asarray(open_picture(str(path)))
        random = np.random.RandomState(int(hashlib.sha256(pixels.tobytes()).hexdigest()[:8], 16))
        shown = [pixels]
        shown += [pixels[:, ::-1] if way == "mirror" else pixels[::-1] for way in ALONE if way in self._ways]
        if set(self._ways) - set(ALONE):
            shown += [varied(pixels, self._ways, random) for _ in range(VARIANTS)]
        return [self._runner.prepared(np.ascontiguousarray(view)).feeds for view in shown]


def seen(runner: Model, views: Sequence[Mapping[str, Any]]) -> Views:
    """The outputs of a part of a net for the views of a picture."""
    outputs = [runner.run(feeds) for feeds in views]
    return {name: np.concatenate([np.asarray(one[name]) for one in outputs]) for name in outputs[0]}


def heard(runner: Model, sound: Mapping[str, Any], decoder: Decoder, wave: Array) -> Views:
    """The features of a sound: the mean over its windows, and WINDOWS of them."""
    windows = answer_windows(_SoundRunner(runner, sound, decoder), wave)[VECTOR][0]
    chosen = np.linspace(0, len(windows) - 1, WINDOWS).astype(int)
    return {VECTOR: np.concatenate([windows.mean(0, keepdims=True), windows[chosen]]).astype(np.float32)}


class _SoundRunner:
    """A part of a net as ``answer_windows`` asks it: with the windows and the features of the whole."""

    def __init__(self, runner: Model, sound: Mapping[str, Any], decoder: Decoder):
        self.pair, self.rule, self.input, self.predictor = runner.pair, runner.rule, runner.input, runner.predictor
        self.decoder, self.infer, self.run, self.real = decoder, runner.infer, runner.run, runner.real
        self.say_fed = runner.say_fed
        self.entry: Dict[str, Any] = {"sound": dict(sound), "outputs": {"features": VECTOR}, "decoder": "keywords"}


def features_of(
    extractor: Extractor,
    paths: Sequence[Path],
    classes: Array,
    progress: Progress = lambda text, done, total: None,
) -> Features:
    """The features of files. A damaged one is skipped; UsageError if one lies in two classes."""
    rows: List[Array] = []
    kept: List[int] = []
    skipped: List[str] = []
    digests: Dict[bytes, Tuple[int, Path]] = {}
    extractor.look_ahead(paths, progress)
    clock = Clock()
    for number, path in enumerate(paths):
        progress(f"{path.name}, {clock.left(number, len(paths))}", number, len(paths))
        try:
            content = path.read_bytes()
            label, other = digests.setdefault(hashlib.sha256(content).digest(), (int(classes[number]), path))
            if label != classes[number]:
                raise UsageError(f"{other} and {path} are the same, but of two classes; remove the one that is wrong")
            vectors = np.asarray(extractor.views(path, content)[VECTOR], np.float32)
            if not np.isfinite(vectors).all():
                raise ExportError(f"{path}: its features are not finite")
            rows.append(vectors)
            kept.append(number)
        except (UsageError, MissingDependency):
            raise
        except (ArmnetError, OSError) as error:
            skipped.append(str(error).splitlines()[0])
    views = min((len(row) for row in rows), default=1)
    values = np.stack([row[:views] for row in rows]) if rows else np.zeros((0, 1, 1), np.float32)
    return Features(values, np.array(kept, np.int64), skipped)


def _write(file: Path, found: Views) -> None:
    arrays: Dict[str, Any] = {f"out_{name}": values for name, values in found.items()}
    with open(file, "wb") as target:
        np.savez(target, **arrays)


def _read(file: Path) -> Views:
    with np.load(file, allow_pickle=False) as archive:
        return {name[4:]: archive[name] for name in archive.files}
