"""Predictor: runs init_net once and predict_net for every inference."""

from __future__ import annotations

import os
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, NoReturn, Optional, Sequence, Tuple, Union

import numpy as np

from runtime_arm.errors import FeedError, ShapeError, UsageError, there_are
from runtime_arm.execution.executor import Executor
from runtime_arm.execution.workspace import as_net, run_init_net
from runtime_arm.files import checked_path
from runtime_arm.machine import blas
from runtime_arm.machine.cores import useful_cores
from runtime_arm.machine.locks import Turns
from runtime_arm.netdef import Array, NetDef, NetLike
from runtime_arm.pair.metadata import TensorInfo
from runtime_arm.pair.pair import Pair
from runtime_arm.pair.tuned import UNTUNED, Tuned
from runtime_arm.planning.plan import Segment
from runtime_arm.registry.specs import QuantizedTensor, TensorSpec

if TYPE_CHECKING:
    from runtime_arm.gpu.placement import Placement
    from runtime_arm.pair.tuning import Tuning, Tunings

Inputs = Union[Mapping[str, Any], Sequence[Any]]


class Predictor:
    """Runs a network.

        with Predictor(pair) as p:                       # or Predictor(init_net, predict_net): bytes, paths, NetDefs
            y = p.run({"data": x})["prob"]               # or p.run([x])

    threads: how many cores a run may use. None means all, except slow cores beside fast ones (see
    ``machine/cores.py``); 1 starts no thread and no process. With more, workers split the operators for which that
    pays: processes that are forked at the first run and end with this process, or threads where the system cannot fork.
    Several predictors may exist in one process, and several threads may call one of them; the calls take turns. Blobs
    that the net overwrites (recurrent state in an external input) keep their content from run to run.

    device: a device beside the processor, "opencl:0" or "cuda:0"; what it can do runs there (``gpu/placement.py``).
    half: blobs are stored as float16 there. ``placement`` says what runs where; it is None without a device.

    Examples:
        >>> import armnet, numpy
        >>> with armnet.Predictor(armnet.export("demo/digits.onnx"), threads=1) as predictor:
        ...     y = predictor.run({"image": numpy.zeros((2, 1, 8, 8), numpy.float32)})
        >>> y["probabilities"].shape
        (2, 10)
    """

    def __init__(
        self,
        init_net: Union[Pair, NetLike],
        predict_net: Optional[NetLike] = None,
        *,
        threads: Optional[int] = None,
        device: Optional[str] = None,
        half: bool = False,
    ):
        if threads is not None and not (isinstance(threads, (int, np.integer)) and threads >= 1):
            raise UsageError(f"threads must be 1 or more, got {threads!r}")
        self.pair = _as_pair(init_net, predict_net)
        self.threads = threads or useful_cores()
        net = self.pair.predict_net.check()
        parameters = run_init_net(self.pair.init_net)
        written = {name for op in net.op for name in op.output}
        self._infos = {info.name: info for info in self.pair.inputs}
        self._plain = {info.name: _plain(info) for info in self.pair.inputs}
        self._first_state = {
            name: value for name, value in parameters.items() if name in self._infos or name in written
        }
        self._state = dict(self._first_state)
        self._kept = [name for name in net.external_input if name in written]
        self._usual = list(dict.fromkeys(net.external_output))  # what a run returns by default
        constants = {name: value for name, value in parameters.items() if name not in self._first_state}
        self._tunings = _tunings(self.pair.tuning, net, self.threads)
        tuned = _untuned if self._tunings is None else self._tunings.of
        self.placement = _placement(device, half)
        place = None if self.placement is None else self.placement.place
        digest = self.pair.digest
        self._executor: Optional[Executor] = Executor(net, constants, self.threads, tuned, place, digest)
        self._turn, self._blas = Turns(), blas.Threads(self.threads)
        self._plan_ahead()

    @property
    def inputs(self) -> Sequence[TensorInfo]:
        """Name, shape and dtype of each input of ``run``, in order; a dimension that is None or a name is free."""
        return self.pair.inputs

    @property
    def outputs(self) -> Sequence[TensorInfo]:
        """Name, shape and dtype of each output of ``run``, in order."""
        return self.pair.outputs

    @property
    def notes(self) -> Sequence[str]:
        """What the user should know: a tuning that does not fit this machine or the shapes that were run."""
        tuning = [] if self._tunings is None else self._tunings.notes
        return [*tuning, *(self.placement.session.notes if self.placement is not None else ())]

    @property
    def executor(self) -> Executor:
        """The executor of predict_net. UsageError after ``close``."""
        if self._executor is None:
            raise UsageError("the predictor is closed")
        return self._executor

    def run(
        self,
        inputs: Inputs,
        *,
        keep: Sequence[str] = (),
        out: Optional[Mapping[str, Array]] = None,
        carry: Optional[Mapping[str, str]] = None,
    ) -> Dict[str, Any]:
        """One inference; the outputs by name, in the net's order, followed by the intermediate blobs named in ``keep``.

        The arrays are the caller's; strings are str objects. With ``out`` the named blobs are written into those
        arrays instead, and only they and ``keep`` are returned. FeedError if inputs or ``out`` do not fit;
        OperatorError if an operator refuses their shapes.

        carry: the output that each of these inputs is in the next run, {"past.0.key": "present.0.key"}. Such outputs
        are not returned, and such inputs need not be given after the first run. Then a key/value cache that has its
        final size is written in place and never copied.
        """
        if keep and (isinstance(keep, str) or not all(isinstance(name, str) for name in keep)):
            raise UsageError(f"keep takes a list of blob names, got {keep!r}")
        if out is not None and not isinstance(out, Mapping):
            raise UsageError(f"out takes arrays by blob name, got {type(out).__name__}")
        carry = self._checked(carry) if carry else {}
        feeds = self._named(inputs, carry)
        fetches = self._usual
        if keep or out is not None or carry:
            wanted = [name for name in self.pair.predict_net.external_output if name not in carry.values()]
            fetches = list(dict.fromkeys([*(out if out is not None else wanted), *keep]))
        try:
            with self._turn.lock, self._blas:
                if self._state or self._kept:
                    given = {**self._state, **feeds}
                    results = self.executor.run(given, list(dict.fromkeys([*fetches, *self._kept])), out, carry)
                    self._state.update((name, deepcopy(results[name])) for name in self._kept)
                else:
                    results = self.executor.run(feeds, fetches, out, carry)
        except ShapeError as error:
            told = _undeclared_sizes(self._infos, feeds)
            if not told:
                raise
            raise ShapeError(error.op, f"{error.rule}; {told}") from error
        return {name: _readable(results[name]) for name in fetches}

    def plan(self, shapes: Optional[Mapping[str, Sequence[int]]] = None) -> Segment:
        """The plan that ``run`` would execute for inputs of these shapes: steps, engines, arena. Nothing runs.

        Inputs that are not named have their declared shape, with 1 for every free dimension. The plan ends before the
        first operator whose output shape depends on data.
        """
        feeds = {**self._state, **{info.name: info.example((shapes or {}).get(info.name)) for info in self.pair.inputs}}
        fetches = list(dict.fromkeys([*self.pair.predict_net.external_output, *self._kept]))
        with self._turn.lock, self._blas:
            return self.executor.plan(feeds, fetches)

    def reset(self) -> None:
        """Give the blobs that keep their content from run to run the content that they had before the first run."""
        with self._turn.lock:
            self._state = dict(self._first_state)

    def close(self) -> None:
        """Free the memory. A later run is refused; closing twice is allowed."""
        with self._turn.lock:
            if self._executor is not None:
                self._executor.close()
            self._executor = None
            self._state = self._first_state = {}

    def __repr__(self) -> str:
        state = "closed" if self._executor is None else f"threads={self.threads}"
        return f"Predictor({self.pair.summary()}; {state})"

    def __reduce__(self) -> NoReturn:
        raise UsageError(
            "a Predictor cannot be pickled, because it holds threads and memory: send its pair, predictor.pair, or the "
            "pair's folder, and make a Predictor where it is needed"
        )

    def __enter__(self) -> Predictor:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _plan_ahead(self) -> None:
        """Compile for the declared shapes if they are all known, so that errors appear now and not in the first run."""
        infos = self.pair.inputs
        if infos and all(info.is_static and info.dtype is not None for info in infos):
            self.plan()

    def _checked(self, carry: Mapping[str, str]) -> Mapping[str, str]:
        """The same. UsageError unless it leads from outputs to inputs."""
        for name, output in carry.items():
            if name not in self._infos or output not in self.pair.predict_net.external_output:
                raise UsageError(f"carry names an input and its output, got {name!r}: {output!r}")
        return carry

    def _named(self, inputs: Inputs, carry: Mapping[str, str]) -> Dict[str, Any]:
        infos = self._infos
        if not isinstance(inputs, (dict, Mapping)):  # a dict is recognised faster
            if not isinstance(inputs, Sequence):
                kind = type(inputs).__name__
                raise FeedError(f"run takes {{name: array}} or [array, ...], got one {kind}; write run([x])")
            if len(inputs) > len(infos):
                raise FeedError(f"{len(inputs)} inputs given, the net takes {len(infos)}: {', '.join(infos)}")
            inputs = dict(zip(infos, inputs))
        for name in inputs:
            if name not in infos:
                raise FeedError(f"no input {name!r}; the net takes {there_are(name, infos)}")
        for name in infos:
            if name not in inputs and name not in self._state and name not in carry:
                raise FeedError(f"input {name!r} was not given; the net takes {', '.join(infos)}")
        return {
            name: given if _is_plain(given, self._plain[name]) else _fitting(infos[name], given)
            for name, given in [(name, inputs[name]) for name in infos if name in inputs]
        }


