"""The part of a Caffe net that inference runs: layers of its phase, without the losses that only training needs."""

from __future__ import annotations

from typing import Any, List, Sequence, Set

from runtime_arm.errors import ExportError
from runtime_arm.netdef.values import shown

DATA_LAYERS = ("Data", "ImageData", "HDF5Data", "MemoryData", "WindowData", "AnnotatedData", "VideoData")
INPUT_LAYERS = ("Input", *DATA_LAYERS)
LOSSES = (
    "Accuracy",
    "ContrastiveLoss",
    "EuclideanLoss",
    "HingeLoss",
    "InfogainLoss",
    "MultinomialLogisticLoss",
    "SigmoidCrossEntropyLoss",
    "SoftmaxWithLoss",
    "MultiBoxLoss",
    "DetectionEvaluate",
)
_LONGEST_NAME = 200  # characters that errors show
SINKS = ("Silence", "HDF5Output")  # layers without a result


def inference_layers(net: Any, keep_losses: bool = False) -> List[Any]:
    """The layers of an upgraded NetParameter that run in the phase of its ``state`` (TEST), in order.

    Losses and accuracies that read a label of a data layer go, unless ``keep_losses``, and with them the layers that
    prepare nothing but labels.
    """
    layers = [layer for layer in net.layer if _is_included(layer, net.state) and layer.type not in SINKS]
    for layer in layers:
        layer.phase = net.state.phase  # whatever a file that was written while training says of the layer
    if keep_losses:
        return layers
    labels = {top for layer in layers if layer.type in DATA_LAYERS for top in layer.top[1:]}
    data = labels | {top for layer in layers if layer.type in DATA_LAYERS for top in layer.top}
    preparing = [layer for layer in layers if layer.bottom and labels.issuperset(layer.bottom)]
    for layer in preparing:
        labels.update(layer.top)
    kept = [layer for layer in layers if layer.type not in LOSSES or (data | labels).isdisjoint(layer.bottom)]
    return _without_idle(kept, preparing)


def _without_idle(layers: Sequence[Any], candidates: Sequence[Any]) -> List[Any]:
    """The layers but for those candidates whose tops nobody reads."""
    kept: List[Any] = []
    read: Set[str] = set()
    for layer in reversed(layers):
        if any(layer is candidate for candidate in candidates) and read.isdisjoint(layer.top):
            continue
        read.update(layer.bottom)
        kept.append(layer)
    return kept[::-1]


def title(layer: Any) -> str:
    """What errors call a layer: ``layer 'conv1' (Convolution)``."""
    return f"layer {layer.name[:_LONGEST_NAME]!r} ({shown(layer.type)})"


def _is_included(layer: Any, state: Any) -> bool:
    if layer.include and layer.exclude:
        raise ExportError(f"{title(layer)}: has both include and exclude rules")
    if layer.include:
        return any(_meets(rule, state) for rule in layer.include)
    return not any(_meets(rule, state) for rule in layer.exclude)


def _meets(rule: Any, state: Any) -> bool:
    """Whether the phase, level and stages that the net itself names meet a NetStateRule."""
    stages = set(state.stage)
    return (
        (not rule.HasField("phase") or rule.phase == state.phase)
        and (not rule.HasField("min_level") or state.level >= rule.min_level)
        and (not rule.HasField("max_level") or state.level <= rule.max_level)
        and stages.issuperset(rule.stage)
        and stages.isdisjoint(rule.not_stage)
    )


def outputs_of(layers: Sequence[Any]) -> List[str]:
    """The blobs that no layer reads after the last one has written them, in the order in which they are made."""
    available: List[str] = []
    for layer in layers:
        available = [name for name in available if name not in layer.bottom]
        if layer.type not in INPUT_LAYERS:
            available.extend(name for name in layer.top if name not in available)
    return available
