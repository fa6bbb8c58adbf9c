"""Checks what a program feeds to a session, as onnxruntime does."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Sequence

import numpy as np

from armnet.standins.onnxruntime.failures import InvalidArgument, failure
from armnet.standins.onnxruntime.nodes import NodeArg, element_dtype, element_name
from armnet.standins.onnxruntime.values import OrtValue
from runtime_arm.netdef import Array


def checked_feeds(inputs: Sequence[NodeArg], feed: Mapping[str, Any]) -> Dict[str, Array]:
    """The arrays by name. ValueError for an input that is missing; InvalidArgument for one that does not exist, or
    whose type, rank or sizes are not those of the model."""
    given = list(feed.keys())
    missing = [node.name for node in inputs if node.name not in feed and not node.type.startswith("optional")]
    if missing:
        raise ValueError(f"Required inputs ({missing}) are missing from input feed ({given}).")
    nodes = {node.name: node for node in inputs}
    for name in given:
        if name not in nodes:
            raise failure(InvalidArgument, f"Invalid input name: {name}; the model takes {', '.join(nodes)}")
    return {name: _fitting(nodes[name], value) for name, value in feed.items()}


def _fitting(node: NodeArg, value: Any) -> Array:
    array = _array_of(node, value)
    actual, expected = f"tensor({element_name(array.dtype)})", node.type
    if actual != expected:
        raise failure(
            InvalidArgument, f"Unexpected input data type for {node.name}: ({actual}), expected: ({expected})"
        )
    if len(node.shape) != array.ndim and (node.shape or array.ndim):
        raise failure(
            InvalidArgument, f"Invalid rank for input: {node.name} Got: {array.ndim} Expected: {len(node.shape)}"
        )
    wrong = [
        f"index: {at} Got: {size} Expected: {dim}"
        for at, (size, dim) in enumerate(zip(array.shape, node.shape))
        if isinstance(dim, int) and dim != size
    ]
    if wrong:
        raise failure(InvalidArgument, f"Got invalid dimensions for input: {node.name}: {', '.join(wrong)}")
    return array


def _array_of(node: NodeArg, value: Any) -> Array:
    """The array that a program feeds: arrays, OrtValues, and lists of numbers, which take the input's own type."""
    if isinstance(value, OrtValue):
        return value.numpy()
    if isinstance(value, (list, tuple)):
        return np.asarray(value, element_dtype(node.type))
    if not isinstance(value, (np.ndarray, np.generic)):
        raise RuntimeError(f"input {node.name!r} must be an array, got an object of type {type(value)}")
    array = np.asarray(value)
    if array.dtype.kind == "V" and array.dtype.names is None:  # bytes of one length
        strings = np.empty(array.shape, object)
        strings.ravel()[:] = [element.tobytes() for element in array.ravel()]
        return strings
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))