def _undeclared_sizes(infos: Mapping[str, TensorInfo], feeds: Mapping[str, Any]) -> str:
    """Lists the inputs whose sizes differ from those that the pair declares; "" if there are none."""
    told = []
    for name, given in feeds.items():
        declared, shape = infos[name].shape or (), getattr(given, "shape", ())
        if any(isinstance(dim, int) and dim != size for dim, size in zip(declared, shape)):
            told.append(f"input {name!r} was fed {shape} and is declared {infos[name].shape_text()}")
    return ", ".join(told)


def _tunings(tuning: Optional[Tuning], net: NetDef, threads: int) -> Optional[Tunings]:
    """How to run the net, if that was measured. Only then is the module for it imported."""
    if tuning is None:
        return None
    from runtime_arm.pair.tuning import Tunings

    return Tunings(tuning, net, threads)


def _untuned(specs: Mapping[str, TensorSpec]) -> Tuned:
    return UNTUNED


def _placement(device: Optional[str], half: bool) -> Optional[Placement]:
    """What places operators on the device; None without one. ``gpu`` is imported only for a device."""
    if device is None:
        if half:
            raise UsageError("half=True stores blobs as float16 on a device; name one with device=")
        return None
    try:
        from runtime_arm.gpu.devices import open_device
        from runtime_arm.gpu.island import Session
        from runtime_arm.gpu.placement import Placement
    except ImportError as error:
        raise UsageError("a bundle runs on the CPU alone; for a device install armnet and open the pair") from error

    return Placement(Session(*open_device(device), half))


