"""Plans kept from start to start: ``~/.cache/armnet/plans/KEY``.

Planning a net takes longer than running it; reading a kept plan takes a millisecond. An entry holds all that is decided
before memory is allocated: the steps with their kernels, layouts and places in the arena. Weights, operators of the net
and declared kernels are stored in it by name. It is found by the hashes of the pair's files, the shapes, the versions
and the BLAS, and is valid only while every file of the runtime that was loaded when it was made is unchanged.

Reading an entry can run any code, so it is trusted on the same terms as bytecode (``machine/bytecode_cache.py``): only
if nobody else could have written it. Every plan, found or new, is verified once its memory is bound.
"""

from __future__ import annotations

import hashlib
import io
import os
import pickle
import sys
from typing import TYPE_CHECKING, Any, Dict, Iterable, Iterator, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.errors import ArmnetError
from runtime_arm.machine import blas
from runtime_arm.machine.bytecode_cache import put_sealed, sealed_entry
from runtime_arm.machine.caches import usual_block_nbytes
from runtime_arm.netdef import OperatorDef
from runtime_arm.planning.steps import Environment
from runtime_arm.planning.trace import Memory
from runtime_arm.registry.kernel import Kernel, no_scratch
from runtime_arm.registry.schema import Operator, lookup
from runtime_arm.registry.specs import TensorSpec
from runtime_arm.version import VERSION

if TYPE_CHECKING:
    from runtime_arm.planning.unpacked import Unpacked

PART = "plans"
LARGE = 1 << 16  # bytes; a plan with larger constants of its own is not kept
RUNTIME = __name__.partition(".")[0]
_UNREADABLE = (
    ArmnetError,
    pickle.PickleError,
    AttributeError,
    ImportError,
    LookupError,
    TypeError,
    ValueError,
    EOFError,
)

Stamp = Tuple[int, int]


class CachedPlan:
    """The place of one plan in the cache.

    about: everything on which the plan depends besides the machine. ops: the operators that are planned, with the
    engines that they prefer. env: the net's constants and inputs.
    """

    def __init__(self, about: Sequence[object], ops: Sequence[OperatorDef], env: Environment):
        library = blas.loaded()
        machine = (VERSION, sys.hexversion, sys.maxsize, sys.byteorder, np.__version__, usual_block_nbytes())
        core = None if library is None else (library.config, library.core)
        text = repr((*about, *machine, core, [op.engine for op in ops], sys.modules[RUNTIME].__file__))
        self._key = hashlib.sha256(text.encode()).hexdigest()
        self._ops = ops
        self._env = env

    def find(self, memory: Memory) -> Any:
        """What an earlier start gave to ``keep``, with this start's constants and operators in it; else None.

        memory: is told of the weights that are unpacked for it.
        """
        content = sealed_entry(PART, self._key)
        if content is None:
            return None
        try:
            file = io.BytesIO(content)
            stamps: Dict[str, Stamp] = pickle.load(file)
            if any(_stamp(path) != stamp for path, stamp in stamps.items()):
                return None
            return _Reader(file, self._ops, self._env, memory).load()
        except _UNREADABLE:
            return None

    def keep(self, planned: Any, unpacked: Optional[Iterable[Unpacked]] = None) -> None:
        """Keep a plan, if it can be written and the runtime's own code decided all of it.

        unpacked: weights in it that the next start unpacks for itself.
        """
        if sys.dont_write_bytecode or not all(_is_own(lookup(op)) for op in _all(self._ops)):
            return
        file = io.BytesIO()
        try:
            pickle.dump({path: _stamp(path) for path in _sources()}, file)
            _Writer(file, self._ops, self._env, unpacked or ()).dump(planned)
        except (pickle.PickleError, AttributeError, TypeError):
            return
        from runtime_arm.machine.cache import CachePart

        put_sealed(PART, self._key, file.getvalue(), CachePart(PART).put)


