"""The custom operator in which many TFLite detectors end."""

from __future__ import annotations

from exporter.to_tflite.rules import Call, Results, rule

_FLOATS = ("nms_score_threshold", "nms_iou_threshold", "y_scale", "x_scale", "h_scale", "w_scale")
_INTEGERS = ("max_detections", "max_classes_per_detection", "num_classes", "detections_per_class")


@rule("tflite.DetectionPostProcess")
def detection_post_process(call: Call) -> Results:
    """Its options are a map in the format of flexbuffers."""
    from flatbuffers import flexbuffers

    op, builder = call.op, flexbuffers.Builder()
    with builder.Map():
        for name in _INTEGERS:
            if op.has(name):
                builder.Int(name, op.get_int(name))
        for name in _FLOATS:
            builder.Float(name, op.get_float(name))
        builder.Bool("use_regular_nms", op.get_bool("use_regular_nms"))
    found = call.emit_many(
        "TFLite_Detection_PostProcess",
        [call.take(index) for index in range(3)],
        [spec.shape for spec in call.outputs],
        [spec.dtype for spec in call.outputs],
        custom=bytes(builder.Finish()),
    )
    return [call.result(number, None, index) for index, number in enumerate(found)]