def _plain(info: TensorInfo) -> Optional[Tuple[np.dtype, int]]:
    """The dtype and the rank of an input of numbers; None if one of them is open."""
    if info.dtype is None or info.shape is None or np.dtype(info.dtype).kind not in "fiub":
        return None
    return np.dtype(info.dtype), len(info.shape)


def _is_plain(given: Any, plain: Optional[Tuple[np.dtype, int]]) -> bool:
    """Whether a fed value is an array that needs no conversion; this takes a third of the time of ``_fitting``."""
    return plain is not None and type(given) is np.ndarray and (given.dtype, given.ndim) == plain


def _fitting(info: TensorInfo, given: Any) -> Any:
    """The fed value as an array; FeedError if its dtype or rank is not the declared one."""
    if isinstance(given, QuantizedTensor):
        return given
    if info.dtype == "object" and (given is None or _holds_arrays(given)):
        return _held(info, given)
    try:
        array = np.asarray(given)
    except (ValueError, TypeError) as error:
        raise FeedError(f"input {info.name!r} is not an array: {error}") from error
    if array.dtype.kind in "SUO":
        array = _strings(info, array)
    elif not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if info.dtype is not None and array.dtype != info.dtype:
        due = np.dtype(info.dtype)
        hint = f"; astype({due.name!r}) converts it" if due.kind == array.dtype.kind != "O" else ""
        raise FeedError(f"input {info.name!r} must be {due.name}, got {array.dtype.name}{hint}")
    if array.dtype.kind not in "fiubO":
        raise FeedError(f"input {info.name!r} must be numbers or strings, got {array.dtype}")
    if info.shape is not None and len(info.shape) != array.ndim:
        raise FeedError(
            f"input {info.name!r} must have {len(info.shape)} dimensions {info.shape_text()}, got shape {array.shape}"
        )
    return array