class _Writer(pickle.Pickler):
    def __init__(self, file: io.BytesIO, ops: Sequence[OperatorDef], env: Environment, unpacked: Iterable[Unpacked]):
        super().__init__(file, 4)
        self._names: Dict[int, Tuple[str, Any]] = {id(op): ("operator", at) for at, op in enumerate(ops)}
        for name, value in env.items():
            if value.foreign:
                self._names[id(value)] = "constant", name
                self._names[id(value.spec.value)] = "array", name
        for weight in unpacked:
            of = [None if spec is None else self._names.get(id(spec.value)) for spec in weight.inputs]
            if id(weight.op) in self._names and all(spec is None or one for spec, one in zip(weight.inputs, of)):
                self._names[id(weight.array)] = "unpacked", (self._names[id(weight.op)][1], of)
        self._schemas: Dict[int, Tuple[str, str]] = {}
        self._ops, self._env = ops, env  # alive as long as the ids count

    def persistent_id(self, one: Any) -> Any:
        """The name that replaces an object which every start makes itself."""
        if id(one) in self._names:
            return self._names[id(one)]
        if isinstance(one, np.ndarray) and one.nbytes > LARGE:
            raise pickle.PicklingError("a large constant")
        if isinstance(one, Operator):
            for engine, kernel in one.kernels.items():
                self._names[id(kernel)] = "kernel", (one.domain, one.type, engine)
            return "schema", (one.domain, one.type)
        return None

    def reducer_override(self, one: Any) -> Any:
        """Kernels are written without the function that asks for scratch memory, since that already has its place."""
        return (Kernel, one._replace(scratch=no_scratch)[:]) if type(one) is Kernel else NotImplemented


class _Reader(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, ops: Sequence[OperatorDef], env: Environment, memory: Memory):
        super().__init__(file)
        self._memory = memory
        self._unpacked: Dict[int, TensorSpec] = {}
        self._ops, self._env = ops, env
        self._schemas: Dict[Tuple[str, str], Operator] = {}

    def persistent_load(self, pid: Any) -> Any:
        kind, name = pid
        if kind == "constant":
            return self._env[name]
        if kind == "array":
            return self._env[name].spec.value
        if kind == "unpacked":
            return self._unpack(*name).value
        if kind == "operator":
            return self._ops[name]
        schema = self._schemas.get(name[:2])
        if schema is None:
            schema = self._schemas[name[:2]] = lookup(OperatorDef(type=name[1], domain=name[0]))
        return schema if kind == "schema" else schema.kernels[name[2]]

    def _unpack(self, at: int, inputs: Sequence[Optional[Tuple[str, Any]]]) -> TensorSpec:
        """The weight that an operator unpacks. inputs: the names of the arrays that it reads."""
        if at not in self._unpacked:
            specs = [
                None if one is None else self._env[one[1]].spec if one[0] == "array" else self._unpack(*one[1])
                for one in inputs
            ]
            self._unpacked[at] = self._memory.unpack(self._ops[at], specs)
        return self._unpacked[at]


def _all(ops: Sequence[OperatorDef]) -> Iterator[OperatorDef]:
    for op in ops:
        yield op
        for net in op.subnets():
            yield from _all(net.op)


def _is_own(schema: Operator) -> bool:
    return schema.shape.__module__.startswith(f"{RUNTIME}.")


def _sources() -> Iterator[str]:
    """The files of the modules of the runtime that are loaded, or the bundle that holds them."""
    for name, module in list(sys.modules.items()):
        path = getattr(module, "__file__", None)
        if path and (name == RUNTIME or name.startswith(f"{RUNTIME}.")):
            while not os.path.exists(path) and os.path.dirname(path) != path:
                path = os.path.dirname(path)
            yield path


def _stamp(path: str) -> Optional[Stamp]:
    """A stamp that differs whenever the file is written or replaced; None if the file is gone."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ctime_ns, found.st_size
