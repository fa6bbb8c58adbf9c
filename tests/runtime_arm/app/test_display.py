"""Texts for terminals of every width."""

from __future__ import annotations

import pytest

from runtime_arm.app.display import fitted

HELP = """Run a network on pictures, sounds, videos, a camera or arrays,
and say what it finds.

  armnet run ssd photo.jpg --labels coco.txt    boxes; a classifier's classes, a mask
  armnet run model.tflite camera --every 10
                                                any model that can be exported
commands:
  export    translate a trained network into a pair
  run       run it"""

NARROW = """Run a network on pictures, sounds,
videos, a camera or arrays, and say
what it finds.

  armnet run ssd photo.jpg --labels
      coco.txt
      boxes; a classifier's classes, a
      mask
  armnet run model.tflite camera
      --every 10
      any model that can be exported
commands:
  export    translate a trained network
            into a pair
  run       run it"""


def test_a_text_that_fits_stays_as_it_is() -> None:
    assert fitted(HELP, 90) == HELP
    assert fitted("", 10) == ""


def test_sentences_are_filled_and_second_columns_wrapped() -> None:
    assert fitted(HELP, 39) == NARROW


@pytest.mark.parametrize("width", range(20, 90, 7))
def test_every_word_is_kept_in_its_order(width: int) -> None:
    lines = fitted(HELP, width).splitlines()
    assert " ".join(lines).split() == HELP.split()
    assert max(map(len, lines)) <= width or width < 35


def test_facts_beneath_each_other_stay_apart() -> None:
    text = "machine  x86_64, Linux\nfeatures  avx avx2 avx512f fma sse4_2"
    assert fitted(text, 26).splitlines() == [
        "machine  x86_64, Linux",
        "features  avx avx2 avx512f",
        "          fma sse4_2",
    ]
