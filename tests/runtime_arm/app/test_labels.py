from __future__ import annotations

from pathlib import Path
from typing import List

import pytest

from runtime_arm.app.labels import fitting, read_labels
from runtime_arm.errors import FeedError, UsageError


def test_labels_are_utf8_lines(tmp_path: Path) -> None:
    for encoding in ("utf-8", "utf-8-sig"):
        (tmp_path / "labels.txt").write_text("Köter\r\nKatze\n", encoding=encoding)
        assert read_labels(tmp_path / "labels.txt") == ["Köter", "Katze"]
    (tmp_path / "binary.txt").write_bytes(b"\xff\xfe\x00")
    for name in ("binary.txt", "nowhere.txt"):
        with pytest.raises(FeedError, match=name):
            read_labels(tmp_path / name)


@pytest.mark.parametrize("first", ["background", "???", "Background "])
def test_one_background_too_many_is_left_out_with_a_notice(first: str) -> None:
    notices: List[str] = []
    assert fitting([first, "cat", "dog"], 2, "labels.txt", notices.append) == ["cat", "dog"]
    assert first in notices[0]
    assert "labels.txt" in notices[0]
    assert fitting([first, "cat", "dog"], 3, "labels.txt", notices.append) == [first, "cat", "dog"]
    assert len(notices) == 1


@pytest.mark.parametrize("labels", [["cat"], ["cat", "dog", "cow"], ["background", "a", "b", "c"], []])
def test_labels_of_another_number_are_refused(labels: List[str]) -> None:
    with pytest.raises(UsageError, match=f"{len(labels)} labels, the net has 2 classes"):
        fitting(labels, 2, "labels.txt", print)


def test_labels_of_a_mask_may_leave_out_what_lies_behind() -> None:
    notices: List[str] = []
    assert fitting(["selfie"], 2, "the labels", notices.append, behind=True) == ["background", "selfie"]
    assert not notices
    assert fitting(["cat", "dog"], 3, "labels.txt", notices.append, behind=True) == ["background", "cat", "dog"]
    assert "the first class is taken for the background" in notices[0]
    for labels in ([], ["cat"], ["background", "cat"]):
        with pytest.raises(UsageError, match=f"{len(labels)} labels, the net has 3 classes"):
            fitting(labels, 3, "labels.txt", print, behind=True)


def test_empty_lines_at_the_end_are_no_labels() -> None:
    assert fitting(["cat", "dog", "", " "], 2, "labels.txt", print) == ["cat", "dog"]
    assert fitting(["cat", "dog"], None, "labels.txt", print) == ["cat", "dog"]
    assert fitting(None, 2, "labels.txt", print) is None
