"""``caffe2.python.brew``: layers of a ModelHelper, with their parameters.

Every function takes arguments that it does not name from ``arg_scope`` and from the model's ``arg_scope``; what it does
not know it hands to the operator.
"""

from __future__ import annotations

import inspect
from contextlib import contextmanager
from functools import wraps
from typing import Any, Callable, Dict, Iterator, List, Optional

from armnet.standins.caffe2.python import core
from armnet.standins.caffe2.python.model_helper import ModelHelper
from armnet.standins.caffe2.python.modeling import initializers
from armnet.standins.caffe2.python.modeling.parameter_info import ParameterTags

_scopes: Dict[str, Dict[str, Any]] = {}


def __getattr__(name: str) -> Any:
    raise AttributeError(f"armnet's stand-in for caffe2 has no brew.{name}")


@contextmanager
def arg_scope(single_helper_or_list: Any, **kwargs: Any) -> Iterator[None]:
    """Inside the block, these layers have these arguments, unless they say something else."""
    global _scopes
    before = _scopes
    helpers = single_helper_or_list if isinstance(single_helper_or_list, list) else [single_helper_or_list]
    own = {helper.__name__: {**before.get(helper.__name__, {}), **kwargs} for helper in helpers}
    _scopes = {**before, **own}
    try:
        yield
    finally:
        _scopes = before


