"""Teaches on a target: features are computed and the head is trained there; files are read on this machine."""

from __future__ import annotations

import io
import json
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Callable, Dict, List, Optional, Sequence, Type

import numpy as np

from armnet.teaching import target_program
from device_tests.host.suite_run import pair_files, runtime_files
from device_tests.host.targets.factory import target_of
from device_tests.host.targets.target import TIMEOUT, Target
from runtime_arm.app.model import Model
from runtime_arm.app.sounds import read_sound
from runtime_arm.app.teaching.clock import Clock
from runtime_arm.app.teaching.features import Extractor, Progress, Views
from runtime_arm.app.teaching.head import Epoch, Head
from runtime_arm.app.teaching.lesson import Known, LocalTeaching
from runtime_arm.errors import ArmnetError, MissingDependency, UsageError
from runtime_arm.netdef import Array
from runtime_arm.pair.pair import Pair

MOST_FILES, MOST_BYTES = 16, 1 << 25  # that one program looks at
_PROGRAM = "teach.py"


class OnTarget(LocalTeaching):
    """A target, opened as a context. name: as ``armnet device list`` has it. python: the program to run over ssh;
    timeout: seconds for one program."""

    def __init__(self, name: str, *, python: str = "python3", timeout: float = TIMEOUT, threads: Optional[int] = None):
        self.name, self.timeout, self.threads = name, timeout, threads
        self._python = python
        self._target: Optional[Target] = None
        self._folder: Optional[tempfile.TemporaryDirectory[str]] = None

    def __enter__(self) -> OnTarget:
        self._folder = tempfile.TemporaryDirectory(prefix="armnet-teach-")
        self._target = target_of(self.name, self._python)
        self._target.__enter__()
        self._target.deploy({**runtime_files(), _PROGRAM: Path(target_program.__file__)})
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        if self._target is not None:
            self._target.__exit__(kind, error, trace)
        if self._folder is not None:
            self._folder.cleanup()

    @property
    def target(self) -> Target:
        """The machine, while it is open."""
        assert self._target is not None
        return self._target

    def asked(self, words: Sequence[str], arrays: Dict[str, Array]) -> Dict[str, Array]:
        """The arrays that the program writes for these words and arrays."""
        assert self._folder is not None
        given = Path(self._folder.name) / target_program.INPUTS
        np.savez(given, **arrays)  # type: ignore[arg-type]  # names, not options
        self.target.deploy({target_program.INPUTS: given})
        self.target.output([_PROGRAM, *words], self.timeout)
        with np.load(io.BytesIO(self.target.fetch(target_program.OUTPUTS))) as archive:
            return {name: archive[name] for name in archive.files}

    def deploy_pair(self, pair: Pair) -> None:
        """Send the pair that computes the features."""
        assert self._folder is not None
        folder = Path(self._folder.name) / "part"
        pair.save(folder)
        self.target.deploy(pair_files(folder, target_program.NETWORK))

    def extractor(self, part: Pair, whole: Model, ways: Sequence[str]) -> Extractor:
        self.deploy_pair(part)
        return _RemoteExtractor(self, part, whole, ways)

    def head(
        self, known: Known, learned: Array, held: Array, epochs: int, seed: int, progress: Callable[..., None]
    ) -> Head:
        x, labels = known.rows(learned)
        apart, wanted = known.rows(held, first=True)
        progress(f"the head on {self.name}", 0, 1)
        words = ["head", str(len(known.labels)), str(epochs), str(seed)]
        found = self.asked(words, {"x": x, "labels": labels, "held": apart, "wanted": wanted})
        curve = [Epoch(*(float(number) for number in row)) for row in found["epochs"]]
        return Head(found["weights"], found["bias"], curve)


class _RemoteExtractor(Extractor):
    """Lets a target compute the features. They are kept here, under the target's name."""

    def __init__(self, place: OnTarget, part: Pair, whole: Model, ways: Sequence[str]):
        super().__init__(part, whole, ways)
        self._place = place
        self._entry = json.dumps({"sound": self.sound, "decoder": str(whole.entry["decoder"])})
        self._base.update(place.name.encode())
        self._found: Dict[Path, Views] = {}

    def kept(self, path: Path, content: Optional[bytes] = None) -> Optional[Views]:
        found = self._found.get(path)
        return found if found is not None else super().kept(path, content)

    def keep(self, path: Path, found: Views, content: Optional[bytes] = None) -> None:
        self._found[path] = found
        super().keep(path, found, content)

    def look_ahead(self, paths: Sequence[Path], progress: Progress) -> None:
        chunk: Dict[Path, List[Dict[str, Array]]] = {}
        nbytes, clock = 0, Clock()
        for number, path in enumerate(paths):
            progress(f"{path.name} on {self._place.name}, {clock.left(number, len(paths))}", number, len(paths))
            try:
                if self.kept(path) is not None:
                    continue
                chunk[path] = self._sent(path)
            except (UsageError, MissingDependency):
                raise
            except (ArmnetError, OSError):
                continue  # said when its turn comes
            nbytes += sum(array.nbytes for feeds in chunk[path] for array in feeds.values())
            if len(chunk) >= MOST_FILES or nbytes >= MOST_BYTES:
                self._ask(chunk)
                chunk, nbytes = {}, 0
        if chunk:
            self._ask(chunk)

    def _sent(self, path: Path) -> List[Dict[str, Array]]:
        if self.sound:
            return [{target_program.WAVE: read_sound(path, int(self.sound["rate"]))}]
        return self.inputs(path)

    def _ask(self, chunk: Dict[Path, List[Dict[str, Array]]]) -> None:
        given: Dict[str, Array] = {}
        for place, views in enumerate(chunk.values()):
            for view, feeds in enumerate(views):
                given.update({f"{place}|{view}|{name}": array for name, array in feeds.items()})
        words = ["features", str(self._place.threads or 0), self._entry]
        found = self._place.asked(words, given)
        for place, path in enumerate(chunk):
            start = f"{place}|"
            self.keep(path, {key[len(start) :]: found[key] for key in found if key.startswith(start)})

    def computed(self, path: Path) -> Views:
        self._sent(path)
        raise ArmnetError(f"{path}: {self._place.name} gave no features of it")
