"""COCO's annotations: boxes in pictures, as a .json file, measured by pycocotools."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Sequence

from armnet.evaluation.detection import BoxMeasure
from armnet.evaluation.example import Data, Example, stamp
from armnet.evaluation.truths import model_count, model_labels, plain_name
from runtime_arm.errors import FeedError, UsageError

if TYPE_CHECKING:
    from runtime_arm.app.model import Model

_PLACES = ("", "images", "..", "../images", "../{name}", "{name}", "../images/{name}")


def fits(path: str) -> bool:
    """Whether the path is a .json file, or a folder with annotations and pictures."""
    return path.lower().endswith(".json") or _annotations_in(path) is not None


def _annotations_in(path: str) -> Optional[str]:
    """The one file of annotations in a folder, as data sets are shared."""
    if not os.path.isdir(path):
        return None
    found = [*Path(path).glob("*.json"), *Path(path, "annotations").glob("instances*.json")]
    return os.fspath(found[0]) if len(found) == 1 else None


def read(path: str, model: Model, notice: Callable[[str], None]) -> Data:
    """The examples: each picture with its boxes, in the numbers of the model's classes."""
    path = _annotations_in(path) or path
    content = _content(path)
    categories = _categories(content, path)
    numbers = _numbers(categories, model_labels(model), model_count(model), path, notice)
    pictures = _pictures(content, path)
    boxes: Dict[Any, List[Dict[str, Any]]] = {image["id"]: [] for image in content["images"]}
    for one in content["annotations"]:
        _check(one, categories, path)
        if one["image_id"] in boxes and one["category_id"] in numbers:
            x, y, width, height = (float(edge) for edge in one["bbox"])
            crowd = bool(one.get("iscrowd"))
            truth = {"index": numbers[one["category_id"]], "box": [x, y, x + width, y + height], "crowd": crowd}
            boxes[one["image_id"]].append(truth)
    examples = [
        Example(image["file_name"], pictures[image["id"]], {"image": image["id"], "boxes": boxes[image["id"]]})
        for image in content["images"]
    ]
    measure = BoxMeasure(content, {number: category for category, number in numbers.items()}, model_labels(model))
    marks = "\n".join([stamp(path), *(stamp(example.value) for example in examples)])
    count = sum(map(len, boxes.values()))
    return Data(examples, measure, marks, f"{len(examples)} pictures with {count} boxes of {len(numbers)} classes")


def _content(path: str) -> Dict[str, Any]:
    try:
        with open(path, encoding="utf-8-sig") as file:
            content = json.load(file)
    except (OSError, ValueError, RecursionError) as error:
        raise FeedError(f"{path}: cannot be read as JSON: {error}") from None
    for key in ("images", "annotations", "categories"):
        entries = content.get(key) if isinstance(content, dict) else None
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise FeedError(f"{path}: not COCO's annotations: has no list {key!r}")
    for image in content["images"]:
        if "id" not in image or not isinstance(image.get("file_name"), str):
            raise FeedError(f"{path}: an entry of 'images' lacks its id or file_name")
    repeated = [name for name, count in Counter(str(image["id"]) for image in content["images"]).items() if count > 1]
    if repeated:
        raise FeedError(f"{path}: the id {repeated[0]} belongs to several images")
    return dict(content)


def _categories(content: Dict[str, Any], path: str) -> Dict[int, str]:
    categories = {}
    for entry in content["categories"]:
        if not isinstance(entry.get("id"), int) or not isinstance(entry.get("name"), str):
            raise FeedError(f"{path}: an entry of 'categories' lacks its id or name")
        categories[entry["id"]] = entry["name"]
    return categories


def _check(one: Dict[str, Any], categories: Dict[int, str], path: str) -> None:
    """FeedError unless an annotation is a box of a known category."""
    box = one.get("bbox")
    if not isinstance(box, list) or len(box) != 4 or not all(isinstance(edge, (int, float)) for edge in box):
        raise FeedError(f"{path}: annotation {one.get('id')} has no bbox of four numbers")
    if one.get("category_id") not in categories or "image_id" not in one:
        raise FeedError(f"{path}: annotation {one.get('id')} lacks its image_id, or its category_id is unknown")


def _numbers(
    categories: Dict[int, str],
    labels: Optional[Sequence[str]],
    count: Optional[int],
    path: str,
    notice: Callable[[str], None],
) -> Dict[int, int]:
    """The number of the model's class for each category: by name; without labels by order, or by the category's id."""
    if labels is not None:
        known = {plain_name(label): number for number, label in reversed(list(enumerate(labels)))}
        found = {key: known[plain_name(name)] for key, name in categories.items() if plain_name(name) in known}
        if not found:
            names = ", ".join(list(categories.values())[:5])
            raise UsageError(f"{path}: none of its categories ({names}, ...) is a label of the model")
        missing = [name for key, name in categories.items() if key not in found]
        if missing:
            notice(f"{path}: left out, because the model has no such label: {', '.join(missing[:10])}")
        return found
    if count is None or count == len(categories):
        how = "in the order of their ids"
        found = {key: number for number, key in enumerate(sorted(categories))}
    elif max(categories) <= count:
        shift = 0 if max(categories) < count else 1
        how = "by their ids" if not shift else "by their ids less 1"
        found = {key: key - shift for key in categories}
    else:
        raise UsageError(f"{path}: has {len(categories)} categories, the model {count} classes; give --labels FILE")
    notice(f"{path}: the model has no labels; its classes are taken to be the categories, {how}")
    return found


def _pictures(content: Dict[str, Any], path: str) -> Dict[Any, str]:
    """The path of each picture, below the first folder that has it. UsageError, listing the folders, if none has it."""
    folder = os.path.dirname(path)
    name = os.path.splitext(os.path.basename(path))[0].partition("_")[2]
    places = [os.path.normpath(os.path.join(folder, place.format(name=name))) for place in _PLACES]
    found: Dict[Any, str] = {}
    missing: List[str] = []
    for image in content["images"]:
        own = _inside(image["file_name"], path)
        hit = next((place for place in places if os.path.isfile(os.path.join(place, own))), None)
        if hit is None:
            missing.append(own)
            continue
        places.sort(key=lambda place: place != hit)
        found[image["id"]] = os.path.join(hit, own)
    if missing:
        raise UsageError(
            f"{path}: {len(missing)} pictures are missing, such as {missing[0]}; looked in {folder or '.'}, "
            "images/ and the folder named like the file, there and one folder up"
        )
    return found


def _inside(name: str, path: str) -> str:
    """A file name that stays below the folder of pictures."""
    if os.path.isabs(name) or ".." in Path(name).parts:
        raise FeedError(f"{path}: the file name {name!r} leads out of the folder of pictures")
    return name
