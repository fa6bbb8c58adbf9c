"""Draw leaves of three plants, each picture another one: a folder for each plant, to try teaching without photos."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Callable, Dict

import numpy as np
from PIL import Image, ImageDraw

ANGLES = np.linspace(-np.pi, np.pi, 200)
DRAWN = 4  # times as large as the picture, so that edges become smooth

# How far the edge of a leaf is from its middle, in each direction; its tip lies at 0.
OUTLINES: Dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "basil": lambda angle: 0.62 + 0.38 * np.cos(angle) ** 2,
    "rosemary": lambda angle: 0.12 / np.maximum(np.abs(np.sin(angle)), 0.12),
    "ivy": lambda angle: 0.68 + 0.32 * np.cos(5 * angle),
}


def leaf(plant: str, size: int, random: np.random.RandomState) -> Image.Image:
    """A picture of a leaf, (size, size) pixels, turned, shaded and shaped at random."""
    wide = size * DRAWN
    ground, green = random.randint(200, 256, 3), np.array([30, 110, 40]) + random.randint(-25, 26, 3)
    picture = Image.new("RGB", (wide, wide), tuple(int(part) for part in ground))
    edge = OUTLINES[plant](ANGLES) * (1 + 0.02 * random.randn(len(ANGLES))) * random.uniform(0.34, 0.44) * wide
    turned = ANGLES + random.uniform(0, 2 * np.pi)
    middle = wide / 2 + random.uniform(-0.05, 0.05, 2) * wide
    points = middle + edge[:, None] * np.stack([np.cos(turned), np.sin(turned)], axis=1)
    draw = ImageDraw.Draw(picture)
    draw.polygon([tuple(point) for point in points], fill=tuple(int(part) for part in green))
    tip = tuple(points[len(points) // 2])
    draw.line([tuple(middle), tip], fill=tuple(int(part) for part in green + 40), width=max(1, wide // 60))
    return picture.resize((size, size), Image.BOX)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where the folders of the plants are made")
    parser.add_argument("--count", type=int, default=40, metavar="N", help="pictures of each plant (default: 40)")
    parser.add_argument("--size", type=int, default=128, metavar="PIXELS", help="width and height (default: 128)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="another one, other leaves (default: 0)")
    args = parser.parse_args()
    random = np.random.RandomState(args.seed)
    for plant in OUTLINES:
        folder = args.folder / plant
        folder.mkdir(parents=True, exist_ok=True)
        for number in range(args.count):
            leaf(plant, args.size, random).save(folder / f"{number}.png")
    print(f"{args.folder}: {args.count} leaves each of {', '.join(OUTLINES)}")


if __name__ == "__main__":
    main()
