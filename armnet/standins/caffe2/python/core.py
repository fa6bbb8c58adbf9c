"""``caffe2.python.core``: nets and operators written in Python."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Union

from armnet.standins.caffe2.proto import caffe2_pb2
from armnet.standins.caffe2.python.nets import net_of, operator_message
from armnet.standins.caffe2.python.plans import ExecutionStep, Plan, execution_step
from armnet.standins.caffe2.python.scope import CurrentNameScope, NameScope
from armnet.standins.caffe2.python.utils import argument_of
from armnet.standins.caffe2.python.workspace import GlobalInit
from armnet.standins.failures import raised_as
from armnet.standins.notes import note
from runtime_arm.netdef import OperatorDef
from runtime_arm.registry.schema import find_type

__all__ = [
    "BlobReference",
    "CreateOperator",
    "DeviceOption",
    "DeviceScope",
    "ExecutionStep",
    "GlobalInit",
    "GradientSlice",
    "IsOperator",
    "NameScope",
    "Net",
    "Plan",
    "ScopedBlobReference",
    "ScopedName",
    "execution_step",
]
_used_names: Dict[str, int] = {}


def __getattr__(name: str) -> Any:
    if name == "DataType":  # of the numbers FLOAT, INT64 and others
        return caffe2_pb2.TensorProto
    raise AttributeError(f"armnet's stand-in for caffe2 has no core.{name}")


# Scopes


def ScopedName(name: str) -> str:
    """A name in the present scope."""
    return CurrentNameScope() + name


def ScopedBlobReference(name: str, net: Optional[Net] = None) -> BlobReference:
    """A blob in the present scope."""
    return BlobReference(ScopedName(name), net)


def DeviceOption(device_type: int, device_id: int = 0, random_seed: Optional[int] = None, **others: Any) -> Any:
    """The message; a device other than the processor is noted, and the processor runs."""
    if device_type != caffe2_pb2.CPU:
        note(f"core.DeviceOption({device_type}) changes nothing: armnet runs Caffe2's nets on the processor")
    option = caffe2_pb2.DeviceOption(device_type=device_type, device_id=device_id, **others)
    if random_seed is not None:
        option.random_seed = random_seed
    return option


@contextmanager
def DeviceScope(scope: Any, node_name: Optional[str] = None) -> Iterator[None]:
    """The block's operators run on the processor, as all do."""
    yield


# Operators


def IsOperator(op_type: str) -> bool:
    """Whether armnet has an operator of this type."""
    return find_type("", op_type) is not None


def _several(blobs: Any) -> Sequence[Any]:
    """A blob, several, or none."""
    if blobs is None:
        return ()
    return blobs if isinstance(blobs, (list, tuple)) else (blobs,)


def _names(blobs: Any) -> List[str]:
    """The names of a blob, or of several."""
    return list(map(str, _several(blobs)))


def _scoped(blobs: Any) -> List[str]:
    """The same, with the present scope before names that are texts."""
    return [ScopedName(one) if isinstance(one, str) else str(one) for one in _several(blobs)]


def CreateOperator(
    operator_type: str,
    inputs: Any,
    outputs: Any,
    name: str = "",
    control_input: Any = None,
    device_option: Any = None,
    arg: Optional[Sequence[Any]] = None,
    engine: Optional[str] = None,
    debug_info: Optional[str] = None,
    **kwargs: Any,
) -> Any:
    """An OperatorDef; what has no name here becomes an argument of it."""
    arguments = tuple(argument_of(key, value) for key, value in kwargs.items() if value is not None)
    made = OperatorDef(operator_type, tuple(_scoped(inputs)), tuple(_scoped(outputs)), arguments, name, engine or "")
    operator = operator_message(made)
    operator.control_input.extend(_names(control_input))
    operator.arg.extend(arg or ())
    if device_option is not None:
        operator.device_option.CopyFrom(device_option)
    if debug_info:
        operator.debug_info = debug_info
    return operator


class GradientSlice(NamedTuple):
    """A gradient of which few rows are there: their indices, and their values."""

    indices: Any
    values: Any


class BlobReference:
    """A blob by its name. Operators that read it are its methods: ``X.FC([W, b], "Y")``."""

    def __init__(self, name: Any, net: Optional[Net] = None):
        self._name, self._net = str(name), net

    def __str__(self) -> str:
        return self._name

    def __repr__(self) -> str:
        return f'BlobReference("{self._name}")'

    def __eq__(self, other: object) -> bool:
        return isinstance(other, (str, BlobReference)) and str(other) == self._name

    def __hash__(self) -> int:
        return hash(self._name)

    def __add__(self, other: str) -> BlobReference:
        return BlobReference(self._name + other, self._net)

    def __radd__(self, other: str) -> BlobReference:
        return BlobReference(other + self._name, self._net)

    def Net(self) -> Optional[Net]:
        """The net that made it."""
        return self._net

    def GetNameScope(self) -> str:
        """What its name begins with, up to the last slash."""
        return self._name[: self._name.rfind("/") + 1]

    def __getattr__(self, op_type: str) -> Callable[..., Any]:
        if op_type.startswith("_") or self._net is None:
            raise AttributeError(op_type)
        operator = getattr(self._net, op_type)
        return lambda inputs=(), *rest, **kwargs: operator([self, *_several(inputs)], *rest, **kwargs)


