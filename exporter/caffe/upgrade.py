"""Converts Caffe nets of every dialect to today's form: V0 and V1 ``layers``, ``input`` fields, padding layers.

V0 (``layers { layer { type: "conv" } }``) keeps all parameters in one flat message, V1
(``layers { type: CONVOLUTION }``) has an enumeration of types; V2 (``layer { type: "Convolution" }``) is the form of
the result.
"""

from __future__ import annotations

from typing import Any, Dict, List, Tuple

from exporter.caffe.prototxt import message_class
from runtime_arm.errors import ExportError

_V1_TYPES = {
    "ABSVAL": "AbsVal",
    "ACCURACY": "Accuracy",
    "ARGMAX": "ArgMax",
    "BNLL": "BNLL",
    "CONCAT": "Concat",
    "CONTRASTIVE_LOSS": "ContrastiveLoss",
    "CONVOLUTION": "Convolution",
    "DATA": "Data",
    "DECONVOLUTION": "Deconvolution",
    "DROPOUT": "Dropout",
    "DUMMY_DATA": "DummyData",
    "EUCLIDEAN_LOSS": "EuclideanLoss",
    "ELTWISE": "Eltwise",
    "EXP": "Exp",
    "FLATTEN": "Flatten",
    "HDF5_DATA": "HDF5Data",
    "HDF5_OUTPUT": "HDF5Output",
    "HINGE_LOSS": "HingeLoss",
    "IM2COL": "Im2col",
    "IMAGE_DATA": "ImageData",
    "INFOGAIN_LOSS": "InfogainLoss",
    "INNER_PRODUCT": "InnerProduct",
    "LRN": "LRN",
    "MEMORY_DATA": "MemoryData",
    "MULTINOMIAL_LOGISTIC_LOSS": "MultinomialLogisticLoss",
    "MVN": "MVN",
    "POOLING": "Pooling",
    "POWER": "Power",
    "RELU": "ReLU",
    "SIGMOID": "Sigmoid",
    "SIGMOID_CROSS_ENTROPY_LOSS": "SigmoidCrossEntropyLoss",
    "SILENCE": "Silence",
    "SOFTMAX": "Softmax",
    "SOFTMAX_LOSS": "SoftmaxWithLoss",
    "SPLIT": "Split",
    "SLICE": "Slice",
    "TANH": "TanH",
    "THRESHOLD": "Threshold",
    "WINDOW_DATA": "WindowData",
}
_V0_TYPES = {
    "accuracy": "Accuracy",
    "bnll": "BNLL",
    "concat": "Concat",
    "conv": "Convolution",
    "data": "Data",
    "dropout": "Dropout",
    "euclidean_loss": "EuclideanLoss",
    "flatten": "Flatten",
    "hdf5_data": "HDF5Data",
    "hdf5_output": "HDF5Output",
    "im2col": "Im2col",
    "images": "ImageData",
    "infogain_loss": "InfogainLoss",
    "innerproduct": "InnerProduct",
    "lrn": "LRN",
    "multinomial_logistic_loss": "MultinomialLogisticLoss",
    "pool": "Pooling",
    "relu": "ReLU",
    "sigmoid": "Sigmoid",
    "softmax": "Softmax",
    "softmax_loss": "SoftmaxWithLoss",
    "split": "Split",
    "tanh": "TanH",
    "window_data": "WindowData",
}
# Field of a V0 layer -> (layer types, parameter message, its field).
_CONVOLUTIONS = ("Convolution", "Im2col")
_V0_FIELDS: Tuple[Tuple[str, Tuple[str, ...], str, str], ...] = (
    ("num_output", ("Convolution",), "convolution_param", "num_output"),
    ("num_output", ("InnerProduct",), "inner_product_param", "num_output"),
    ("biasterm", ("Convolution",), "convolution_param", "bias_term"),
    ("biasterm", ("InnerProduct",), "inner_product_param", "bias_term"),
    ("pad", _CONVOLUTIONS, "convolution_param", "pad"),
    ("pad", ("Pooling",), "pooling_param", "pad"),
    ("kernelsize", _CONVOLUTIONS, "convolution_param", "kernel_size"),
    ("kernelsize", ("Pooling",), "pooling_param", "kernel_size"),
    ("group", ("Convolution",), "convolution_param", "group"),
    ("stride", _CONVOLUTIONS, "convolution_param", "stride"),
    ("stride", ("Pooling",), "pooling_param", "stride"),
    ("pool", ("Pooling",), "pooling_param", "pool"),
    ("dropout_ratio", ("Dropout",), "dropout_param", "dropout_ratio"),
    ("local_size", ("LRN",), "lrn_param", "local_size"),
    ("alpha", ("LRN",), "lrn_param", "alpha"),
    ("beta", ("LRN",), "lrn_param", "beta"),
    ("k", ("LRN",), "lrn_param", "k"),
    ("concat_dim", ("Concat",), "concat_param", "concat_dim"),
    ("batchsize", ("Data",), "data_param", "batch_size"),
    ("cropsize", ("Data", "ImageData", "WindowData"), "transform_param", "crop_size"),
)


