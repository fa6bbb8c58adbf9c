"""YOLOX (Ge et al., 2021): a box, the score of a thing and the scores of classes for every cell.

Output: (1, n, 5 + classes). Parameters: ``decoded``, whether boxes are centres and sizes in pixels already; otherwise
they are offsets from the cells and logarithms, in strides.
"""

from __future__ import annotations

from typing import Optional

import numpy as np

from runtime_arm.errors import FeedError
from runtime_arm.results.decoder import Decoder, Outputs, Parameters, Setting
from runtime_arm.results.decoders.yolov5 import chosen
from runtime_arm.results.facts import Facts
from runtime_arm.results.grids import cell_count, cells
from runtime_arm.results.result import Result

STRIDES = (8, 16, 32)
_COCO = 80


def decode(outputs: Outputs, setting: Setting) -> Result:
    """Boxes."""
    rows = setting.matrix(outputs, "boxes")
    boxes = rows[:, :4]
    if not setting.parameters.get("decoded"):
        place, stride = cells(setting.frame.input_height, setting.frame.input_width, setting.strides(STRIDES))
        if len(place) != len(rows):
            raise FeedError(f"the net gives {len(rows)} boxes; a YOLOX of this input size has {len(place)}")
        sizes = np.exp(np.clip(boxes[:, 2:], -20, 20)) * stride
        boxes = np.concatenate([(boxes[:, :2] + place) * stride, sizes], axis=1)
    return chosen(boxes, rows[:, 4:5] * rows[:, 5:], setting)


def recognise(facts: Facts) -> Optional[Parameters]:
    """One output, a row for every cell, of plain numbers and two sigmoids; or with COCO's 80 classes."""
    if facts.picture is None or len(facts.outputs) != 1 or not facts.outputs[0].fits(None, None):
        return None
    output = facts.outputs[0]
    assert output.shape is not None
    count, width = output.shape[1:]
    cell = cell_count(facts.picture.height, facts.picture.width, STRIDES)
    if count is None or count != cell or width is None or width < 6:
        return None
    make = facts.composition(output.name)
    sure = make[1:] == ("Sigmoid", "Sigmoid") or width - 5 in (_COCO, facts.labels)
    if not sure or make[0] == "Sigmoid":
        return None
    decoded = "Exp" in facts.ancestors(output.name)
    return {"outputs": {"boxes": output.name}, "classes": width - 5, "decoded": decoded}


DECODER = Decoder(
    "boxes", decode, recognise, {"channels": "BGR", "fit": "letterbox", "align": "corner", "pad": 114}, classes=True
)
