"""Losses and accuracies, for nets that take labels as inputs."""

from __future__ import annotations

from typing import Any, Dict, Optional

from exporter.caffe.layer import Layer
from exporter.caffe.rules import rule


def _normalization(layer: Layer, default: str) -> Dict[str, Any]:
    param = layer.param("loss_param")
    mode = default
    if param.HasField("normalization"):
        mode = param.NormalizationMode.Name(param.normalization)
    elif param.HasField("normalize"):
        mode = "VALID" if param.normalize else "BATCH_SIZE"
    return {"normalization": mode, "ignore_label": param.ignore_label if param.HasField("ignore_label") else None}


def _axis(layer: Layer) -> Optional[int]:
    name = {"Accuracy": "accuracy_param", "InfogainLoss": "infogain_loss_param"}.get(layer.type, "softmax_param")
    return int(layer.param(name).axis)


@rule("SoftmaxWithLoss", "InfogainLoss")
def of_softmax(layer: Layer) -> None:
    layer.require(layer.type != "InfogainLoss" or len(layer.bottoms) == 3, "needs its matrix as a third bottom")
    layer.counts(3 if layer.type == "InfogainLoss" else 2, len(layer.tops))
    layer.require(len(layer.tops) == max(layer.loss_weights, 1), "loss_weight must be given for each top")
    layer.caffe(layer.type, axis=_axis(layer), **_normalization(layer, "VALID"))


@rule("SigmoidCrossEntropyLoss")
def sigmoid_cross_entropy(layer: Layer) -> None:
    layer.counts(2)
    layer.caffe(layer.type, **_normalization(layer, "BATCH_SIZE"))


@rule("EuclideanLoss", "MultinomialLogisticLoss")
def without_parameters(layer: Layer) -> None:
    layer.counts(2)
    layer.caffe(layer.type)


@rule("HingeLoss")
def hinge(layer: Layer) -> None:
    layer.counts(2)
    param = layer.param("hinge_loss_param")
    layer.caffe(layer.type, norm=param.Norm.Name(param.norm))


@rule("ContrastiveLoss")
def contrastive(layer: Layer) -> None:
    layer.counts(3)
    param = layer.param("contrastive_loss_param")
    layer.caffe(layer.type, margin=param.margin, legacy_version=int(param.legacy_version))


@rule("Accuracy")
def accuracy(layer: Layer) -> None:
    """A second top is the accuracy of each class."""
    layer.counts(2, min(len(layer.tops), 2))
    param = layer.param("accuracy_param")
    ignored = param.ignore_label if param.HasField("ignore_label") else None
    layer.caffe(layer.type, top_k=param.top_k, axis=_axis(layer), ignore_label=ignored)
