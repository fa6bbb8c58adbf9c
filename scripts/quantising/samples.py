"""Inputs of real networks: photos and crops of them, prepared for each network, digits, and noise for the others.

Ranges are calibrated on some photos, results are judged on the others.
"""

from __future__ import annotations

from pathlib import Path
from typing import Callable, Dict, Iterator, List, NamedTuple, Sequence, Tuple

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from runtime_arm.errors import UsageError
from runtime_arm.netdef import Array
from runtime_arm.pair.pair import Pair

ROOT = Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared" / "models"
DIGITS = ROOT / "demo" / "held_back.npz"
CROPS = 3  # of each photo, beside the whole one
LEAST = 0.4  # of each side of a photo, in a crop
IMAGENET_MEAN, IMAGENET_STD = np.array([0.485, 0.456, 0.406]) * 255, np.array([0.229, 0.224, 0.225]) * 255

Feeds = Dict[str, Array]
Pixels = Callable[[Array], Array]  # of (H, W, 3) RGB, 0..255


class Samples(NamedTuple):
    """calibration, judged: inputs. labels: classes of the judged ones, if known. kind: what the inputs are."""

    calibration: List[Feeds]
    judged: List[Feeds]
    labels: Sequence[int]
    kind: str


def _signed(pixels: Array) -> Array:
    return (pixels - 127.5) / 127.5


def _caffe(pixels: Array) -> Array:
    return pixels[..., ::-1] - np.array([104, 117, 123])


def _grey(pixels: Array) -> Array:
    return pixels @ np.array([[0.299], [0.587], [0.114]])


# By a part of the model's path: the recipe of its pixels, and the size where the network leaves it open.
PHOTOS: Dict[str, Tuple[Pixels, Tuple[int, int]]] = {
    "squeezenet": (_caffe, (227, 227)),
    "mtcnn/det1": (lambda pixels: (pixels - 127.5) / 128, (128, 150)),
    "mtcnn/det2": (lambda pixels: (pixels - 127.5) / 128, (24, 24)),
    "mtcnn/det3": (lambda pixels: (pixels - 127.5) / 128, (48, 48)),
    "ultraface": (lambda pixels: (pixels - 127) / 128, (240, 320)),
    "superres": (lambda pixels: _grey(pixels) / 255, (224, 224)),
    "super_resolution": (lambda pixels: _grey(pixels) / 255, (224, 224)),
    "yunet": (lambda pixels: pixels[..., ::-1], (320, 320)),
    "fastestdet": (lambda pixels: pixels[..., ::-1] / 255, (352, 352)),
    "ppocr": (lambda pixels: (pixels - IMAGENET_MEAN) / IMAGENET_STD, (320, 320)),
    "deeplab": (_signed, (257, 257)),
    "face_detection": (_signed, (128, 128)),
    "selfie": (lambda pixels: pixels / 255, (256, 256)),
    "resnet8": (lambda pixels: pixels, (32, 32)),
    "vww": (lambda pixels: pixels / 255, (96, 96)),
    "mobilenet_v1": (_signed, (224, 224)),
}
READERS = ("ppocr",)  # look for text, and answer nothing but zeros to photos that hold none
WORDS = ("EXIT", "Coffee", "24 hours", "Main Street", "No. 5", "Bakery", "1,99", "Welcome", "push here", "fresh bread")
DRAWN: Dict[str, Callable[[np.random.RandomState, Sequence[int]], Array]] = {
    "hello_world": lambda random, shape: random.uniform(0, 2 * np.pi, shape),
    "ad_autoencoder": lambda random, shape: -10 + 4 * _smooth(random, shape),
    "kws": lambda random, shape: 20 * _smooth(random, shape),
}
_MNIST = {"mnist_8": 255.0, "lenet_armnn": 1.0}  # what white is


def samples_of(name: str, pair: Pair) -> Samples:
    """The samples of a network. UsageError if nothing is known about its inputs."""
    if name == "demo/digits":
        return _digits(pair)
    white = next((white for part, white in _MNIST.items() if part in name), None)
    if white is not None:
        return _large_digits(pair, white)
    drawing = next((drawing for part, drawing in DRAWN.items() if part in name), None)
    if drawing is not None:
        return _drawn(pair, drawing)
    recipe = next((recipe for part, recipe in PHOTOS.items() if part in name), None)
    if recipe is None:
        raise UsageError(f"{name}: nothing is known about its inputs")
    return _photos(pair, recipe, with_text=any(part in name for part in READERS))