def upgraded(net: Any) -> Any:
    """A NetParameter in today's form that computes what ``net`` does. ExportError if ``net`` mixes dialects."""
    if net.layers and net.layer:
        raise ExportError("the net has both 'layers' and 'layer', which belong to different dialects")
    result = message_class("NetParameter")(name=net.name, state=net.state, force_backward=net.force_backward)
    _add_inputs(net, result)
    pads: Dict[str, Tuple[str, int]] = {}  # top of a V0 padding layer -> its bottom and its pad
    for old in net.layers:
        if old.HasField("layer"):
            _add_v0(old, result, pads)
        else:
            _add_v1(old, result)
    result.layer.extend(net.layer)
    return result


def _add_inputs(net: Any, result: Any) -> None:
    """The net's ``input`` fields as one layer."""
    shapes = [list(shape.dim) for shape in net.input_shape]
    dims = list(net.input_dim)
    if shapes and dims:
        raise ExportError("the net has both input_shape and input_dim")
    if dims:
        if len(dims) != 4 * len(net.input):
            raise ExportError(f"input_dim must have four values per input, got {len(dims)} for {len(net.input)} inputs")
        shapes = [dims[index : index + 4] for index in range(0, len(dims), 4)]
    if shapes and len(shapes) != len(net.input):
        raise ExportError(f"the net has {len(net.input)} inputs and {len(shapes)} shapes of inputs")
    if net.input:
        layer = result.layer.add(name="input", type="Input", top=list(net.input))
        for shape in shapes:
            layer.input_param.shape.add(dim=shape)


def _add_v1(old: Any, result: Any) -> None:
    kind = old.DESCRIPTOR.enum_types_by_name["LayerType"].values_by_number[old.type].name
    if kind not in _V1_TYPES:
        raise ExportError(f"layer {old.name!r} has no type")
    layer = result.layer.add(
        name=old.name,
        type=_V1_TYPES[kind],
        bottom=old.bottom,
        top=old.top,
        include=old.include,
        exclude=old.exclude,
        loss_weight=old.loss_weight,
    )
    for field, value in old.ListFields():
        if field.name.endswith("_param"):
            getattr(layer, field.name).CopyFrom(value)


def _add_v0(old: Any, result: Any, pads: Dict[str, Tuple[str, int]]) -> None:
    flat = old.layer
    if flat.type == "padding":
        if len(old.bottom) != 1 or len(old.top) != 1:
            raise ExportError(f"layer {flat.name!r} (padding) must have one bottom and one top")
        pads[old.top[0]] = (old.bottom[0], flat.pad)
        return
    kind = _V0_TYPES.get(flat.type)
    if kind is None:
        raise ExportError(f"layer {flat.name!r}: there is no layer type {flat.type!r}")
    padded = [pads[bottom] for bottom in old.bottom if bottom in pads]
    if padded and kind not in ("Convolution", "Pooling"):
        raise ExportError(f"layer {flat.name!r} ({flat.type}) cannot follow a padding layer")
    bottoms = [pads[bottom][0] if bottom in pads else bottom for bottom in old.bottom]
    layer = result.layer.add(name=flat.name, type=kind, bottom=bottoms, top=old.top)
    for name, kinds, message, field in _V0_FIELDS:
        if kind in kinds and flat.HasField(name):
            _set(getattr(layer, message), field, getattr(flat, name))
    for _, pad in padded:
        _set(layer.convolution_param if kind == "Convolution" else layer.pooling_param, "pad", pad)


def _set(message: Any, field: str, value: Any) -> None:
    if isinstance(getattr(message, field), (int, float)):
        setattr(message, field, value)
    else:
        repeated: List[Any] = getattr(message, field)
        del repeated[:]
        repeated.append(value)
