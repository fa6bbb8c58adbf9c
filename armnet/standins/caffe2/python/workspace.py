"""``caffe2.python.workspace``: blobs by name, nets that run on them, and Predictor."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Union

import numpy as np

from armnet.standins.caffe2.python.made import MadeNet, Space
from armnet.standins.caffe2.python.nets import net_of
from armnet.standins.caffe2.python.plans import Plan, PlanRun
from armnet.standins.caffe2.python.utils import Caffe2TensorToNumpyArray
from armnet.standins.failures import raised_as
from armnet.standins.fusing import Fusing
from armnet.standins.notes import Standin
from runtime_arm.errors import UsageError
from runtime_arm.netdef import Array
from runtime_arm.pair.pair import Pair

has_gpu_support = has_cuda_support = has_hip_support = False


_NOT_CAFFE2 = ("uint32", "uint64", "complex64", "complex128")
_spaces: Dict[str, Space] = {"default": Space()}
_current = "default"


def _space() -> Space:
    return _spaces[_current]


# Workspaces


def ResetWorkspace(root_folder: Optional[str] = None) -> bool:
    """Forget every blob and net of the current workspace."""
    _spaces[_current] = Space()
    return True


def SwitchWorkspace(name: str, create_if_missing: bool = False) -> None:
    """Make another workspace the current one. RuntimeError if there is none of this name."""
    global _current
    if name not in _spaces:
        if not create_if_missing:
            raise RuntimeError(f"there is no workspace {name!r}; give create_if_missing=True")
        _spaces[name] = Space()
    _current = name


def CurrentWorkspace() -> str:
    """The name of the current workspace."""
    return _current


def Workspaces() -> List[str]:
    """The names of all workspaces."""
    return list(_spaces)


def GlobalInit(args: Sequence[str]) -> bool:
    """Nothing to do: armnet has none of Caffe2's flags."""
    return True


def NumCudaDevices() -> int:
    """None."""
    return 0


NumGpuDevices = NumCudaDevices


# Blobs


def FeedBlob(name: Any, arr: Any, device_option: Any = None) -> bool:
    """Set a blob to a copy of an array, to what a TensorProto holds, or to a text. RuntimeError for anything else, as
    lists and numbers of Python are, and for arrays of types that Caffe2 lacks."""
    if hasattr(arr, "data_type") and hasattr(arr, "dims"):
        arr = Caffe2TensorToNumpyArray(arr)
    with raised_as(RuntimeError):
        _space().feed(str(name), _fed(str(name), arr))
    return True


def _fed(name: str, value: Any) -> Array:
    """What a blob holds for a value that is fed; texts are bytes."""
    if isinstance(value, (str, bytes)):
        return np.array(_Text(_bytes(name, value)), object)
    if not isinstance(value, np.ndarray):
        given = type(value).__name__
        raise UsageError(f"blob {name!r}: Caffe2 takes NumPy arrays and texts, not {given}: give np.array(...)")
    if value.dtype.kind not in "SUO":
        if value.dtype.name in _NOT_CAFFE2 or value.dtype.kind not in "biufc":
            raise UsageError(f"Caffe2 has no tensors of {value.dtype.name}: blob {name!r} needs another type")
        return np.array(value)
    texts = np.empty(value.shape, object)
    texts.reshape(-1)[:] = [_bytes(name, one) for one in value.ravel().tolist()]
    return texts


def _bytes(name: str, text: Any) -> bytes:
    if not isinstance(text, (str, bytes)):
        raise UsageError(f"blob {name!r}: an array of objects holds texts alone, there is {type(text).__name__}")
    return text.encode() if isinstance(text, str) else text


class _Text(bytes):
    """The whole content of a blob, not an element of an array."""


def FetchBlob(name: Any) -> Any:
    """A copy of a blob: an array, of bytes for texts; or the bytes of a text that was fed. RuntimeError if there is no
    blob of this name."""
    with raised_as(RuntimeError):
        found = _space().fetch(str(name))
    if not isinstance(found, np.ndarray):
        return found
    if found.dtype == object and found.ndim == 0 and isinstance(found[()], _Text):
        return bytes(found[()])
    return found.copy()