def _digits(pair: Pair) -> Samples:
    archive, key = np.load(DIGITS), pair.inputs[0].name
    feeds = [{key: image[np.newaxis]} for image in archive["images"]]
    return Samples(feeds[:100], feeds[100:], list(archive["labels"][100:]), "digits")


def _large_digits(pair: Pair, white: float) -> Samples:
    """Pictures of 8 x 8 in the middle of 28 x 28, as MNIST's digits fill 20 x 20."""
    key, feeds = pair.inputs[0].name, []
    for image in np.load(DIGITS)["images"]:
        grey = Image.fromarray((image[0] / image.max() * 255).astype(np.uint8))
        small = grey.resize((20, 20), Image.Resampling.BICUBIC)
        feeds.append({key: np.pad(np.asarray(small, np.float32), 4)[np.newaxis, np.newaxis] * np.float32(white / 255)})
    return Samples(feeds[:100], feeds[100:], list(np.load(DIGITS)["labels"][100:]), "digits")


def _smooth(random: np.random.RandomState, shape: Sequence[int]) -> Array:
    """Noise in which each element is similar to those before it."""
    noise = random.standard_normal(shape)
    return noise.cumsum(axis=1) / np.sqrt(np.arange(1, shape[1] + 1)).reshape([-1] + [1] * (len(shape) - 2))


def _drawn(pair: Pair, drawing: Callable[[np.random.RandomState, Sequence[int]], Array]) -> Samples:
    info, random = pair.inputs[0], np.random.RandomState(0)
    shape = [size if isinstance(size, int) and size > 0 else 1 for size in info.shape or ()]
    feeds = [{info.name: drawing(random, shape).astype(np.float32)} for _ in range(150)]
    return Samples(feeds[:100], feeds[100:], (), "noise")


def _photos(pair: Pair, recipe: Tuple[Pixels, Tuple[int, int]], with_text: bool) -> Samples:
    info, (pixels, open_size) = pair.inputs[0], recipe
    shape = [size if isinstance(size, int) and size > 0 else None for size in info.shape or (1, 3, None, None)]
    last = shape[3] in (1, 3) and shape[1] not in (1, 3)
    height, width = (size or given for size, given in zip(shape[1:3] if last else shape[2:], open_size))

    def feed(photo: Image.Image) -> Feeds:
        small = np.asarray(photo.resize((width, height), Image.Resampling.BILINEAR), np.float64)
        image = pixels(small)[np.newaxis].astype(np.float32)
        return {info.name: np.ascontiguousarray(image if last else image.transpose(0, 3, 1, 2))}

    files = sorted(file for file in (SHARED / "photos").rglob("*") if file.suffix in (".jpg", ".png", ".bmp"))
    files = [file for file in files if file.stem != "mnist_nine"]
    parts: List[List[Feeds]] = [[], []]
    for number, file in enumerate(files):
        crops = list(_crops(Image.open(file).convert("RGB"), number))
        if with_text:
            crops = [_with_text(crop, seed) for seed, crop in enumerate(crops, len(crops) * number)]
        parts[number % 2] += [feed(crop) for crop in crops]
    return Samples(parts[0], parts[1], (), "photos with text" if with_text else "photos")


def _crops(photo: Image.Image, seed: int) -> Iterator[Image.Image]:
    random = np.random.RandomState(seed)
    yield photo
    for _ in range(CROPS):
        width, height = (int(side * random.uniform(LEAST, 1)) for side in photo.size)
        left, top = random.randint(photo.size[0] - width + 1), random.randint(photo.size[1] - height + 1)
        yield photo.crop((left, top, left + width, top + height))


def _with_text(photo: Image.Image, seed: int) -> Image.Image:
    """The photo with some words on it, of different sizes, colours and places."""
    random, written = np.random.RandomState(seed), photo.copy()
    draw = ImageDraw.Draw(written)
    for word in random.choice(WORDS, random.randint(2, 7)):
        height = photo.size[1] * random.uniform(0.04, 0.15)
        place = random.uniform(0, 0.7) * photo.size[0], random.uniform(0, 0.85) * photo.size[1]
        draw.text(place, str(word), tuple(random.randint(256, size=3).tolist()), ImageFont.load_default(height))
    return written
