#!/usr/bin/env python3
"""Writes a folder with a folder of crops for each of some photos: classes to teach a network.

    python scripts/make_crops.py FOLDER [--count 30] [--seed 0] PHOTO...

Each crop has from 30 to 70 % of each side of its photo, anywhere in it.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import checkout  # noqa: F401
import numpy as np
from PIL import Image

LEAST, MOST, SIDE = 0.3, 0.7, 256


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("photos", nargs="+", type=Path)
    parser.add_argument("--count", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    random = np.random.RandomState(args.seed)
    for photo in args.photos:
        picture, place = Image.open(photo).convert("RGB"), args.folder / photo.stem
        place.mkdir(parents=True)
        for number in range(args.count):
            wide, high = (round(side * random.uniform(LEAST, MOST)) for side in picture.size)
            left, top = random.randint(picture.width - wide + 1), random.randint(picture.height - high + 1)
            crop = picture.crop((left, top, left + wide, top + high))
            crop.resize((SIDE, round(SIDE * high / wide))).save(place / f"{number:03}.jpg", quality=90)


if __name__ == "__main__":
    main()
