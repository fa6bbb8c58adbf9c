"""ONNX's sequences and optional values.

A sequence is a blob of one dimension whose elements are arrays, dtype object. An optional value is a blob of no
dimension, dtype object, that holds an array, a sequence or None. Their content is never overwritten. Where ONNX expects
an optional value, its content alone is also accepted.
"""

from __future__ import annotations

from typing import Any, Callable, List, Optional, Sequence

import numpy as np

from runtime_arm.errors import OperatorError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.control.control import SubNets
from runtime_arm.registry.schema import DataDependent, Operator, axis_of, integers_of, operator, require
from runtime_arm.registry.specs import TensorSpec


def sequence_of(elements: Sequence[Any]) -> Array:
    """The elements as a blob."""
    sequence = np.empty(len(elements), object)
    for place, element in enumerate(elements):
        sequence[place] = element
    return sequence


def _of(count: int) -> List[TensorSpec]:
    return [TensorSpec((count,), object)]


def _require_sequence(op: OperatorDef, sequence: TensorSpec) -> None:
    require(op, sequence.dtype == np.dtype(object) and sequence.ndim == 1, "the input must be a sequence", sequence)


def _known_after_running(type: str, counts: Any) -> Callable[[Callable[..., Any]], Operator]:
    """Decorator over a reference kernel whose output is an element: its shape is known only after running."""

    def shape(op: OperatorDef, sequence: TensorSpec, *rest: Any) -> List[TensorSpec]:
        _require_sequence(op, sequence)
        raise DataDependent(type)

    def register(kernel: Callable[..., Any]) -> Operator:
        shape.__doc__ = kernel.__doc__
        schema = operator(type, domain="onnx", inputs=counts, pure=False)(shape)
        schema.reference(kernel)
        return schema

    return register


def _place(op: OperatorDef, position: Optional[Array], length: int, default: int) -> int:
    """A position, negative ones from the end; OperatorError unless it is one of ``length``."""
    place = default if position is None else int(position.reshape(-1)[0])
    if not -length <= place < length:
        raise OperatorError(op, f"position {place} is out of range for {length} places")
    return place % length


@operator("SequenceEmpty", domain="onnx", inputs=0, pure=False)
def sequence_empty(op: OperatorDef) -> List[TensorSpec]:
    """A sequence of no elements."""
    return _of(0)


sequence_empty.reference(lambda op: [sequence_of([])])


@operator("SequenceConstruct", domain="onnx", inputs=(1, None), pure=False)
def sequence_construct(op: OperatorDef, *inputs: TensorSpec) -> List[TensorSpec]:
    """The sequence of the inputs."""
    return _of(len(inputs))


sequence_construct.reference(lambda op, *inputs: [sequence_of([x.copy() for x in inputs])])


@operator("SequenceInsert", domain="onnx", inputs=(2, 3), pure=False)
def sequence_insert(
    op: OperatorDef, sequence: TensorSpec, element: TensorSpec, position: Optional[TensorSpec] = None
) -> List[TensorSpec]:
    """The sequence with an element inserted before a position, by default at its end."""
    _require_sequence(op, sequence)
    return _of(sequence.size + 1)


@sequence_insert.reference
def sequence_insert_reference(op: OperatorDef, sequence: Array, element: Any, position: Optional[Array] = None) -> Any:
    count = len(sequence)
    place = count if position is None else int(position.reshape(-1)[0])
    if not -count <= place <= count:
        raise OperatorError(op, f"position {place} is out of range for {count} elements")
    elements = list(sequence)
    elements.insert(place, element.copy())
    return [sequence_of(elements)]


@operator("SequenceErase", domain="onnx", inputs=(1, 2), pure=False)
def sequence_erase(op: OperatorDef, sequence: TensorSpec, position: Optional[TensorSpec] = None) -> List[TensorSpec]:
    """The sequence without the element at a position, by default the last one."""
    _require_sequence(op, sequence)
    require(op, sequence.size > 0, "the sequence is empty", sequence)
    return _of(sequence.size - 1)


@sequence_erase.reference
def sequence_erase_reference(op: OperatorDef, sequence: Array, position: Optional[Array] = None) -> List[Any]:
    place = _place(op, position, len(sequence), -1)
    return [sequence_of([element for at, element in enumerate(sequence) if at != place])]


@operator("SequenceLength", domain="onnx", inputs=1)
def sequence_length(op: OperatorDef, sequence: TensorSpec) -> List[TensorSpec]:
    """The number of elements."""
    _require_sequence(op, sequence)
    return [TensorSpec((), np.int64, np.array(sequence.size, np.int64))]


sequence_length.reference(lambda op, sequence: [np.array(len(sequence), np.int64)])


@_known_after_running("SequenceAt", 2)
def sequence_at(op: OperatorDef, sequence: Array, position: Array) -> List[Any]:
    """The element at a position."""
    return [sequence[_place(op, position, len(sequence), 0)].copy()]


