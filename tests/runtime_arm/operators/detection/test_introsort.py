"""The order of equal scores: recorded of Caffe2's BoxWithNMSLimit and GenerateProposals, on boxes that are apart."""

from __future__ import annotations

from typing import Any, List

import numpy as np
import pytest

from runtime_arm.operators.detection.introsort import best_first
from runtime_arm.registry.schema import lookup
from tests.support.operands import caffe2

THIRDS = [29, 20, 17, 23, 14, 26, 11, 8, 32, 5, 35, 2, 38, 31, 1, 34, 28, 25, 37, 22]
THIRDS += [16, 13, 4, 10, 19, 7, 30, 39, 0, 3, 36, 6, 33, 9, 12, 27, 15, 24, 18, 21]
EQUAL = [10, 19, 18, 17, 16, 15, 14, 13, 12, 11, 0, 9, 8, 7, 6, 5, 4, 3, 2, 1]


@pytest.mark.parametrize(("scores", "wanted"), [(np.arange(40) % 3, THIRDS), (np.zeros(20), EQUAL)])
def test_equal_scores_of_boxes(scores: Any, wanted: List[int]) -> None:
    corners = np.arange(len(scores), dtype=np.float32)[:, np.newaxis] * 20 + np.array([0, 0, 5, 5], np.float32)
    both = np.stack([scores, scores + 1], axis=1).astype(np.float32)
    op = caffe2("BoxWithNMSLimit", "s b", "S B C N K", detections_per_im=0)
    assert lookup(op).evaluate(op, [both, np.tile(corners, 2)])[4].tolist() == wanted


@pytest.mark.parametrize(
    ("before", "wanted"), [(5, [3, 7, 15, 19, 11]), (11, [3, 11, 7, 15, 19, 23, 18, 10, 2, 22, 14])]
)
def test_equal_scores_of_proposals(before: int, wanted: List[int]) -> None:
    scores = (np.arange(24) % 4).astype(np.float32).reshape(1, 1, 1, 24)
    image, anchor = np.array([[1000, 1000, 1]], np.float32), np.array([[0, 0, 5, 5]], np.float32)
    op = caffe2("GenerateProposals", "s d i a", "R P", pre_nms_topN=before, min_size=0.0)
    rois, _ = lookup(op).evaluate(op, [scores, np.zeros((1, 4, 1, 24), np.float32), image, anchor])
    assert (rois[:, 1] / 16).tolist() == wanted


def test_proposals_with_equal_scores_come_anchor_by_anchor() -> None:
    anchors = np.array([[0, 0, 4, 4], [0, 0, 6, 6]], np.float32)
    op = caffe2("GenerateProposals", "s d i a", "R P", min_size=0.0)
    given = [np.ones((1, 2, 1, 3), np.float32), np.zeros((1, 8, 1, 3), np.float32)]
    rois, _ = lookup(op).evaluate(op, [*given, np.array([[100, 100, 1]], np.float32), anchors])
    assert rois[:, 3].tolist() == [4, 20, 36, 6, 22, 38]


@pytest.mark.parametrize("limit", [0, 1, 7, 499, 500, 600])
def test_scores_that_quicksort_takes_long_for_are_sorted(limit: int) -> None:
    scores = np.concatenate([np.arange(250), np.arange(250)[::-1]]).astype(np.float32)
    order = best_first(scores, limit)
    assert len(set(order.tolist())) == len(order) == (limit if 0 < limit < 500 else 500)
    np.testing.assert_array_equal(scores[order], np.sort(scores)[::-1][: len(order)])


def test_different_scores_and_few_keep_the_order_of_numpy() -> None:
    for scores in (np.random.default_rng(0).permutation(100), np.zeros(16), np.array([1, np.nan] * 20)):
        np.testing.assert_array_equal(best_first(scores), np.argsort(-scores, kind="stable"))