def FetchBlobs(names: Sequence[Any]) -> List[Any]:
    """Copies of several blobs."""
    return [FetchBlob(name) for name in names]


def HasBlob(name: Any) -> bool:
    """Whether there is a blob of this name."""
    return _space().has(str(name))


def Blobs() -> List[str]:
    """The names of the blobs, sorted."""
    return _space().blobs()


class _BlobsByName:
    """``workspace.blobs["X"]``: the blobs of the current workspace, fetched and fed."""

    def __getitem__(self, name: Any) -> Any:
        return FetchBlob(name)

    def __setitem__(self, name: Any, arr: Any) -> None:
        FeedBlob(name, arr)

    def __contains__(self, name: Any) -> bool:
        return HasBlob(name)

    def __iter__(self) -> Iterator[str]:
        return iter(Blobs())

    def __len__(self) -> int:
        return len(Blobs())


blobs = _BlobsByName()


# Nets


def RunNetOnce(net: Any) -> bool:
    """Run a net on the blobs. RuntimeError with armnet's reason if it cannot run."""
    with raised_as(RuntimeError):
        _space().run_once(net_of(net))
    return True


def RunOperatorOnce(operator: Any) -> bool:
    """Run an operator on the blobs."""
    return RunOperatorsOnce([operator])


def RunOperatorsOnce(operators: Sequence[Any]) -> bool:
    """Run operators, one after the other."""
    from armnet.standins.caffe2.proto import caffe2_pb2

    net = caffe2_pb2.NetDef()
    for operator in operators:
        content = operator if isinstance(operator, bytes) else operator.SerializeToString()
        net.op.add().ParseFromString(content)
    return RunNetOnce(net)


def CreateNet(net: Any, overwrite: bool = False, input_blobs: Optional[Sequence[Any]] = None) -> bool:
    """Keep a net under its name, for ``RunNet``; there are its blobs from now on, without content.

    RuntimeError if there is one of that name, unless ``overwrite``, and if a blob that it reads is missing.
    """
    with raised_as(RuntimeError):
        made = net_of(net).check()
    if made.name in _space().nets and not overwrite:
        raise RuntimeError(f"there is a net {made.name!r} already; give overwrite=True")
    for name in input_blobs or ():
        if not HasBlob(name):
            FeedBlob(name, np.zeros(0, np.float32))
    missing = [name for name in MadeNet(made).reads if not HasBlob(name)]
    if missing:
        raise RuntimeError(f"net {made.name!r} reads {missing[0]!r}, which is no blob yet: feed it before CreateNet")
    _space().keep(MadeNet(made))
    return True


def RunNet(name: Any, num_iter: int = 1, allow_fail: bool = False) -> bool:
    """Run a net that was made, so many times. RuntimeError with armnet's reason unless ``allow_fail``."""
    called = name.Name() if hasattr(name, "Name") else getattr(name, "name", name)
    try:
        with raised_as(RuntimeError):
            if called not in _space().nets:
                raise UsageError(f"there is no net {called!r}; CreateNet makes one")
            for _ in range(num_iter):
                _space().run(called)
    except RuntimeError:
        if allow_fail:
            return False
        raise
    return True


def RunPlan(plan_or_step: Any) -> bool:
    """Run a plan, or a step. RuntimeError with armnet's reason if a net cannot run."""
    plan = plan_or_step if hasattr(plan_or_step, "Steps") else Plan(plan_or_step)
    with raised_as(RuntimeError):
        PlanRun(plan, _space().settled(), net_of)
    return True


def Nets() -> List[str]:
    """The names of the nets that were made."""
    return list(_space().nets)


class Predictor(Standin):
    """``Predictor(init_net, predict_net)``: the bytes of both nets, or their messages."""

    _package = "caffe2"

    def __init__(self, init_net: Any, predict_net: Any):
        with raised_as(RuntimeError):
            self._running = Fusing(Pair.from_nets(net_of(init_net), net_of(predict_net)))

    def run(self, inputs: Union[Mapping[Any, Any], Sequence[Any]]) -> List[Array]:
        """The outputs, of inputs in the net's order or by name."""
        with raised_as(RuntimeError):
            named = {str(name): value for name, value in inputs.items()} if isinstance(inputs, Mapping) else inputs
            return list(self._running.run(named).values())
