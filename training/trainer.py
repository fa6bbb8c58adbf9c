"""Trainer: trains the network of a pair, step by step."""

from __future__ import annotations

import hashlib
from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np

from runtime_arm.errors import FeedError, UsageError
from runtime_arm.execution.executor import Executor
from runtime_arm.execution.workspace import run_init_net
from runtime_arm.files import AnyPath
from runtime_arm.machine import blas
from runtime_arm.netdef import Array, NetDef, OperatorDef
from runtime_arm.pair.fills import fill
from runtime_arm.pair.pair import Pair
from training.builder import NetBuilder
from training.caffe2_types import require_caffe2
from training.checkpoints import digest_of, load_checkpoint, save_checkpoint
from training.losses import Loss, loss_of
from training.solvers import Solver, solver_of
from training.state_runs import StateRuns
from training.step_memory import StepMemory
from training.train_net import MUTEX, Trainable, TrainOptions, make_train_net

Feeds = Mapping[str, Any]
NORMALISATIONS = ("auto", "train", "frozen")


class Evaluation(NamedTuple):
    """The mean loss over a number of samples, and the share whose largest output is the label's; None without
    classes."""

    loss: float
    accuracy: Optional[float]
    samples: int


class Trainer:
    """Trains the network of a pair.

        trainer = Trainer(pair, loss="softmax", labels="label", solver=SGD(rate=0.1, momentum=0.9))
        for images, labels in batches:
            loss = trainer.step({"data": images, "label": labels})
        trainer.pair().save("trained")

    loss: a ``training.losses.Loss``, or the name of one. labels: the name of the blob with the expected outputs; it is
    fed in addition to the net's inputs. trainable: names or patterns (``fc*``) of parameters; None for all. solver: a
    ``training.solvers.Solver``, or the name of one. outputs: the blobs that the loss takes; None for the net's first.
    batch_norm: "auto" uses the statistics of the batch where a normalisation's scale or bias is trained, "train"
    everywhere, "frozen" nowhere. caffe2_compatible: only with Caffe2's operators, so that ``nets`` run there, too.
    threads: as for Predictor. memory: the most bytes that a step may take; activations that do not fit are recomputed,
    which changes no result but takes longer. ``evaluate`` takes memory of its own. UsageError if something does not
    fit.
    """

    def __init__(
        self,
        pair: Union[Pair, AnyPath],
        loss: Union[str, Loss] = "softmax",
        labels: str = "label",
        trainable: Trainable = None,
        solver: Union[str, Solver, None] = None,
        *,
        outputs: Union[str, Sequence[str], None] = None,
        batch_norm: str = "auto",
        caffe2_compatible: bool = False,
        threads: int = 1,
        memory: Optional[int] = None,
    ) -> None:
        if batch_norm not in NORMALISATIONS:
            raise UsageError(f"batch_norm must be one of {', '.join(NORMALISATIONS)}; got {batch_norm!r}")
        self._pair = pair if isinstance(pair, Pair) else Pair.load(pair)
        self._loss, self._solver = loss_of(loss), solver_of(solver)
        self._weights = {name: np.asarray(value) for name, value in run_init_net(self._pair.init_net).items()}
        self._inputs = [info.name for info in self._pair.inputs]
        for name in self._inputs:
            self._weights.pop(name, None)
        if labels in self._inputs or labels in self._weights:
            raise UsageError(f"labels: the net itself reads a blob {labels!r}; give them another name")
        self._labels, self._compatible, self._threads = labels, caffe2_compatible, threads
        self._outputs = self._chosen_outputs(outputs)
        options = TrainOptions(
            self._loss, labels, self._solver, trainable, self._outputs, batch_norm, caffe2_compatible
        )
        self._train = make_train_net(self._pair.predict_net, self._pair.inputs, self._weights, options)
        if caffe2_compatible:
            require_caffe2(self._train.net)
        if memory is not None and self._solver.iter_size > 1:
            raise UsageError("memory: a solver with an iter_size saves memory in its own way; give one of them")
        own = self._train
        self._runs = StateRuns(own.state, own.constants, own.iteration, threads, memory)

    def _chosen_outputs(self, outputs: Union[str, Sequence[str], None]) -> Tuple[str, ...]:
        known = {name for op in self._pair.predict_net.op for name in op.output}
        chosen = (outputs,) if isinstance(outputs, str) else tuple(outputs or ())
        chosen = chosen or tuple(info.name for info in self._pair.outputs[: self._loss.outputs])
        if len(chosen) != self._loss.outputs or not set(chosen) <= known:
            raise UsageError(
                f"the loss takes {self._loss.outputs} outputs of the net; got {', '.join(chosen) or 'none'}"
            )
        return chosen

    @property
    def parameters(self) -> Tuple[str, ...]:
        """The names of the parameters that are trained."""
        return self._train.parameters

    @property
    def labels(self) -> str:
        """The name of the blob with the expected outputs."""
        return self._labels

    @property
    def iteration(self) -> int:
        """The number of steps made so far."""
        return int(self._state[self._train.iteration][0])

    def step(self, feeds: Feeds) -> float:
        """One step on a batch: the loss before it. An error leaves the state as it was.

        With a solver whose iter_size is n, the rows of every fed blob are n parts of equal length.
        """
        given = self._checked(feeds)
        if self._solver.iter_size == 1:
            return float(self._runs.run(self._train.net, given, [self._train.loss])[self._train.loss])
        return self._step_in_parts(given)

    @property
    def _state(self) -> Dict[str, Array]:
        return self._runs.values

    def _step_in_parts(self, given: Feeds) -> float:
        count = self._solver.iter_size
        for name, value in given.items():
            if len(value) % count:
                raise FeedError(f"{name!r} has {len(value)} rows, which iter_size {count} does not divide")
        total, loss = [0.0] * len(self._train.gradients), 0.0
        wanted = (self._train.loss, *self._train.gradients)
        moved = self._train.backward.external_output
        before = {name: value.copy() for name, value in self._state.items() if name in moved}
        try:
            for part in range(count):
                rows = {n: v[len(v) * part // count : len(v) * (part + 1) // count] for n, v in given.items()}
                done = self._runs.run(self._train.backward, rows, wanted)
                total = [s + done[name] / np.float32(count) for s, name in zip(total, self._train.gradients)]
                loss += float(done[self._train.loss]) / count
        except BaseException:
            self._runs.replace({**self._state, **before})
            raise
        self._runs.run(self._train.update, dict(zip(self._train.gradients, total)), [])
        return loss

    def memory(self, feeds: Feeds) -> StepMemory:
        """The memory of a step on such a batch; nothing runs. ResourceError if that is more than allowed.

        If the sizes of blobs depend on data, it covers the operators up to the first of these.
        """
        given, train = self._checked(feeds), self._train
        if self._solver.iter_size == 1:
            return self._runs.memory(train.net, given, [train.loss])
        part = {name: value[: max(1, len(value) // self._solver.iter_size)] for name, value in given.items()}
        gradients = {name: self._state[parameter] for name, parameter in zip(train.gradients, train.parameters)}
        backward = self._runs.memory(train.backward, part, (train.loss, *train.gradients))
        return backward._replace(arena=backward.arena + self._runs.memory(train.update, gradients, []).arena)

    def _checked(self, feeds: Feeds) -> Dict[str, Array]:
        """The feeds as arrays of the dtypes that the net takes. FeedError if one is missing or unknown."""
        wanted = set(self._train.feeds)
        if set(feeds) != wanted:
            missing, unknown = sorted(wanted - set(feeds)), sorted(set(feeds) - wanted)
            told = [
                f"{word}: {', '.join(names)}" for word, names in (("missing", missing), ("unknown", unknown)) if names
            ]
            raise FeedError(f"a step takes {', '.join(self._train.feeds)}; {'; '.join(told)}")
        return {name: self._as_array(name, value) for name, value in feeds.items()}

    def _as_array(self, name: str, value: Any) -> Array:
        array = np.asarray(value)
        if name == self._labels:
            return array.astype(self._loss.label_dtype, copy=False)
        return array.astype(np.float32) if array.dtype == np.float64 else array

    def evaluate(self, feeds: Union[Feeds, Iterable[Feeds]]) -> Evaluation:
        """Loss and accuracy on a batch, or on several, with the running statistics; nothing changes."""
        builder = NetBuilder(self._pair.predict_net.op, [*self._pair.predict_net.external_input, self._labels])
        loss = self._loss.append(builder, self._outputs, self._labels)
        net = NetDef("evaluation", tuple(builder.ops))
        known = {**self._current_weights(), **builder.blobs}
        executor = Executor(net, {name: known[name] for name in net.captures() if name in known}, self._threads)
        classes = self._loss.label_dtype == "int32"
        total, right, samples = 0.0, 0, 0
        try:
            for batch in [feeds] if isinstance(feeds, Mapping) else feeds:
                given = self._checked(batch)
                with blas.Threads(self._threads):
                    done = executor.run(given, [loss, self._outputs[0]])
                labels = given[self._labels].reshape(-1)
                count = len(given[self._labels])
                total, samples = total + float(done[loss]) * count, samples + count
                if classes:
                    scores = done[self._outputs[0]].reshape(len(labels), -1)
                    right += int((scores.argmax(axis=1) == labels).sum())
        finally:
            executor.close()
        if not samples:
            raise UsageError("there is nothing to evaluate")
        return Evaluation(total / samples, right / samples if classes else None, samples)

    def _current_weights(self) -> Dict[str, Array]:
        moved = {name: value for name, value in self._state.items() if name in self._weights}
        shaped = {name: value.reshape(self._weights[name].shape) for name, value in moved.items()}
        return {**self._weights, **shaped}

    def pair(self) -> Pair:
        """The pair with the weights as they are now."""
        fills = [fill(name, np.array(value), self._compatible) for name, value in self._current_weights().items()]
        kept = [op for op in self._pair.init_net.op if set(op.output) & set(self._inputs)]
        return self._pair.replace(init_net=self._pair.init_net.replace(op=(*kept, *fills)))

    def nets(self) -> Tuple[NetDef, NetDef]:
        """(init_net, train_net): one fills all blobs as they are now, the other is one step; for a Workspace, or for
        Caffe2."""
        if self._solver.iter_size > 1:
            raise UsageError("a solver with an iter_size makes a step of several runs, which one net cannot express")
        values = {**self._train.constants, **self._state}
        fills: List[OperatorDef] = []
        for name in self._train.net.external_input:
            if name.startswith(MUTEX):
                fills.append(OperatorDef.of("CreateMutex", [], [name]))
            elif name in values:
                fills.append(fill(name, np.array(values[name]), self._compatible))
        init_net = NetDef(
            f"{self._train.net.name}_init", tuple(fills), external_output=tuple(op.output[0] for op in fills)
        )
        return init_net, self._train.net

    def save(self, path: AnyPath, notes: Optional[Mapping[str, Any]] = None) -> None:
        """Write a checkpoint: parameters, statistics, the solver's state, the iteration. notes: further JSON data."""
        save_checkpoint(path, self._train.net, self._state, notes)

    def restore(self, path: AnyPath) -> Dict[str, Any]:
        """Continue from a checkpoint of an equal Trainer: the steps that follow are the same, bit for bit.

        Returns the notes in it.
        """
        state, notes = load_checkpoint(path, self._train.net, self._train.state)
        self._runs.replace(state)
        return notes

    def state(self) -> Dict[str, Array]:
        """A copy of everything that steps change."""
        return {name: np.array(value) for name, value in self._state.items()}

    def go_back(self, state: Mapping[str, Array]) -> None:
        """Continue from a state of this Trainer."""
        self._runs.replace({name: np.array(value) for name, value in state.items()})

    def digest(self) -> str:
        """A digest of the train net and of all current weights: it differs for Trainers whose next steps would
        differ."""
        content = hashlib.sha256(digest_of(self._train.net).encode())
        for name, value in sorted({**self._train.constants, **self._state}.items()):
            content.update(name.encode())
            content.update(np.ascontiguousarray(value).data)
        return content.hexdigest()

    def close(self) -> None:
        """End the workers; the next step starts new ones."""
        self._runs.close()


__all__ = ["Evaluation", "Trainer"]
