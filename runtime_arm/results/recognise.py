"""Finds out what a net's outputs mean, if its own evidence leaves no doubt."""

from __future__ import annotations

from typing import Any, Dict, Optional

from runtime_arm.errors import UsageError, there_are
from runtime_arm.results.decoders import DECODERS, decoder_of, decoders_here
from runtime_arm.results.decoders.classes import classes_of
from runtime_arm.results.facts import Facts

KINDS = ("classes", "boxes", "mask", "keypoints", "image", "depth", "embedding", "text", "sound events", "tensors")
# Other names for tasks, besides the kinds and the decoders.
TASKS = {
    "classification": "classes",
    "classify": "classes",
    "detection": "boxes",
    "detect": "boxes",
    "object-detection": "boxes",
    "faces": "boxes",
    "face-detection": "boxes",
    "segmentation": "mask",
    "segment": "mask",
    "pose": "keypoints",
    "super-resolution": "image",
    "style": "image",
    "picture": "image",
    "heatmap": "depth",
    "text-detection": "text_boxes",
    "text-recognition": "ctc",
    "ocr": "ctc",
    "sound": "sound events",
    "sounds": "sound events",
    "audio": "sound events",
    "speech": "silero_vad",
    "vad": "silero_vad",
    "ssd": "ssd",
    "yolov7": "yolov5",
    "yolov11": "yolov8",
    "yolo11": "yolov8",
}
_PLACES = ("boxes", "mask", "keypoints")  # results that must not be taken for classes
_PLAIN = {
    "classes": "classes",
    "mask": "mask",
    "keypoints": "heatmaps",
    "image": "image",
    "depth": "depth",
    "embedding": "embedding",
    "text": "ctc",
    "sound events": "keywords",
    "tensors": "tensors",
}  # the decoder of a kind for which the output needs no more description


def recognised(facts: Facts) -> Optional[Dict[str, Any]]:
    """The entry "result" of model.json, of the first decoder whose recogniser is sure; None if none is."""
    for name in decoders_here():
        decoder = decoder_of(name)
        parameters = decoder.recognise(facts)
        if parameters is not None:
            return {"kind": decoder.kind, "decoder": name, **parameters}
    return None


def stated(task: str, facts: Facts) -> Dict[str, Any]:
    """The entry "result" for a task that the user names: a kind, a decoder, or one of ``TASKS``.

    Where a recogniser agrees, its parameters are taken. UsageError if the task is unknown or does not say enough.
    """
    wanted = TASKS.get(task.strip().lower(), task.strip().lower().replace("_", " ") if task in KINDS else task.strip())
    if wanted in DECODERS and wanted not in KINDS:
        decoder = decoder_of(wanted)
        return {"kind": decoder.kind, "decoder": wanted, **(decoder.recognise(facts) or _guessed(wanted, facts))}
    if wanted not in KINDS:
        raise UsageError(f"there is no task {task!r}; there are {there_are(task, dict.fromkeys((*KINDS, *DECODERS)))}")
    found = recognised(facts)
    if found is not None and found["kind"] == wanted:
        return found
    if found is not None and wanted == "classes" and found["kind"] in _PLACES:
        raise UsageError(
            f"the net gives {found['kind']}, read by {found['decoder']}, and no classes; see --task tensors"
        )
    if wanted not in _PLAIN:
        boxes = [name for name in decoders_here() if decoder_of(name).kind == wanted]
        raise UsageError(f"{task!r} does not say how the boxes are written; name the decoder: {', '.join(boxes)}")
    return {"kind": wanted, "decoder": _PLAIN[wanted], **_guessed(_PLAIN[wanted], facts)}


def _guessed(decoder: str, facts: Facts) -> Dict[str, Any]:
    """Parameters for a decoder that the user names: of the first output, which is the only one of most nets."""
    if decoder == "keywords":
        from runtime_arm.results.decoders.keywords import stated as of_sound

        return of_sound(facts)
    output = facts.outputs[0]
    roles = {"classes": "scores", "mask": "scores", "heatmaps": "heat", "image": "picture", "depth": "values"}
    roles.update(embedding="vector", ctc="characters", fastestdet="boxes", movenet="points")
    roles.update(yolov5="boxes", yolov8="boxes", yolox="boxes", nanodet="boxes", text_boxes="map")
    found: Dict[str, Any] = {"outputs": {roles[decoder]: output.name}} if decoder in roles else {}
    if decoder in ("classes", "embedding") and output.shape is not None:
        count = classes_of(output.shape)
        if count is None:
            raise UsageError(f"output {output.name!r} of shape {list(output.shape)} is not one vector of scores")
        found["classes"] = count
    if decoder == "classes":
        sure = output.made_by in ("Softmax", "QuantizedSoftmax")
        found["scores"] = "probabilities" if sure else "softmax"
    if decoder in ("mask", "heatmaps") and output.shape is not None and len(output.shape) == 4:
        found["last"] = facts.picture is not None and facts.picture.layout == "NHWC"
    if decoder == "mask" and output.shape is not None and 1 in output.shape[1:] and output.made_by != "Sigmoid":
        found["scores"] = "logits"
    return found


def checked(entry: Any) -> Dict[str, Any]:
    """An entry "result" of model.json, which is not trusted. UsageError if it names no decoder."""
    if not isinstance(entry, dict) or not isinstance(entry.get("decoder"), str):
        raise UsageError("the entry 'result' of model.json must name its decoder")
    decoder_of(entry["decoder"])
    outputs = entry.get("outputs", {})
    if not isinstance(outputs, dict) or not all(isinstance(name, str) for name in outputs.values()):
        raise UsageError("the result's entry 'outputs' must name an output for each role")
    return entry
