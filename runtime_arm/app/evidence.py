"""Collects the evidence in a pair, from which recognisers decide what its outputs mean."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.app.rules import VALUES
from runtime_arm.errors import ArmnetError, UsageError
from runtime_arm.execution.workspace import run_init_net
from runtime_arm.netdef.dtypes import number_of
from runtime_arm.pair.metadata import TensorInfo
from runtime_arm.pair.pair import Pair
from runtime_arm.registry.shape_inference import infer_net
from runtime_arm.registry.specs import TensorSpec
from runtime_arm.results.decoders import decoder_of
from runtime_arm.results.facts import Facts, Output, known, pictures_of
from runtime_arm.results.recognise import recognised, stated

_TRIED = (224, 227, 256, 320)  # pixels
_LARGEST_VALUE = 1 << 12  # elements of a constant that shapes may depend on


def facts_of(pair: Pair, shapes: Optional[Mapping[str, Sequence[int]]] = None, labels: int = 0) -> Facts:
    """The facts of a pair. shapes: those of inputs, where the pair leaves sizes open; labels: how many are given."""
    rule = pair.meta.get("preprocessing") or {}
    resize = rule.get("resize") if isinstance(rule.get("resize"), (list, tuple)) else None
    inputs = tuple(
        info if info.name not in (shapes or {}) else TensorInfo(info.name, tuple((shapes or {})[info.name]), info.dtype)
        for info in pair.inputs
    )
    if len(inputs) == 1 and inputs[0].shape is None and not shapes:
        inputs = (_from_first_convolution(pair, inputs[0]),)
    pictures = pictures_of(inputs, resize)
    sizes = {picture.name: (picture.height, picture.width, picture.layout) for picture in pictures}
    inferred = _inferred(pair, inputs, sizes) or _tried(pair, inputs, sizes)
    bare = Facts(pair.predict_net, inputs, ())
    told = [
        info
        for info in pair.outputs
        if not _is_constant(inferred.get(info.name)) and not _is_byproduct(pair, info.name)
    ]
    outputs = tuple(
        Output(info.name, _shape(info, inferred), _made_by(bare, info.name)) for info in told or pair.outputs
    )
    source = pair.meta.get("source") or {}
    properties = source.get("properties") or {}
    return Facts(
        pair.predict_net,
        inputs,
        outputs,
        pictures,
        {str(key): str(value) for key, value in properties.items()} if isinstance(properties, dict) else {},
        labels or len(pair.meta.get("labels") or ()),
        str(source.get("name", "")),
    )


def with_result(pair: Pair, task: Optional[str] = None) -> Pair:
    """The pair with the entry "result" in its metadata, if its evidence leaves no doubt about what its outputs mean,
    and with the preprocessing of its family, if it has none of its own. task: their meaning according to the user."""
    if pair.meta.get("result"):
        return pair
    try:
        found = recognised(facts_of(pair)) if task is None else stated(task, facts_of(pair))
    except UsageError:
        raise
    except ArmnetError:  # a net that cannot run tells so when it is asked to
        return pair
    if found is None:
        return pair
    meta = {**pair.meta, "result": found}
    family, stored = decoder_of(found["decoder"]).preprocessing, pair.meta.get("preprocessing") or {}
    if family is not None and set(family) & set(VALUES) and not set(stored) & set(VALUES):
        meta["preprocessing"] = {
            **family,
            **{key: value for key, value in stored.items() if key != "layout"},
            **_layout(family, stored),
        }
    return pair.replace(meta=meta)


def _layout(family: Mapping[str, Any], stored: Mapping[str, Any]) -> Dict[str, Any]:
    """The family's layout, else the stored one."""
    layout = family.get("layout") or stored.get("layout")
    return {"layout": layout} if layout else {}


def _made_by(facts: Facts, blob: str) -> str:
    made = facts.composition(blob)
    return made[0] if len(made) == 1 else ""


def _shape(info: TensorInfo, inferred: Mapping[str, Optional[TensorSpec]]) -> Optional[Tuple[Optional[int], ...]]:
    """The inferred shape, else the declared one."""
    spec = inferred.get(info.name)
    if spec is not None:
        return tuple(spec.shape)
    return None if info.shape is None else tuple(known(size) for size in info.shape)


def _is_constant(spec: Optional[TensorSpec]) -> bool:
    """Whether an output is known before the net runs, such as the shape that a Reshape hands on."""
    return spec is not None and spec.value is not None


def _is_byproduct(pair: Pair, blob: str) -> bool:
    """Whether an output is a by-product of Caffe2's Reshape or Concat: an old shape, the sizes of the parts."""
    writer = next((op for op in reversed(pair.predict_net.op) if blob in op.output), None)
    return writer is not None and writer.type in ("Reshape", "Concat") and blob != writer.output[0]


def _tried(
    pair: Pair, inputs: Sequence[TensorInfo], sizes: Mapping[str, Tuple[Optional[int], Optional[int], str]]
) -> Dict[str, Optional[TensorSpec]]:
    """The specs for a picture of some usual size, where the net takes any: the first one that it does not refuse."""
    open_sizes = {name for name, (height, width, _) in sizes.items() if height is None or width is None}
    for side in _TRIED if len(open_sizes) == 1 else ():
        given = {
            name: (side, side, layout) if name in open_sizes else (h, w, layout)
            for name, (h, w, layout) in sizes.items()
        }
        found = _inferred(pair, inputs, given)
        if found:
            return found
    return {}


def _from_first_convolution(pair: Pair, info: TensorInfo) -> TensorInfo:
    """An input of unknown shape as a picture, if a convolution reads it: its filters say how many channels it has."""
    reader = next((op for op in pair.predict_net.op if info.name in op.input), None)
    if reader is None or reader.type not in ("Conv", "ConvRelu") or len(reader.input) < 2:
        return info
    filters = run_init_net(pair.init_net).get(reader.input[1])
    if filters is None or filters.ndim != 4 or filters.shape[1] not in (1, 3):
        return info
    return TensorInfo(info.name, (None, int(filters.shape[1]), None, None), info.dtype or "float32")


def _inferred(
    pair: Pair, inputs: Sequence[TensorInfo], sizes: Mapping[str, Tuple[Optional[int], Optional[int], str]]
) -> Dict[str, Optional[TensorSpec]]:
    """The spec of every blob for a batch of one; nothing if a size is open or an operator refuses."""
    specs: Dict[str, TensorSpec] = {}
    for info in inputs:
        shape = _concrete(info, sizes.get(info.name))
        if shape is None:
            return {}
        specs[info.name] = TensorSpec(shape, np.dtype(info.dtype or "float32"))
    for name, value in run_init_net(pair.init_net).items():
        if name in specs or not isinstance(value, np.ndarray) or number_of(value.dtype) is None:
            continue
        content = value if value.size <= _LARGEST_VALUE else None
        specs[name] = TensorSpec(value.shape, value.dtype, content)
    try:
        return infer_net(pair.predict_net, specs)
    except ArmnetError:
        return {}


def _concrete(info: TensorInfo, size: Optional[Tuple[Optional[int], Optional[int], str]]) -> Optional[List[int]]:
    """The input's shape for a batch of one; None if another size is open."""
    if info.shape is None:
        return None
    shape: List[Any] = [known(dim) for dim in info.shape]
    if shape and shape[0] is None:
        shape[0] = 1
    if size is not None:
        at = 1 if size[2] == "NHWC" else 2
        shape[at : at + 2] = size[0], size[1]
    return None if None in shape else shape
