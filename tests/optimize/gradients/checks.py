"""Holds gradients against central finite differences in float64, and fast gradient kernels against the reference."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Sequence, Tuple, Union

import numpy as np

from device_tests.suite.kernels import assert_engines_match_reference
from device_tests.suite.tolerance import assert_close
from optimize.gradients import SparseGradient, add_gradient_operators
from runtime_arm.netdef import Array, NetDef, OperatorDef
from runtime_arm.registry.schema import lookup
from tests.support.in_place import run_in_place

STEP = 1e-6  # the error of the quotient is near 1e-10 for functions of moderate size
RELATIVE = 1e-5  # of the largest gradient
PROBES = 24  # elements of each blob that are moved

Blobs = Dict[str, Any]


class Draw:
    """Random sizes and numbers, the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)

    def size(self, low: int = 1, high: int = 5) -> int:
        return int(self._random.integers(low, high + 1))

    def sizes(self, count: int, low: int = 1, high: int = 5) -> List[int]:
        return [self.size(low, high) for _ in range(count)]

    def normal(self, *shape: int) -> Array:
        return self._random.standard_normal(shape)

    def uniform(self, low: float, high: float, *shape: int) -> Array:
        return self._random.uniform(low, high, shape)

    def distinct(self, *shape: int) -> Array:
        """Numbers that are further apart than the steps of the differences, so that no maximum changes place."""
        count = int(np.prod(shape))
        return (self._random.permutation(count).reshape(shape) - count / 2) / 16.0

    def integers(self, high: int, *shape: int, dtype: Any = np.int32) -> Array:
        return self._random.integers(0, high, shape).astype(dtype)

    def positive(self, *shape: int) -> Array:
        return self.uniform(0.5, 2.0, *shape)


class Case(NamedTuple):
    """A net, perhaps as text, what it is fed, the outputs that are differentiated, and with respect to which inputs."""

    text: Union[str, NetDef]
    feeds: Mapping[str, Array]
    ys: Sequence[str] = ("Y",)
    to: Sequence[str] = ()  # all floats that are fed, if empty


def evaluated(ops: Sequence[OperatorDef], feeds: Mapping[str, Any]) -> Tuple[Blobs, List[List[Any]]]:
    """The blobs after the reference kernels of the operators ran, and what each operator read."""
    blobs, read = dict(feeds), []
    for op in ops:
        read.append([blobs[name] if name else None for name in op.input])
        for name, value in zip(op.output, lookup(op).evaluate(op, read[-1])):
            if name:
                blobs[name] = np.array(value)
    return blobs, read


def check(case: Case, seed: int = 0) -> List[str]:
    """``check_net`` of a case, and fast kernels against the reference. Returns the types of the gradient operators."""
    net = NetDef.from_text(case.text) if isinstance(case.text, str) else case.text
    ops, read = check_net(net, case.feeds, case.ys, case.to, seed)
    for op, inputs in zip(ops, read):
        check_kernels(op, inputs)
    return [op.type for op in ops]


def check_net(
    net: NetDef, feeds: Mapping[str, Array], ys: Sequence[str], to: Sequence[str] = (), seed: int = 0
) -> Tuple[Sequence[OperatorDef], List[List[Any]]]:
    """AssertionError unless the gradients with respect to ``to`` (all floats that are fed, if empty) are right; returns
    the gradient operators and what they read."""
    tops = {f"{y}_top": value for y, value in _tops(net, feeds, ys, seed)}
    made, gradients = add_gradient_operators(net, {y: f"{y}_top" for y in ys})
    blobs, read = evaluated(made.op, {**feeds, **tops})
    for name in to or [name for name, value in feeds.items() if value.dtype.kind == "f"]:
        assert name in gradients, f"{net.to_text()}: {name} has no gradient"
        found = as_dense(gradients[name], blobs, feeds[name])
        assert found.shape == feeds[name].shape, f"{net.to_text()}: the gradient of {name} is {found.shape}"
        _compare(net, feeds, tops, name, found)
    first = next((place for place, op in enumerate(made.op) if op.is_gradient_op), len(made.op))
    return made.op[first:], read[first:]


def _tops(net: NetDef, feeds: Mapping[str, Array], ys: Sequence[str], seed: int) -> Iterator[Tuple[str, Array]]:
    blobs, _ = evaluated(net.op, feeds)
    for index, y in enumerate(ys):
        yield y, np.random.default_rng(seed + index).uniform(0.5, 1.5, np.shape(blobs[y]))


def as_dense(gradient: Any, blobs: Mapping[str, Any], like: Array) -> Array:
    """The gradient as an array; of a sparse one the sum of the values at each index."""
    if not isinstance(gradient, SparseGradient):
        return np.asarray(blobs[gradient])
    total = np.zeros(like.shape)
    values = np.asarray(blobs[gradient.values])
    np.add.at(total, blobs[gradient.indices].reshape(-1), values.reshape(-1, *like.shape[1:]))
    return total


def _compare(net: NetDef, feeds: Mapping[str, Array], tops: Blobs, name: str, found: Array) -> None:
    """AssertionError unless the gradient is the quotient of differences at some of its elements."""

    def loss(moved: Array) -> float:
        blobs, _ = evaluated(net.op, {**feeds, name: moved})
        return float(sum((top * blobs[y[: -len("_top")]]).sum() for y, top in tops.items()))

    size, largest = found.size, max(float(np.abs(found).max(initial=0.0)), 1e-3)
    for index in np.random.default_rng(1).permutation(size)[:PROBES]:
        step = np.zeros(size)
        step[index] = STEP
        step = step.reshape(found.shape)
        quotient = (loss(feeds[name] + step) - loss(feeds[name] - step)) / (2 * STEP)
        error = abs(found.reshape(-1)[index] - quotient)
        what = f"{net.to_text()}: element {index} of the gradient of {name}"
        assert error <= RELATIVE * largest, f"{what} is {found.reshape(-1)[index]}, the differences give {quotient}"


def check_kernels(op: OperatorDef, inputs: Sequence[Any]) -> None:
    """The fast kernels of a gradient operator agree with the reference in float32, also where they overwrite an
    input."""
    schema = lookup(op)
    if schema.view or schema.control:
        return
    single = [x if x is None or x.dtype.kind != "f" else x.astype(np.float32) for x in inputs]
    constants = [index for index, x in enumerate(single) if x is not None and x.dtype.kind in "iu" and x.size < 64]
    if op.type == "ResizeGradient":
        constants += [index for index in (2, 3) if index < len(single) and single[index] is not None]
    terms = max([1, *(x.size for x in single if x is not None)])
    engines = assert_engines_match_reference(op, single, terms=terms, constants=constants)
    for index in schema.inplace.get(0, ()):
        if index < len(single) and "NUMPY" in engines:
            expected = schema.evaluate(op, single)[0]
            if expected.shape == single[index].shape:
                actual = run_in_place(op, single, "NUMPY", index)
                assert_close(actual, expected, terms=terms, what=f"{op.signature()} in place of input {index}")
