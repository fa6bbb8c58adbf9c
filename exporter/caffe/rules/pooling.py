"""Pools, and layers that resize pictures."""

from __future__ import annotations

from typing import Any, Dict, List, Tuple

from exporter.caffe.layer import Layer
from exporter.caffe.rules import rule

_CAFFE_POOLING = 3  # Caffe2's legacy_pad: sizes are rounded up, windows may reach beyond the picture


@rule("Pooling")
def pooling(layer: Layer) -> None:
    """MAX, with a mask as an optional second top, or AVE, whose divisor includes the padding."""
    param = layer.param("pooling_param")
    layer.require(param.pool in (param.MAX, param.AVE), "stochastic pooling has no meaning in inference")
    layer.counts(1, len(layer.tops))
    layer.require(len(layer.tops) <= (2 if param.pool == param.MAX else 1), f"has {len(layer.tops)} tops")
    layer.require(layer.rank() in (None, 4), f"needs images (N, C, H, W), the bottom's shape is {layer.dims()}")
    kernel, stride, pad = _window(layer, param)
    if len(layer.tops) == 2:
        _with_mask(layer, param, kernel, stride, pad)
    elif param.global_pooling:
        layer.add("MaxPool" if param.pool == param.MAX else "AveragePool", global_pooling=1)
    elif any(pad):
        layer.onnx(
            "MaxPool" if param.pool == param.MAX else "AveragePool",
            **_attributes(param, kernel, stride, pad),
            count_include_pad=1 if param.pool == param.AVE else None,
        )
    else:
        layer.add(
            "MaxPool" if param.pool == param.MAX else "AveragePool",
            kernels=kernel,
            strides=stride,
            legacy_pad=None if param.round_mode == param.FLOOR else _CAFFE_POOLING,
        )


def _attributes(param: Any, kernel: List[int], stride: List[int], pad: List[int]) -> Dict[str, Any]:
    """ONNX's attributes. ONNX's pools drop windows that start beyond the picture, as Caffe does if there is padding."""
    return {
        "kernel_shape": kernel,
        "strides": stride,
        "pads": pad * 2,
        "ceil_mode": int(param.round_mode == param.CEIL),
    }


def _window(layer: Layer, param: Any) -> Tuple[List[int], List[int], List[int]]:
    """Kernel, stride and padding for rows and columns."""
    sized = [name for name in ("kernel_size", "kernel_h", "kernel_w") if param.HasField(name)]
    if param.global_pooling:
        layer.require(not sized, f"global pooling takes no {sized}")
        moved = any((param.pad, param.pad_h, param.pad_w)) or {param.stride, param.stride_h, param.stride_w} - {0, 1}
        layer.require(not moved, "global pooling takes no pad and no stride")
        return [], [], []
    layer.require(
        sized == ["kernel_size"] or sized == ["kernel_h", "kernel_w"],
        f"needs kernel_size, or kernel_h and kernel_w, got {sized}",
    )
    kernel = _pair(layer, param, "kernel_size", "kernel")
    stride, pad = _pair(layer, param, "stride", "stride"), _pair(layer, param, "pad", "pad")
    layer.require(min(kernel) > 0 and min(stride) > 0, f"kernel {kernel} and stride {stride} must be positive")
    layer.require(all(p < k for p, k in zip(pad, kernel)), f"pad {pad} must be smaller than the kernel {kernel}")
    return kernel, stride, pad


def _pair(layer: Layer, param: Any, name: str, stem: str) -> List[int]:
    """Values for rows and columns: from two separate fields, or from one field for both."""
    parts = [f"{stem}_h", f"{stem}_w"]
    given = [part for part in parts if param.HasField(part)]
    layer.require(
        not given or (len(given) == 2 and not param.HasField(name)),
        f"{name} and {' and '.join(parts)} exclude each other, and the latter come together",
    )
    return [int(getattr(param, part)) for part in (parts if given else [name] * 2)]


def _with_mask(layer: Layer, param: Any, kernel: List[int], stride: List[int], pad: List[int]) -> None:
    """The second top has the position of each maximum in its picture."""
    layer.require(not param.global_pooling, "global pooling has no mask")
    indices = layer.fresh("indices")
    layer.onnx("MaxPool", outputs=[layer.tops[0], indices], **_attributes(param, kernel, stride, pad))
    layer.caffe("MaskOfMaxPool", [indices, layer.bottoms[0]], [layer.tops[1]])


@rule("SPP")
def spatial_pyramid(layer: Layer) -> None:
    layer.counts()
    param = layer.param("spp_param")
    layer.caffe("SPP", pyramid_height=param.pyramid_height, pool=param.PoolMethod.Name(param.pool))


@rule("Interp")
def interp(layer: Layer) -> None:
    """From DeepLab's fork."""
    layer.counts()
    layer.require(layer.has("interp_param"), "interp_param is required")
    param = layer.param("interp_param")
    layer.require((param.height > 0) == (param.width > 0), "height and width come together")
    layer.caffe("Interp", **{field.name: getattr(param, field.name) for field in param.DESCRIPTOR.fields})


@rule("Upsample")
def upsample(layer: Layer) -> None:
    """Repeats each pixel, as in YOLO's forks, or puts it where a pool's mask says, as in SegNet's."""
    param = layer.param("upsample_param")
    scales = [getattr(param, name) or param.scale for name in ("scale_h", "scale_w")]
    layer.require(min(scales) > 0, f"scales must be positive, got {scales}")
    if len(layer.bottoms) == 1:
        layer.counts()
        layer.add("ResizeNearest", height_scale=float(scales[0]), width_scale=float(scales[1]))
        return
    layer.counts(2)
    sizes = {name: getattr(param, name) or None for name in ("upsample_h", "upsample_w")}
    layer.caffe(
        "Upsample",
        scale_h=scales[0],
        scale_w=scales[1],
        pad_out_h=int(param.pad_out_h),
        pad_out_w=int(param.pad_out_w),
        **sizes,
    )