class Net:
    """``net = Net("name")``, ``net.Relu(["X"], ["Y"])``: operators are added by methods with their names.

    An operator gives its outputs as BlobReferences: one, or a tuple. Without outputs, or with their number, they get
    names.
    """

    def __init__(self, name_or_proto: Union[str, Any]):
        self._net = caffe2_pb2.NetDef()
        if not isinstance(name_or_proto, str):
            self._net.CopyFrom(name_or_proto)
        self._net.name = _fresh(name_or_proto if isinstance(name_or_proto, str) else self._net.name)
        self._next = 0

    def Proto(self) -> Any:
        """The NetDef."""
        return self._net

    def Name(self) -> str:
        """The net's name."""
        return str(self._net.name)

    def __str__(self) -> str:
        return self.Name()

    def AddExternalInput(self, *inputs: Any) -> Any:
        """Declare blobs that come from outside."""
        return self._declared(inputs, self._net.external_input)

    def AddExternalOutput(self, *outputs: Any) -> None:
        """Declare blobs that are taken outside."""
        self._declared(outputs, self._net.external_output)

    def _declared(self, given: Sequence[Any], names: Any) -> Any:
        found = [BlobReference(name, self) for one in given for name in _names(one)]
        names.extend(str(one) for one in found if str(one) not in names)
        return found[0] if len(found) == 1 else found

    @property
    def external_inputs(self) -> List[BlobReference]:
        return [BlobReference(name, self) for name in self._net.external_input]

    @property
    def external_outputs(self) -> List[BlobReference]:
        return [BlobReference(name, self) for name in self._net.external_output]

    def NextName(self, prefix: Optional[str] = None, output_id: Optional[int] = None) -> str:
        """A name that no blob of the net has: ``net/prefix``, ``net/prefix_2``, or without a prefix ``net_blob_0``."""
        if not prefix:
            self._next += 1
            return f"{self.Name()}_blob_{self._next - 1}"
        place = "" if output_id is None else f":{output_id}"
        name, number = f"{self.Name()}/{prefix}{place}", 2
        while self.BlobIsDefined(ScopedName(name)):
            name, number = f"{self.Name()}/{prefix}_{number}{place}", number + 1
        return name

    def BlobIsDefined(self, blob: Any) -> bool:
        """Whether the net reads or writes a blob of this name."""
        names = {name for op in self._net.op for name in (*op.input, *op.output)}
        return str(blob) in names.union(self._net.external_input)

    def GetBlobRef(self, blob_name: Any) -> BlobReference:
        """A blob of the net."""
        return BlobReference(blob_name, self)

    def AddGradientOperators(self, ys: Any, skip: int = 0) -> Dict[str, Any]:
        """Append the operators that compute gradients of these blobs; the gradient of each blob, by name."""
        from optimize.gradients import add_gradient_operators

        given = {str(y): None if g is None else str(g) for y, g in ys.items()} if isinstance(ys, dict) else _names(ys)
        with raised_as(RuntimeError):
            net, gradients = add_gradient_operators(net_of(self), given)
        self._net.CopyFrom(caffe2_pb2.NetDef.FromString(net.to_bytes()))
        return {
            name: self.GetBlobRef(g) if isinstance(g, str) else GradientSlice(*map(self.GetBlobRef, g))
            for name, g in gradients.items()
        }

    def RunAllOnGPU(self, gpu_id: int = 0, use_cudnn: bool = False) -> None:
        """Noted: the processor runs."""
        note("Net.RunAllOnGPU() changes nothing: armnet runs Caffe2's nets on the processor")

    def Clone(self, name: str) -> Net:
        """A copy under another name."""
        copy = Net(self._net)
        copy._net.name = _fresh(name)
        return copy

    def __getattr__(self, op_type: str) -> Callable[..., Any]:
        if op_type.startswith("_"):
            raise AttributeError(op_type)
        if not IsOperator(op_type):
            raise AttributeError(f"armnet's stand-in for caffe2 has no method and no operator {op_type!r} of a net")
        return lambda inputs=(), outputs=None, **kwargs: self._add(op_type, inputs, outputs, kwargs)

    def _add(self, op_type: str, inputs: Any, outputs: Any, kwargs: Dict[str, Any]) -> Any:
        if outputs is None:
            outputs = self.NextName(op_type)
        elif isinstance(outputs, int):
            outputs = [self.NextName(op_type, number) for number in range(outputs)]
        operator = CreateOperator(op_type, inputs, outputs, **kwargs)
        known = {name for op in self._net.op for name in op.output}.union(self._net.external_input)
        self._net.external_input.extend(dict.fromkeys(name for name in operator.input if name not in known))
        self._net.op.extend([operator])
        made = [BlobReference(name, self) for name in operator.output]
        return made[0] if len(made) == 1 else tuple(made)


def _fresh(name: str) -> str:
    """The name, with a number if a net has had it before."""
    _used_names[name] = _used_names.get(name, -1) + 1
    return f"{name}_{_used_names[name]}" if _used_names[name] else name


def get_ssa(net: Any, blob_versions: Optional[Dict[str, int]] = None) -> Tuple[List[Any], Dict[str, int]]:
    """For each operator its inputs and outputs as (name, version), and the last version of each blob.

    A version counts how often operators have written the blob before; ``blob_versions`` goes on from other nets.
    """
    proto = net.Proto() if hasattr(net, "Proto") else net
    versions = {} if blob_versions is None else blob_versions
    for name in proto.external_input:
        versions.setdefault(name, 0)
    ssa = []
    for op in proto.op:
        if not proto.external_input:
            versions.update({name: 0 for name in op.input if name not in versions})
        inputs = [(name, versions.get(name, 0)) for name in op.input]
        for name in op.output:
            versions[name] = versions.get(name, 0) + 1
        ssa.append((inputs, [(name, versions[name]) for name in op.output]))
    return ssa, versions
