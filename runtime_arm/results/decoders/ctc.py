"""Readers of lines of writing or speech that end in CTC (Graves et al., 2006), such as PP-OCR's recogniser.

Output: (1, steps, characters) probabilities. Class 0 is the blank; the others are the labels, in order. Parameters:
``blank``, its class, if it is another one.
"""

from __future__ import annotations

from typing import List, Optional

import numpy as np

from runtime_arm.errors import UsageError
from runtime_arm.results.decoder import Decoder, Outputs, Parameters, Setting
from runtime_arm.results.decoders.classes import SOFTMAXES
from runtime_arm.results.facts import Facts
from runtime_arm.results.result import Result
from runtime_arm.results.text import Text

_HEIGHTS = (32, 48)  # of the lines that PP-OCR reads
_FEWEST = 30  # characters


def decode(outputs: Outputs, setting: Setting) -> Result:
    """The best class of every step, repetitions taken together, blanks left out."""
    scores = setting.output(outputs, "characters")
    scores = scores.reshape(-1, scores.shape[-1])
    blank = int(setting.number("blank", 0)) % scores.shape[1]
    best = scores.argmax(axis=1)
    kept = (best != blank) & (np.concatenate([[-1], best[:-1]]) != best)
    alphabet = _alphabet(setting, scores.shape[1], blank)
    text = "".join(alphabet[index] for index in best[kept])
    sure = scores[np.arange(len(best)), best][kept]
    return Text(text, float(sure.mean()) if sure.size else 0.0)


def _alphabet(setting: Setting, count: int, blank: int) -> List[str]:
    """The character of every class. A last one that the labels lack is a space, as PP-OCR has it."""
    if setting.labels is None:
        raise UsageError("reading needs the characters as labels, one a line: --labels FILE")
    characters = list(setting.labels)
    if len(characters) == count - 2:
        characters.append(" ")
    if len(characters) != count - 1:
        raise UsageError(f"the net tells {count - 1} characters apart, there are {len(setting.labels)} labels")
    characters.insert(blank, "")
    return characters


def recognise(facts: Facts) -> Optional[Parameters]:
    """A softmax for every step over at least 30 characters, of a line that is 32 or 48 pixels high."""
    if facts.picture is None or len(facts.outputs) != 1 or facts.picture.height not in _HEIGHTS:
        return None
    output, width = facts.outputs[0], facts.picture.width
    if output.made_by not in SOFTMAXES or not output.fits(None, None):
        return None
    assert output.shape is not None
    steps, count = output.shape[1:]
    if count is None or count < _FEWEST or (steps is not None and width is not None and not 2 <= width // steps <= 8):
        return None
    return {"outputs": {"characters": output.name}, "characters": count}


DECODER = Decoder("text", decode, recognise, {"channels": "BGR", "mean": 127.5, "std": 127.5, "fit": "line", "pad": 0})
