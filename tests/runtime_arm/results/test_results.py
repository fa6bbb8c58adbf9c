"""The results: what they hold, say, and write as JSON."""

from __future__ import annotations

import json

import numpy as np
import pytest

from runtime_arm.errors import UsageError
from runtime_arm.results import Box, Boxes, Classes, Depth, Embedding, Faces, Mask, Result, SoundEvents, Tensors, Text
from runtime_arm.results.decoders import DECODERS, decoder_of
from runtime_arm.results.recognise import KINDS, checked
from runtime_arm.results.sounds import SoundEvent, runs_of


def test_the_best_classes_come_first_and_ties_keep_their_order() -> None:
    result = Classes(np.asarray([0.1, 0.7, 0.1, 0.1]), ["a", "b", "c", "d"], "probabilities", 3)
    assert [(one.index, one.label) for one in result] == [(1, "b"), (0, "a"), (2, "c")]
    assert (result.label, result.index, result.score) == ("b", 1, 0.7)
    unnamed = Classes(np.asarray([1.0, 2.0]), None, "logits")
    assert unnamed.label is None
    assert "class 1  (logit)" in unnamed.lines()[0]


def test_every_result_is_plain_json_and_short_in_print() -> None:
    box = Box("cat", 3, 0.5, (0.0, 1.0, 2.0, 3.0))
    results = [
        Boxes([box]),
        Faces([Box("face", 0, 0.9, (0, 0, 1, 1), ((0.5, 0.5),))]),
        Classes(np.ones(1000), None, "logits"),
        Mask(np.zeros((4, 5), np.uint8), None),
        Depth(np.ones((3, 4), np.float32)),
        Embedding(np.ones(8)),
        Text("hello", 0.9),
        SoundEvents([SoundEvent("speech", 0, 0.0, 1.0, 0.9)], np.ones((10, 1)), 0.1),
        Tensors({"y": np.asarray([1.0, np.nan, np.inf])}),
    ]
    for result in results:
        assert isinstance(result, Result)
        facts = json.loads(json.dumps(result.to_dict(), allow_nan=False))
        assert facts["kind"] == result.kind in KINDS
        assert len(repr(result)) < 300
        assert "\n" not in repr(result)
    assert results[0].to_dict() == {
        "kind": "boxes",
        "boxes": [{"label": "cat", "index": 3, "score": 0.5, "box": [0.0, 1.0, 2.0, 3.0]}],
    }
    assert results[1].to_dict()["boxes"][0]["points"] == [[0.5, 0.5]]
    assert results[8].to_dict()["tensors"]["y"]["nan"] == 1


def test_every_decoder_is_there_and_makes_a_known_kind() -> None:
    assert all(decoder_of(name).kind in KINDS for name in DECODERS)
    with pytest.raises(UsageError, match="no decoder 'crystal ball'"):
        decoder_of("crystal ball")


@pytest.mark.parametrize("entry", [{}, [], {"decoder": "nothing"}, {"decoder": "mask", "outputs": [1]}])
def test_an_entry_that_makes_no_sense_is_refused(entry: object) -> None:
    with pytest.raises(UsageError):
        checked(entry)


def test_runs_of_windows() -> None:
    assert runs_of(np.asarray([0, 1, 1, 0, 1], bool)) == [range(1, 3), range(4, 5)]
    assert runs_of(np.zeros(3, bool)) == []


def test_labels_of_boxes_do_not_cover_each_other() -> None:
    image = pytest.importorskip("PIL.Image", reason="results are drawn with Pillow")
    grey = image.new("RGB", (300, 200), "grey")
    box, red = Box("cat", 0, 0.5, (50.0, 60.0, 150.0, 120.0)), (230, 25, 75)
    above, below = (51, 58), (51, 123)
    one, two = Boxes([box]).draw(grey), Boxes([box, box]).draw(grey)
    assert [one.getpixel(place) == red for place in (above, below)] == [True, False]
    assert [two.getpixel(place) == red for place in (above, below)] == [True, True]
    many = np.asarray(Boxes([box] * 9).draw(grey))
    assert np.array_equal(many, np.asarray(Boxes([box] * 4).draw(grey)))  # for the fifth there is no room
