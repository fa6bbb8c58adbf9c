"""Results: what the outputs of a net mean, as typed values that NumPy alone makes.

Classes         the scores of classes, best first
Boxes           objects in a picture; ``Faces`` and ``Poses`` are Boxes whose objects also have points
Mask            the class of every pixel
Keypoints       the points of one body, hand or face
Image           a picture that the net made
Depth           a number for every pixel
Embedding       a vector that represents the input
Text            the text in a picture of a line
SoundEvents     what is heard, and when
Tensors         outputs whose meaning is unknown

Coordinates are pixels of the original picture, upright, x to the right and y down. Each result has ``kind``,
``to_dict()`` (plain JSON), ``draw(picture)`` (needs Pillow) and a readable ``repr``. ``decoders/`` makes results from
outputs, one family of networks per file; ``recognise.py`` finds the one that fits a net.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime_arm.imports import lazy_names

if TYPE_CHECKING:
    from runtime_arm.results.boxes import Box, Boxes, Faces, Poses
    from runtime_arm.results.classes import Classes
    from runtime_arm.results.keypoints import Keypoints
    from runtime_arm.results.mask import Mask
    from runtime_arm.results.pictures import Depth, Image
    from runtime_arm.results.result import Result
    from runtime_arm.results.sounds import SoundEvents
    from runtime_arm.results.text import Text
    from runtime_arm.results.vectors import Embedding, Tensors
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "Box": "runtime_arm.results.boxes",
            "Boxes": "runtime_arm.results.boxes",
            "Classes": "runtime_arm.results.classes",
            "Depth": "runtime_arm.results.pictures",
            "Embedding": "runtime_arm.results.vectors",
            "Faces": "runtime_arm.results.boxes",
            "Image": "runtime_arm.results.pictures",
            "Keypoints": "runtime_arm.results.keypoints",
            "Mask": "runtime_arm.results.mask",
            "Poses": "runtime_arm.results.boxes",
            "Result": "runtime_arm.results.result",
            "SoundEvents": "runtime_arm.results.sounds",
            "Tensors": "runtime_arm.results.vectors",
            "Text": "runtime_arm.results.text",
        },
    )

__all__ = [
    "Box",
    "Boxes",
    "Classes",
    "Depth",
    "Embedding",
    "Faces",
    "Image",
    "Keypoints",
    "Mask",
    "Poses",
    "Result",
    "SoundEvents",
    "Tensors",
    "Text",
]
