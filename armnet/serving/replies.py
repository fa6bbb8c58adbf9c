"""Replies: results as JSON, and pictures of them."""

from __future__ import annotations

import base64
import io
import math
from typing import Any, Dict, List, Optional, Sequence

import numpy as np

from runtime_arm.app.answer import Answer
from runtime_arm.app.outputs import plain

LONGEST_SIDE = 1024  # pixels of what is drawn


def reply(answers: Sequence[Answer], seconds: float, *, overlay: bool, outputs: bool) -> Dict[str, Any]:
    """The JSON of a prediction; "results" instead of "result" for a batch.

    overlay: also a picture to be laid over the one that was sent, or shown beside it. outputs: also the net's outputs.
    """
    results = [answer.result.to_dict() for answer in answers]
    said: Dict[str, Any] = {"result": results[0]} if len(results) == 1 else {"results": results}
    said["lines"] = [line for answer in answers for line in answer.result.lines()]
    said["seconds"] = round(seconds, 6)
    if answers[0].picture is not None:
        said["picture"] = {"width": answers[0].picture.width, "height": answers[0].picture.height}
    if overlay and len(answers) == 1:
        said["overlay"] = _overlay(answers[0])
    if outputs:
        names = list(answers[0].outputs)
        said["outputs"] = {
            name: [_listed(answer.outputs[name]) for answer in answers]
            if len(answers) > 1
            else _listed(answers[0].outputs[name])
            for name in names
        }
    return dict(finite(said))


def _listed(value: Any) -> List[Any]:
    array = plain(value)
    return (array.astype(str) if array.dtype == object else array).tolist()  # type: ignore[no-any-return]


def finite(value: Any) -> Any:
    """The same JSON with null for numbers that JSON cannot express."""
    if isinstance(value, dict):
        return {key: finite(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _overlay(answer: Answer) -> Optional[str]:
    """A PNG as a data URI: a mask's colours, half transparent, or the picture that the net made; None for others,
    which the page draws itself."""
    result: Any = answer.result
    if result.kind == "mask":
        picture = _mask_picture(result.classes)
    elif result.kind in ("image", "depth"):
        picture = result.draw(None)
    else:
        return None
    if max(picture.size) > LONGEST_SIDE:
        scale = LONGEST_SIDE / max(picture.size)
        size = [max(1, round(side * scale)) for side in picture.size]
        picture = picture.resize(size, 0 if result.kind == "mask" else 2)
    content = io.BytesIO()
    picture.save(content, "PNG", compress_level=1)
    return f"data:image/png;base64,{base64.b64encode(content.getvalue()).decode()}"


def _mask_picture(classes: Any) -> Any:
    """Colours by class, transparent where the class is 0."""
    from PIL import Image

    from runtime_arm.results.drawing import COLOURS

    palette = np.asarray([(*colour, 140) for colour in COLOURS], np.uint8)
    pixels = palette[classes % len(COLOURS)]
    pixels[classes == 0] = 0
    return Image.fromarray(pixels, "RGBA")
