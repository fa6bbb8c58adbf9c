"""Counts what is heard or read: one word or line for each sound or picture."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from armnet.evaluation.example import Example, Fault, Finding, Scores
from armnet.evaluation.truths import plain_name
from runtime_arm.errors import UsageError
from runtime_arm.results.result import called, label_of

NOTHING = "nothing"  # what a sound is called in which no event is heard
_NOTHINGS = {"", NOTHING, "none", "silence", "unknown", "noise", "background", "background noise", "no speech"}
SPEECH = "speech"  # what a net without labels hears


class LabelMeasure:
    """Counts sounds whose truth is a label; the event that lasts longest is the answer.

    Words such as "silence", "unknown" or "noise" stand for no event at all.
    """

    kinds: Tuple[str, ...] = ("sound events",)
    threshold: Optional[float] = None

    def __init__(self, labels: Optional[Sequence[str]], truths: Sequence[str], source: str):
        self.labels = labels
        known = {plain_name(label) for label in labels or [SPEECH]} | _NOTHINGS
        unknown = sorted({truth for truth in truths if plain_name(truth) not in known})
        if unknown:
            told = ", ".join(labels) if labels else SPEECH
            raise UsageError(
                f"{source}: {unknown[0]!r} is not one of the sounds that the model knows: {told}, or {NOTHING}"
            )

    def heard(self, finding: Finding) -> str:
        """The plain name of the event that lasts longest in a sound."""
        seconds: Dict[int, float] = {}
        for number, start, end, _ in finding["events"]:
            seconds[number] = seconds.get(number, 0.0) + end - start
        if not seconds:
            return NOTHING
        longest = max(seconds, key=lambda number: (seconds[number], -number))
        label = label_of(longest, self.labels)
        return self.plain(label if label is not None else SPEECH if longest == 0 else called(None, longest))

    def plain(self, text: str) -> str:
        """The plain name of a label; one for all that stand for no event."""
        name = plain_name(text)
        return NOTHING if name in _NOTHINGS else name

    def scores(self, answered: Sequence[Tuple[Example, Finding]]) -> Scores:
        """error_rate: the share of sounds that are misheard; accuracy is the rest."""
        pairs = [(self.plain(example.truth), self.heard(finding)) for example, finding in answered]
        wrong = sum(truth != said for truth, said in pairs) / len(pairs)
        names = sorted({name for pair in pairs for name in pair})
        counts = [[sum(pair == (truth, said) for pair in pairs) for said in names] for truth in names]
        rows: List[Dict[str, Any]] = []
        for place, name in enumerate(names):
            mine, said = sum(counts[place]), sum(row[place] for row in counts)
            right = counts[place][place]
            recall, precision = (right / number if number else None for number in (mine, said))
            rows.append({"class": name, "examples": mine, "recall": recall, "precision": precision})
        return Scores({"error_rate": wrong, "accuracy": 1 - wrong}, rows, (names, counts))

    def problem(self, example: Example, finding: Finding) -> Optional[str]:
        """Every answer can be compared."""
        return None

    def fault(self, example: Example, finding: Finding) -> Optional[Fault]:
        """An answer is wrong if its label is not the true one."""
        truth, said = self.plain(example.truth), self.heard(finding)
        return None if truth == said else Fault(1.0, truth, said)

    def drawn(self, example: Example, finding: Finding) -> Optional[Mapping[str, Any]]:
        """There is no picture of a sound."""
        return None


class TextMeasure:
    """Counts lines of writing or speech, whose truth is the line."""

    kinds: Tuple[str, ...] = ("text",)
    threshold: Optional[float] = None

    def scores(self, answered: Sequence[Tuple[Example, Finding]]) -> Scores:
        """error_rate: characters to change for each true one; line_error_rate: the share of lines that are wrong."""
        pairs = [(example.truth, finding["text"]) for example, finding in answered]
        changes = sum(distance(truth, said) for truth, said in pairs)
        wrong = sum(truth != said for truth, said in pairs) / len(pairs)
        characters = sum(len(truth) for truth, _ in pairs)
        return Scores({"error_rate": changes / max(characters, 1), "line_error_rate": wrong}, [])

    def problem(self, example: Example, finding: Finding) -> Optional[str]:
        """Every answer can be compared."""
        return None

    def fault(self, example: Example, finding: Finding) -> Optional[Fault]:
        """The more characters must be changed, the worse the answer."""
        changes = distance(example.truth, finding["text"])
        return Fault(float(changes), repr(example.truth), repr(finding["text"])) if changes else None

    def drawn(self, example: Example, finding: Finding) -> Optional[Mapping[str, Any]]:
        """The picture that was read."""
        from armnet.page.pictures import picture_of

        picture = picture_of(example.value)
        return None if picture is None else {"": picture}


def distance(one: str, other: str) -> int:
    """How many characters must be inserted, deleted or changed to turn one text into the other (Levenshtein, 1966)."""
    codes = np.asarray([ord(char) for char in other], np.int64)
    places = np.arange(len(other) + 1)
    row = places.copy()
    for count, char in enumerate(one, 1):
        changed = row[:-1] + (codes != ord(char))
        best = np.concatenate([[count], np.minimum(changed, row[1:] + 1)])
        row = np.minimum.accumulate(best - places) + places
    return int(row[-1])