def _layer(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of a model that takes arguments from the scopes."""
    parameters = inspect.signature(function).parameters
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())

    @wraps(function)
    def called(model: ModelHelper, *args: Any, **kwargs: Any) -> Any:
        scoped = {**model.arg_scope, **_scopes.get(function.__name__, {})}
        return function(model, *args, **{**{k: v for k, v in scoped.items() if takes_any or k in parameters}, **kwargs})

    return called


def _cudnn(use_cudnn: bool, kwargs: Dict[str, Any], **more: Any) -> Dict[str, Any]:
    """The arguments, with those that ask for cuDNN, which changes nothing on the processor."""
    return {**kwargs, "engine": "CUDNN", **more} if use_cudnn else kwargs


def _recipe(value: float) -> Any:
    return "ConstantFill", {"value": value}


def _param(model: ModelHelper, name: Any, shape: Any, tag: Optional[str], initializer: Any) -> Any:
    made = initializer if model.init_params else initializers.ExternalInitializer()
    return model.create_param(name, shape=shape, initializer=made, tags=tag)


def _constant(model: ModelHelper, name: Any, shape: Any, tag: Optional[str], value: float) -> Any:
    return _param(model, name, shape, tag, initializers.Initializer("ConstantFill", value=value))


def _weight_and_bias(model: ModelHelper, blob_out: Any, shape: List[int], size: int, options: Dict[str, Any]) -> Any:
    """Parameters ``<blob>_w`` and ``<blob>_b``; takes what says how they are made out of the options."""
    weight = initializers.update_initializer(
        options.pop("WeightInitializer", None), options.pop("weight_init", None), ("XavierFill", {})
    )
    bias = initializers.update_initializer(
        options.pop("BiasInitializer", None), options.pop("bias_init", None), ("ConstantFill", {})
    )
    made = [_param(model, blob_out + "_w", shape, ParameterTags.WEIGHT, weight)]
    if not options.pop("no_bias", False):
        made.append(_param(model, blob_out + "_b", [size], ParameterTags.BIAS, bias))
    return made


# Layers with parameters


@_layer
def fc(model: ModelHelper, blob_in: Any, blob_out: Any, dim_in: int, dim_out: int, **kwargs: Any) -> Any:
    blob_out = blob_out or model.net.NextName()
    parameters = _weight_and_bias(model, blob_out, [dim_out, dim_in], dim_out, kwargs)
    return model.net.FC([blob_in, *parameters], blob_out, **kwargs)


def _conv(
    model: ModelHelper,
    type: str,
    blob_in: Any,
    blob_out: Any,
    channels: List[int],
    size: int,
    kernels: List[int],
    options: Dict[str, Any],
) -> Any:
    """``channels``: the first dimension of the weights, and their channels; ``size``: of the bias."""
    blob_out = blob_out or model.net.NextName()
    options = _cudnn(
        options.pop("use_cudnn", False), options, exhaustive_search=options.pop("cudnn_exhaustive_search", False)
    )
    order = options.setdefault("order", "NCHW")
    first, inner = channels
    shape = [first, inner, *kernels] if order == "NCHW" else [first, *kernels, inner]
    parameters = _weight_and_bias(model, blob_out, shape, size, options)
    return getattr(model.net, type)([blob_in, *parameters], blob_out, **options)


def _kernel(kernel: Any) -> Any:
    """The sizes of a kernel, and the arguments that say them."""
    if isinstance(kernel, list):
        return kernel, {"kernel_h": kernel[0], "kernel_w": kernel[1]}
    return [kernel] * 2, {"kernel": kernel}


def _grouped(dim_in: int, group: int, kwargs: Dict[str, Any]) -> int:
    if group != 1:
        kwargs["group"] = group
    return dim_in // group


@_layer
def conv(
    model: ModelHelper,
    blob_in: Any,
    blob_out: Any,
    dim_in: int,
    dim_out: int,
    kernel: Any,
    group: int = 1,
    **kwargs: Any,
) -> Any:
    kernels, said = _kernel(kernel)
    channels = [dim_out, _grouped(dim_in, group, kwargs)]
    return _conv(model, "Conv", blob_in, blob_out, channels, dim_out, kernels, {**said, **kwargs})


@_layer
def group_conv(
    model: ModelHelper, blob_in: Any, blob_out: Any, dim_in: int, dim_out: int, kernel: Any, **kwargs: Any
) -> Any:
    return conv(model, blob_in, blob_out, dim_in, dim_out, kernel, **kwargs)


@_layer
def conv_nd(
    model: ModelHelper,
    blob_in: Any,
    blob_out: Any,
    dim_in: int,
    dim_out: int,
    kernel: Any,
    group: int = 1,
    **kwargs: Any,
) -> Any:
    kernels = kernel if isinstance(kernel, list) else [kernel]
    channels = [dim_out, _grouped(dim_in, group, kwargs)]
    return _conv(model, "Conv", blob_in, blob_out, channels, dim_out, kernels, {"kernels": kernels, **kwargs})


@_layer
def conv_transpose(
    model: ModelHelper, blob_in: Any, blob_out: Any, dim_in: int, dim_out: int, kernel: int, **kwargs: Any
) -> Any:
    options = {"kernel": kernel, **kwargs}
    return _conv(model, "ConvTranspose", blob_in, blob_out, [dim_in, dim_out], dim_out, [kernel] * 2, options)


@_layer
def prelu(
    model: ModelHelper, blob_in: Any, blob_out: Any, num_channels: int = 1, slope_init: Any = None, **kwargs: Any
) -> Any:
    recipe = initializers.update_initializer(None, slope_init, _recipe(0.25))
    slope = _param(model, blob_out + "_slope", [num_channels], None, recipe)
    return model.net.PRelu([blob_in, slope], [blob_out])


@_layer
def spatial_bn(
    model: ModelHelper,
    blob_in: Any,
    blob_out: Any,
    dim_in: int,
    init_scale: float = 1.0,
    init_bias: float = 0.0,
    ScaleInitializer: Any = None,
    BiasInitializer: Any = None,
    RunningMeanInitializer: Any = None,
    RunningVarianceInitializer: Any = None,
    order: str = "NCHW",
    **kwargs: Any,
) -> Any:
    blob_out = blob_out or model.net.NextName()
    inputs = [
        _param(model, blob_out + suffix, [dim_in], tag, initializers.update_initializer(kind, None, _recipe(value)))
        for suffix, tag, kind, value in (
            ("_s", ParameterTags.WEIGHT, ScaleInitializer, init_scale),
            ("_b", ParameterTags.BIAS, BiasInitializer, init_bias),
            ("_rm", ParameterTags.COMPUTED_PARAM, RunningMeanInitializer, 0.0),
            ("_riv", ParameterTags.COMPUTED_PARAM, RunningVarianceInitializer, 1.0),
        )
    ]
    if kwargs.get("is_test"):
        return model.net.SpatialBN([blob_in, *inputs], [blob_out], order=order, **kwargs)
    outputs = [blob_out, *inputs[2:], blob_out + "_sm", blob_out + "_siv"]
    return model.net.SpatialBN([blob_in, *inputs], outputs, order=order, **kwargs)[0]


def _scale_and_bias(model: ModelHelper, blob_out: Any, shape: Any, suffixes: Any, scale: float, bias: float) -> Any:
    return [
        _constant(model, blob_out + suffix, shape, tag, value)
        for suffix, tag, value in zip(suffixes, (ParameterTags.WEIGHT, ParameterTags.BIAS), (scale, bias))
    ]


@_layer
def instance_norm(
    model: ModelHelper, blob_in: Any, blob_out: Any, dim_in: int, order: str = "NCHW", **kwargs: Any
) -> Any:
    blob_out = blob_out or model.net.NextName()
    inputs = [blob_in, *_scale_and_bias(model, blob_out, [dim_in], ("_s", "_b"), 1.0, 0.0)]
    if kwargs.get("is_test"):
        return model.net.InstanceNorm(inputs, [blob_out], order=order, **kwargs)
    return model.net.InstanceNorm(inputs, [blob_out, blob_out + "_sm", blob_out + "_siv"], order=order, **kwargs)[0]


@_layer
def spatial_gn(
    model: ModelHelper,
    blob_in: Any,
    blob_out: Any,
    dim_in: int,
    init_scale: float = 1.0,
    init_bias: float = 0.0,
    order: str = "NCHW",
    **kwargs: Any,
) -> Any:
    blob_out = blob_out or model.net.NextName()
    inputs = [blob_in, *_scale_and_bias(model, blob_out, [dim_in], ("_s", "_b"), init_scale, init_bias)]
    return model.net.GroupNorm(inputs, [blob_out, blob_out + "_mean", blob_out + "_std"], **kwargs)[0]


@_layer
def layer_norm(
    model: ModelHelper,
    blob_in: Any,
    blob_out: Any,
    dim_in: Any,
    axis: int = 1,
    epsilon: float = 1e-4,
    initial_scale: float = 1.0,
    initial_bias: float = 0.0,
) -> Any:
    shape = [dim_in] if isinstance(dim_in, int) else dim_in
    inputs = [blob_in, *_scale_and_bias(model, blob_out, shape, ("_scale", "_bias"), initial_scale, initial_bias)]
    outputs = [blob_out, blob_out + "_mean", blob_out + "_std"]
    return model.net.LayerNorm(inputs, outputs, axis=axis, epsilon=epsilon, elementwise_affine=True)


@_layer
def elementwise_linear(model: ModelHelper, blob_in: Any, blob_out: Any, dim: int, **kwargs: Any) -> Any:
    blob_out = blob_out or model.net.NextName()
    options = {"weight_init": _recipe(1.0), "bias_init": _recipe(0.0), **kwargs}
    parameters = _weight_and_bias(model, blob_out, [dim], dim, options)
    return model.net.ElementwiseLinear([blob_in, *parameters], blob_out, **options)


# Layers without parameters


_WITH_CUDNN = ("MaxPool", "AveragePool", "Relu", "Tanh", "Softmax", "Transpose")


def _plain(name: str, type: str) -> Callable[..., Any]:
    """A layer that is an operator."""

    def layer(model: ModelHelper, blob_in: Any, blob_out: Any = None, **kwargs: Any) -> Any:
        options = _cudnn(kwargs.pop("use_cudnn", False), kwargs) if type in _WITH_CUDNN else kwargs
        return getattr(model.net, type)(blob_in, blob_out, **options)

    layer.__name__ = name
    return _layer(layer)


max_pool = _plain("max_pool", "MaxPool")
average_pool = _plain("average_pool", "AveragePool")
relu = _plain("relu", "Relu")
tanh = _plain("tanh", "Tanh")
softmax = _plain("softmax", "Softmax")
transpose = _plain("transpose", "Transpose")
sum = _plain("sum", "Sum")
sub = _plain("sub", "Sub")
reduce_sum = _plain("reduce_sum", "ReduceSum")
arg_min = _plain("arg_min", "ArgMin")
mat_mul = _plain("mat_mul", "MatMul")
batch_mat_mul = _plain("batch_mat_mul", "BatchMatMul")


@_layer
def lrn(
    model: ModelHelper, blob_in: Any, blob_out: Any, order: str = "NCHW", use_cudnn: bool = False, **kwargs: Any
) -> Any:
    return model.net.LRN(blob_in, [blob_out, f"_{blob_out}_scale"], order=order, **kwargs)[0]


@_layer
def dropout(model: ModelHelper, blob_in: Any, blob_out: Any, use_cudnn: bool = False, **kwargs: Any) -> Any:
    if "is_test" not in kwargs:
        raise AssertionError("Argument 'is_test' is required")
    options = {**kwargs, "engine": "CUDNN" if use_cudnn else "DEFAULT"}
    return model.net.Dropout(blob_in, [blob_out, f"_{blob_out}_mask"], **options)[0]


@_layer
def concat(model: ModelHelper, blobs_in: Any, blob_out: Any, **kwargs: Any) -> Any:
    if kwargs.get("axis"):
        kwargs.pop("order", None)  # the operator takes one of them
    return model.net.Concat(blobs_in, [blob_out, f"_{blob_out}_concat_dims"], **kwargs)[0]


@_layer
def accuracy(model: ModelHelper, blob_in: Any, blob_out: Any, **kwargs: Any) -> None:
    model.net.Accuracy(blob_in, blob_out)


# Training


@_layer
def iter(model: ModelHelper, blob_out: Any, **kwargs: Any) -> Any:
    """A counter, which begins with 0 and counts the runs of the net."""
    fill = {**kwargs, "shape": [1], "value": 0, "dtype": core.DataType.INT64}
    model.param_init_net.ConstantFill([], blob_out, **fill)
    return model.net.Iter(blob_out, blob_out, **kwargs)


@_layer
def add_weight_decay(model: ModelHelper, weight_decay: float) -> None:
    """Adds this share of each weight to its gradient."""
    if weight_decay <= 0:
        return
    decay = model.param_init_net.ConstantFill([], "wd", shape=[1], value=weight_decay)
    one = model.param_init_net.ConstantFill([], "ONE", shape=[1], value=1.0)
    for param in model.weights:
        gradient = model.param_to_grad[param]
        model.net.WeightedSum([gradient, one, param, decay], gradient)
