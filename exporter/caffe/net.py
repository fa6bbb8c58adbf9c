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
_LONGEST_NAME = 200  # characters shown in errors
SINKS = ("Silence", "HDF5Output")  # layers without outputs


def inference_layers(net: Any, keep_losses: bool = False) -> List[Any]:
    """The layers of an upgraded NetParameter that run in the phase of its ``state`` (TEST by default), in order.

    Losses and accuracies that read labels of a data layer are removed, together with the layers that only prepare
    labels, unless ``keep_losses`` is set.
    """
    layers = [layer for layer in net.layer if is_included(layer, net.state) and layer.type not in SINKS]
    for layer in layers:
        layer.phase = net.state.phase  # overrides what a file written during training says
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
    """The layers without the candidates whose tops no layer reads."""
    kept: List[Any] = []
    read: Set[str] = set()
    for layer in reversed(layers):
        if any(layer is candidate for candidate in candidates) and read.isdisjoint(layer.top):
            continue
        read.update(layer.bottom)
        kept.append(layer)
    return kept[::-1]


def title(layer: Any) -> str:
    """The name of a layer in errors: ``layer 'conv1' (Convolution)``."""
    return f"layer {layer.name[:_LONGEST_NAME]!r} ({shown(layer.type)})"


def is_included(layer: Any, state: Any) -> bool:
    """Whether a layer belongs to a net in this NetState."""
    if layer.include and layer.exclude:
        raise ExportError(f"{title(layer)}: has both include and exclude rules")
    if layer.include:
        return any(_meets(rule, state) for rule in layer.include)
    return not any(_meets(rule, state) for rule in layer.exclude)


def _meets(rule: Any, state: Any) -> bool:
    """Whether the net's own phase, level and stages satisfy a NetStateRule."""
    stages = set(state.stage)
    return (
        (not rule.HasField("phase") or rule.phase == state.phase)
        and (not rule.HasField("min_level") or state.level >= rule.min_level)
        and (not rule.HasField("max_level") or state.level <= rule.max_level)
        and stages.issuperset(rule.stage)
        and stages.isdisjoint(rule.not_stage)
    )


def outputs_of(layers: Sequence[Any]) -> List[str]:
    """The blobs that no layer reads after their last write, in the order in which they are written."""
    available: List[str] = []
    for layer in layers:
        available = [name for name in available if name not in layer.bottom]
        if layer.type not in INPUT_LAYERS:
            available.extend(name for name in layer.top if name not in available)
    return available