@_known_after_running("ConcatFromSequence", 1)
def concat_from_sequence(op: OperatorDef, sequence: Array) -> List[Any]:
    """The elements joined along ``axis``, or, with ``new_axis``, stacked along it."""
    require(op, len(sequence) > 0, "the sequence is empty")
    axis = op.get_int("axis")
    return [(np.stack if op.get_bool("new_axis") else np.concatenate)(list(sequence), axis=axis)]


def _cuts(op: OperatorDef, x: TensorSpec, split: Optional[TensorSpec]) -> List[int]:
    """The sizes of the parts of SplitToSequence."""
    length = x.shape[axis_of(op, op.get_int("axis", 0), x.ndim)]
    if split is None:
        return [1] * length
    sizes = integers_of(op, split, "split")
    if split.ndim:
        require(
            op, sum(sizes) == length and min(sizes, default=0) >= 0, f"the parts must have {length} in all", x, split
        )
        return sizes
    require(op, sizes[0] > 0, "the size of the parts must be positive", split)
    return [min(sizes[0], length - at) for at in range(0, length, sizes[0])]


@operator("SplitToSequence", domain="onnx", inputs=(1, 2), pure=False)
def split_to_sequence(op: OperatorDef, x: TensorSpec, split: Optional[TensorSpec] = None) -> List[TensorSpec]:
    """X cut along ``axis`` (0) into parts of one size, the last one may be smaller; or of the sizes in ``split``; or of
    1 each, and then without ``keepdims`` (1) the parts lack that axis."""
    return _of(len(_cuts(op, x, split)))


@split_to_sequence.reference
def split_to_sequence_reference(op: OperatorDef, x: Array, split: Optional[Array] = None) -> List[Any]:
    spec = TensorSpec(x.shape, x.dtype)
    axis = axis_of(op, op.get_int("axis", 0), x.ndim)
    ends = np.cumsum(_cuts(op, spec, None if split is None else TensorSpec.known(split)))
    parts = [part.copy() for part in np.split(x, ends[:-1], axis)] if len(ends) else []
    if split is None and not op.get_bool("keepdims", True):
        parts = [part.squeeze(axis) for part in parts]
    return [sequence_of(parts)]


def optional_of(value: Any) -> Array:
    """The optional value that holds an array, a sequence or None."""
    return sequence_of([value]).reshape(())


def _may_be_nothing(x: TensorSpec) -> bool:
    return x.dtype == np.dtype(object) and x.ndim == 0


def _held(x: Any) -> Any:
    """What a blob holds if it is an optional value, else the blob itself."""
    return x[()] if x.dtype == np.dtype(object) and not x.ndim and not isinstance(x[()], (str, bytes)) else x


@operator("Optional", domain="onnx", inputs=(0, 1), pure=False)
def optional(op: OperatorDef, x: Optional[TensorSpec] = None) -> List[TensorSpec]:
    """The optional value that holds the input, or nothing if it is left out."""
    return [TensorSpec((), object)]


optional.reference(lambda op, x=None: [optional_of(None if x is None else x.copy())])


@operator("OptionalHasElement", domain="onnx", inputs=(0, 1))
def optional_has_element(op: OperatorDef, x: Optional[TensorSpec] = None) -> List[TensorSpec]:
    """Whether an optional value holds something; of anything else true, and of an input that is left out false."""
    return [TensorSpec((), np.bool_)]


optional_has_element.reference(lambda op, x=None: [np.array(x is not None and _held(x) is not None)])


@operator("OptionalGetElement", domain="onnx", inputs=1, pure=False)
def optional_get_element(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """The content of an optional value, OperatorError if it is empty; anything else as it is."""
    if _may_be_nothing(x):
        raise DataDependent(op.type)
    return [x]


@optional_get_element.reference
def optional_get_element_reference(op: OperatorDef, x: Array) -> List[Any]:
    held = _held(x)
    if held is None:
        raise OperatorError(op, "the optional value holds nothing")
    return [held.copy()]


@operator("SequenceMap", domain="onnx", inputs=(1, None), outputs=(1, None), control=True)
def sequence_map(op: OperatorDef, *inputs: Optional[TensorSpec]) -> List[TensorSpec]:
    """Runs ``body`` for each element of the first input. Its outputs are the elements of sequences.

    ``body`` takes an element of each input that is a sequence, and the others as they are.
    """
    raise DataDependent(op.type)


@sequence_map.reference
def sequence_map_reference(op: OperatorDef, nets: SubNets, first: Array, *others: Any) -> List[Any]:
    body = op.get_net("body")
    found: List[List[Any]] = [[] for _ in op.output]
    walked = [first, *others]
    for place in range(len(first)):
        given = [x[place] if _is_sequence(x) else x for x in walked]
        results = nets.run(body, dict(zip(body.external_input, given)), body.external_output)
        for elements, result in zip(found, results):
            elements.append(result)
    return [sequence_of(elements) for elements in found]


def _is_sequence(x: Any) -> bool:
    """Whether an operand is a sequence and no text."""
    return bool(x.dtype == np.dtype(object) and x.ndim == 1 and len(x) and isinstance(x[0], np.ndarray))
