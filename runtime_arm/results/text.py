"""Text: the text in a picture of a line."""

from __future__ import annotations

from typing import Any, Dict, List

from runtime_arm.results.result import Result


class Text(Result):
    """One line of writing. score: the mean probability of its characters, 0 for an empty line."""

    kind = "text"

    def __init__(self, text: str, score: float):
        self.text = text
        self.score = score

    def __str__(self) -> str:
        return self.text

    def to_dict(self) -> Dict[str, Any]:
        return {"kind": self.kind, "text": self.text, "score": self.score}

    def lines(self) -> List[str]:
        return [f"{self.score:10.6g}  {self.text!r}"]
