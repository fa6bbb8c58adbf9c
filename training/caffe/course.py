"""A training as Caffe's own program runs it: from a solver's file, with data layers, tests, displays and snapshots."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import Any, Callable, Deque, Dict, List, Mapping, NamedTuple, Optional, Tuple

import numpy as np

from exporter.caffe.prototxt import message_class
from runtime_arm.app.teaching.clock import Clock
from runtime_arm.errors import UsageError
from runtime_arm.files import map_file, write_file
from training.caffe.data.feeding import Feed, fed
from training.caffe.data.transform import found_file
from training.caffe.files import learned_net_of, net_of, parsed, text_of
from training.caffe.hdf5 import SUFFIX, h5py_for
from training.caffe.net import Net
from training.caffe.solver import Solver
from training.fitting import Progress

Say = Callable[[str], None]


class Test(NamedTuple):
    """A test net, what its data layers give, and how many batches make a test."""

    net: Net
    feeds: List[Feed]
    times: int


class Course:
    """``Course(path).run()``: trains as a solver.prototxt says.

    weights: a caffemodel to begin with. snapshot: a solverstate to go on from; "latest" for the newest that is there.
    data: layers' names -> what takes the place of their sources: a folder of pictures for each class, an LMDB or an
    .npz; "" is for all layers without a name of their own here. kind: the solver's type, whatever the file says.
    by_hand: somebody else writes into the blobs of layers of the types Input and MemoryData. Files are looked for where
    the program runs and in the solver's folder. Errors name the file, or the layer.
    """

    def __init__(
        self,
        path: Path,
        *,
        weights: Optional[Path] = None,
        snapshot: Optional[str] = None,
        data: Optional[Mapping[str, str]] = None,
        kind: str = "",
        by_hand: bool = False,
        say: Say = lambda text: None,
    ):
        self._path, self._folder, self._say = path, path.parent, say
        self._text = str(map_file(path), "utf-8-sig", "replace")
        self.proto = parsed(self._text, "SolverParameter", f"solver {path}")
        if kind:
            self.proto.ClearField("solver_type")
            self.proto.type = kind
            self._text = text_of(self.proto)
        if self.proto.snapshot_format == 0:
            h5py_for(path)
        self._data, self._seed = dict(data or {}), max(int(self.proto.random_seed), 0)
        self._by_hand = by_hand
        net, self.feeds = self._net(self._train_net(), "TRAIN", self.proto.train_state)
        start = self._given(weights)
        self.solver = Solver(self._text, text_of(net), start)
        self.tests = self._test_nets()
        unknown = sorted(set(self._data) - {"", *(f.proto.name for f in self.feeds), *self._names_of_tests()})
        if unknown:
            raise UsageError(f"{path}: there is no data layer {unknown[0]!r}")
        self.restore(snapshot)

    def _names_of_tests(self) -> List[str]:
        return [feed.proto.name for test in self.tests for feed in test.feeds]

    def _given(self, weights: Optional[Path]) -> Optional[bytes]:
        names = [str(weights)] if weights is not None else [n for one in self.proto.weights for n in one.split(",")]
        if len(names) > 1:
            raise UsageError(f"{self._path}: names {len(names)} caffemodels to begin with; give one")
        return bytes(map_file(found_file(names[0], self._folder, str(self._path)))) if names else None

    # Nets

    def _train_net(self) -> Any:
        given = [name for name in ("net", "net_param", "train_net", "train_net_param") if self.proto.HasField(name)]
        if len(given) != 1:
            raise UsageError(f"{self._path}: must have one of net, train_net and their texts; it has {given or 'none'}")
        return self._read(getattr(self.proto, given[0]))

    def _read(self, source: Any) -> Any:
        """The net of a file's name, or of a message."""
        if isinstance(source, str):
            return net_of(bytes(map_file(found_file(source, self._folder, str(self._path)))))
        return net_of(text_of(source))

    def _net(self, net: Any, phase: str, state: Any) -> Tuple[Any, List[Feed]]:
        net.state.MergeFrom(state)
        return fed(net, phase, self._folder, self._data, self._seed, self._by_hand)

    def _test_nets(self) -> List[Test]:
        if not self.proto.test_iter:
            return []
        sources: List[Any] = [*self.proto.test_net_param, *self.proto.test_net]
        common = [getattr(self.proto, name) for name in ("net", "net_param") if self.proto.HasField(name)]
        while common and len(sources) < len(self.proto.test_iter):
            sources.append(common[0])
        if len(sources) != len(self.proto.test_iter):
            told = f"{len(self.proto.test_iter)} test_iter for {len(sources)} test nets"
            raise UsageError(f"{self._path}: {told}")
        states = list(self.proto.test_state) or [message_class("NetState")()] * len(sources)
        if len(states) != len(sources):
            raise UsageError(f"{self._path}: {len(states)} test_state for {len(sources)} test nets")
        found = []
        for source, state, times in zip(sources, states, self.proto.test_iter):
            net, feeds = self._net(self._read(source), "TEST", state)
            found.append(Test(Net(text_of(net), phase="TEST"), feeds, times))
        return found

    # Snapshots

    @property
    def prefix(self) -> str:
        """The beginning of the names of snapshots: as the solver says, else its own name without the suffix."""
        given = str(self.proto.snapshot_prefix)
        if not given or given.endswith("/"):
            return given + self._path.stem if given else str(self._path.with_suffix(""))
        return given

    def snapshot(self) -> Path:
        """Write ``PREFIX_iter_N.caffemodel`` and ``.solverstate``, each whole or not at all; the latter's path."""
        name, suffix = f"{self.prefix}_iter_{self.solver.iteration}", SUFFIX if self.solver.is_hdf5 else ""
        caffemodel, solverstate = self.solver.snapshot(f"{name}.caffemodel{suffix}")
        write_file(f"{name}.caffemodel{suffix}", [caffemodel])
        write_file(f"{name}.solverstate{suffix}", [solverstate])
        return Path(f"{name}.solverstate{suffix}")

    def restore(self, snapshot: Optional[str]) -> None:
        """Go on from a solverstate; "latest" is the newest that is there."""
        if snapshot is None:
            return
        path = self._latest() if snapshot == "latest" else Path(snapshot)
        if path is None:
            return
        content = bytes(map_file(path))
        learned = learned_net_of(content)
        beside = _model_beside(path)
        model = beside if beside.exists() or not learned else found_file(learned, path.parent, str(path))
        self.solver.restore(bytes(map_file(model)), content)
        self._say(f"going on from {path}, iteration {self.solver.iteration}")

    def _latest(self) -> Optional[Path]:
        stem = Path(self.prefix).name + "_iter_"
        found: Dict[int, Path] = {}
        for path in Path(self.prefix).parent.glob(f"{stem}*.solverstate*"):
            number, _, suffix = path.name[len(stem) :].partition(".solverstate")
            if number.isdecimal() and suffix in ("", SUFFIX) and _model_beside(path).exists():
                found[int(number)] = path
        return found[max(found)] if found else None

    # The run

    def run(self, progress: Progress = lambda text, done, total: None) -> None:
        """All iterations that are left, with what the solver wants displayed, tested and kept."""
        proto, solver = self.proto, self.solver
        kept = self.step(proto.max_iter - solver.iteration, progress)
        if proto.snapshot_after_train and kept != solver.iteration:
            self._say(f"iteration {solver.iteration}: snapshot {self.snapshot()}")
        if proto.test_interval and solver.iteration % proto.test_interval == 0:
            self.test()

    def step(self, count: int, progress: Progress = lambda text, done, total: None) -> int:
        """So many iterations, with what the solver wants between them; the one of the last snapshot, -1 without one."""
        proto, solver = self.proto, self.solver
        end = solver.iteration + count
        clock = Clock(solver.iteration)
        losses: Deque[float] = deque(maxlen=max(1, proto.average_loss))
        kept = -1
        while solver.iteration < end:
            at = solver.iteration
            if proto.test_interval and at % proto.test_interval == 0 and (at or proto.test_initialization):
                self.test()
            rate = solver.rate
            solver.step(self._batch(at))
            losses.append(solver.loss())
            if not np.isfinite(losses[-1]):
                raise UsageError(f"{self._path}: iteration {at}: the loss is {losses[-1]}; a lower base_lr may help")
            if proto.display and at % proto.display == 0:
                self._say(f"iteration {at}: loss {np.mean(losses):.5g}, rate {rate:g}")
            done = solver.iteration
            progress(f"loss {np.mean(losses):.4g}, {clock.left(done, end)}", done, end)
            if proto.snapshot and done % proto.snapshot == 0:
                kept = done
                self._say(f"iteration {done}: snapshot {self.snapshot()}")
        return kept

    def _batch(self, iteration: int) -> Dict[str, Any]:
        times = max(self.proto.iter_size, 1)
        return {name: rows for feed in self.feeds for name, rows in feed.batches(iteration * times, times).items()}

    def test(self) -> List[Dict[str, float]]:
        """Run the test nets with the weights as they are: the mean of each output's numbers, by name."""
        content, found = self.solver.net.save(), []
        for number, test in enumerate(self.tests):
            test.net.copy_from(content)
            totals: Dict[str, float] = {}
            for at in range(test.times):
                given = {name: rows for feed in test.feeds for name, rows in feed.batches(at).items()}
                for name, value in test.net.forward(**given).items():
                    totals[name] = totals.get(name, 0.0) + float(value.mean()) / test.times
            found.append(totals)
            which = f" of net {number}" if len(self.tests) > 1 else ""
            told = ", ".join(f"{name} {value:.5g}" for name, value in totals.items())
            self._say(f"iteration {self.solver.iteration}: test{which}: {told}")
        return found


def _model_beside(solverstate: Path) -> Path:
    """The caffemodel of the same snapshot."""
    return solverstate.with_name(solverstate.name.replace(".solverstate", ".caffemodel"))
