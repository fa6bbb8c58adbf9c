"""Hypothesis strategies for nets."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from runtime_arm.netdef import Argument, DeviceOption, NetDef, OperatorDef, frozen

DTYPES = [
    "bool",
    *(f"float{bits}" for bits in (16, 32, 64)),
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
]
ODD_NAMES = ["data", "conv1/7x7_s2", "onnx::Conv_1", "a b", "->", "#x", "net", 'say "hi"', ""]

names = st.text(st.characters(blacklist_categories=["Cs"]), max_size=8)
blobs = st.one_of(st.sampled_from(ODD_NAMES), names)
int64s = st.integers(-(2**63), 2**63 - 1)
floats32 = st.floats(width=32, allow_nan=False).map(float)


def arrays() -> st.SearchStrategy[Any]:
    """Arrays of every dtype that a net can hold, so small that the text form holds them."""
    shapes = npst.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=2)
    numbers = st.sampled_from(DTYPES).flatmap(lambda dtype: npst.arrays(np.dtype(dtype), shapes)).map(without_nan)
    return st.one_of(numbers, st.lists(st.binary(max_size=5), max_size=4).map(string_array)).map(frozen)


def without_nan(array: Any) -> Any:
    """The array with its NaNs, whose bits need not survive, replaced."""
    return np.where(array == array, array, np.zeros_like(array)).astype(array.dtype)


def string_array(items: list[bytes]) -> Any:
    """A one-dimensional array of byte strings."""
    array = np.empty(len(items), object)
    array[:] = items
    return array


def arguments(nets: st.SearchStrategy[NetDef]) -> st.SearchStrategy[Argument]:
    """One argument of any kind."""
    fields: dict[str, st.SearchStrategy[Any]] = {
        "f": floats32,
        "i": int64s,
        "s": st.binary(max_size=8),
        "floats": st.lists(floats32, max_size=20).map(lambda items: frozen(np.array(items, np.float32))),
        "ints": st.lists(int64s, max_size=20).map(lambda items: frozen(np.array(items, np.int64))),
        "strings": st.lists(st.binary(max_size=5), max_size=4).map(tuple),
        "n": nets,
        "nets": st.lists(nets, min_size=1, max_size=2).map(tuple),
        "t": arrays(),
        "tensors": st.lists(arrays(), min_size=1, max_size=2).map(tuple),
    }
    one = [st.builds(Argument, name=names, **{name: strategy}) for name, strategy in fields.items()]
    return st.one_of(st.builds(Argument, name=names), *one)


device_options = st.builds(
    DeviceOption,
    device_type=st.integers(0, 11),
    device_id=st.none() | st.integers(-(2**31), 2**31 - 1),
    random_seed=st.none() | st.integers(0, 2**32 - 1),
    node_name=names,
    numa_node_id=st.none() | st.integers(-1, 4),
    extra_info=st.lists(names, max_size=2).map(tuple),
).filter(lambda option: option != DeviceOption())


def _operators(nets: st.SearchStrategy[NetDef]) -> st.SearchStrategy[OperatorDef]:
    some_blobs = st.lists(blobs, max_size=3).map(tuple)
    return st.builds(
        OperatorDef,
        type=st.sampled_from(["Conv", "Relu", "aten::add", "a.b", ""]),
        input=some_blobs,
        output=some_blobs,
        arg=st.lists(arguments(nets), max_size=3).map(tuple),
        name=names,
        engine=st.sampled_from(["", "WINOGRAD", "NNPACK,MOBILE", "DEPTHWISE_3x3,NNPACK", "a b", "x,,y"]),
        domain=st.sampled_from(["", "onnx", "com.microsoft", "ai onnx", "x."]),
        control_input=st.lists(blobs, max_size=2).map(tuple),
        device_option=st.none() | device_options,
        is_gradient_op=st.booleans(),
        debug_info=names,
        op_version=st.none() | int64s,
    )


def _nets_of(inner: st.SearchStrategy[NetDef]) -> st.SearchStrategy[NetDef]:
    some_blobs = st.lists(blobs, max_size=4).map(tuple)
    return st.builds(
        NetDef,
        name=names,
        op=st.lists(_operators(inner), max_size=3).map(tuple),
        external_input=some_blobs,
        external_output=some_blobs,
        type=st.sampled_from(["", "simple", "dag"]),
        arg=st.lists(arguments(inner), max_size=1).map(tuple),
        num_workers=st.none() | st.integers(0, 8),
        device_option=st.none() | device_options,
    )


nets = st.recursive(st.builds(NetDef, name=names), _nets_of, max_leaves=3)
