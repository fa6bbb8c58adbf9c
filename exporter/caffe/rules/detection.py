"""Detection layers of Caffe's forks: SSD's, and the region pools of Fast R-CNN and R-FCN."""

from __future__ import annotations

from exporter.caffe.layer import Layer
from exporter.caffe.rules import rule


@rule("PriorBox")
def prior_box(layer: Layer) -> None:
    layer.counts(2)
    param = layer.param("prior_box_param")
    given = {name: getattr(param, name) for name in ("img_h", "img_w", "step_h", "step_w") if param.HasField(name)}
    for name in ("img", "step"):
        field = "img_size" if name == "img" else "step"
        if param.HasField(field):
            layer.require(not given.keys() & {f"{name}_h", f"{name}_w"}, f"has both {field} and {name}_h or {name}_w")
            given.update(dict.fromkeys((f"{name}_h", f"{name}_w"), getattr(param, field)))
    layer.require(all(value > 0 for value in given.values()), f"sizes and steps must be positive, got {given}")
    lists = {name: list(getattr(param, name)) or None for name in ("min_size", "max_size", "aspect_ratio", "variance")}
    layer.caffe("PriorBox", **lists, **given, flip=int(param.flip), clip=int(param.clip), offset=param.offset)


@rule("DetectionOutput")
def detection_output(layer: Layer) -> None:
    layer.counts(3)
    param = layer.param("detection_output_param")
    layer.require(param.num_classes > 0, "detection_output_param.num_classes must be positive")
    nms = param.nms_param
    layer.caffe(
        "DetectionOutput",
        num_classes=param.num_classes,
        share_location=int(param.share_location),
        background_label_id=param.background_label_id,
        code_type=type(layer.param("prior_box_param")).CodeType.Name(param.code_type),
        variance_encoded_in_target=int(param.variance_encoded_in_target),
        confidence_threshold=param.confidence_threshold if param.HasField("confidence_threshold") else None,
        nms_threshold=nms.nms_threshold,
        top_k=nms.top_k if nms.HasField("top_k") else None,
        eta=nms.eta,
        keep_top_k=param.keep_top_k,
    )


@rule("ROIPooling")
def roi_pooling(layer: Layer) -> None:
    layer.counts(2)
    param = layer.param("roi_pooling_param")
    layer.require(min(param.pooled_h, param.pooled_w) > 0, "pooled_h and pooled_w must be positive")
    layer.add("RoIPool", pooled_h=param.pooled_h, pooled_w=param.pooled_w, spatial_scale=param.spatial_scale, is_test=1)


@rule("PSROIPooling")
def position_sensitive_roi_pooling(layer: Layer) -> None:
    layer.counts(2)
    param = layer.param("psroi_pooling_param")
    layer.require(min(param.output_dim, param.group_size) > 0, "output_dim and group_size must be positive")
    layer.caffe(
        "PSROIPooling", output_dim=param.output_dim, group_size=param.group_size, spatial_scale=param.spatial_scale
    )