def _holds_arrays(given: Any) -> bool:
    """Whether it is an array of numbers or a list of such arrays or lists: a sequence or an optional value's
    content."""
    if isinstance(given, (list, tuple)):
        return all(map(_holds_arrays, given))
    return isinstance(given, (np.ndarray, np.generic)) and given.dtype.kind not in "SUO"


def _held(info: TensorInfo, given: Any) -> Array:
    """A sequence or an optional value as blobs hold it: its elements are copies. FeedError if it is neither."""
    if isinstance(given, (list, tuple)) and info.shape != ():
        array = np.empty(len(given), object)
        for place, element in enumerate(given):
            array[place] = _held(info, element) if isinstance(element, (list, tuple)) else np.array(element)
        return array
    if info.shape != ():
        raise FeedError(f"input {info.name!r} takes a list of arrays, got {type(given).__name__}")
    array = np.empty(1, object)
    inner = TensorInfo(info.name, (None,), "object")
    array[0] = _held(inner, given) if isinstance(given, (list, tuple)) else None if given is None else np.array(given)
    return array.reshape(())


def _strings(info: TensorInfo, given: Array) -> Array:
    """An array of bytes objects, which is what blobs of strings hold; text is encoded as UTF-8."""
    array = np.empty(given.shape, object)
    for place, element in enumerate(given.reshape(-1).tolist()):
        if not isinstance(element, (str, bytes)):
            raise FeedError(f"input {info.name!r} must be numbers or strings, got {type(element).__name__}")
        array.reshape(-1)[place] = element.encode() if isinstance(element, str) else element
    return array


def _readable(value: Any) -> Any:
    """An output as the caller gets it: strings as text, with bytes that are not UTF-8 escaped; sequences as lists;
    optional values as their content; everything else as it is."""
    if not isinstance(value, np.ndarray) or value.dtype.kind != "O":
        return value
    if not value.ndim and not isinstance(value[()], (str, bytes)):
        return _readable(value[()])
    if value.ndim == 1 and value.size and all(isinstance(element, np.ndarray) for element in value):
        return [_readable(element) for element in value]
    text = np.empty(value.shape, object)
    for place, element in enumerate(value.reshape(-1).tolist()):
        text.reshape(-1)[place] = element.decode("utf-8", "surrogateescape") if isinstance(element, bytes) else element
    return text


def _as_pair(init_net: Union[Pair, NetLike], predict_net: Optional[NetLike]) -> Pair:
    if isinstance(init_net, Pair):
        if predict_net is not None:
            raise UsageError("give a pair or two nets, not a pair and a net")
        return init_net
    if predict_net is None:
        raise UsageError("give init_net and predict_net, or a Pair; load(path) opens a pair's folder")
    return Pair.from_nets(as_net(init_net), as_net(predict_net))


def load(
    path: Union[str, os.PathLike[str]],
    predict_net: Union[str, os.PathLike[str], None] = None,
    *,
    threads: Optional[int] = None,
    device: Optional[str] = None,
    half: bool = False,
) -> Predictor:
    """A Predictor for a pair's folder or zip file, a bundle, or the paths of an init_net.pb and a predict_net.pb.

    Examples:
        >>> import armnet
        >>> armnet.export("demo/digits.onnx").save("digits")
        >>> armnet.load("digits").inputs[0].name
        'image'
    """
    expected = "load takes the path of a pair's folder or bundle, or those of init_net.pb and predict_net.pb"
    first = checked_path(path, expected)
    pair = Pair.load(first) if predict_net is None else Pair.from_files(first, checked_path(predict_net, expected))
    return Predictor(pair, threads=threads, device=device, half=half)


__all__: List[str] = ["Predictor", "load"]
