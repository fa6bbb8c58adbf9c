"""A doorbell without a button: when somebody says the word, look who is there and tell.

Needs runtime_arm beside it, or armnet installed; NumPy; Pillow; for a microphone arecord; for a camera OpenCV or
picamera2.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from contextlib import closing
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any, Dict, Iterator, Optional
from urllib.request import Request, urlopen

import numpy as np

import runtime_arm
from runtime_arm.errors import ArmnetError, FeedError

DARK = 10  # frames until a camera knows how bright it is
REST = 3.0  # seconds in which the same word does not ring again


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("ear", help="a pair's folder or a bundle that hears words")
    parser.add_argument("eye", help="a pair's folder or a bundle that looks at pictures, such as a detector")
    parser.add_argument("--word", help="what rings (default: every word that the ear knows)")
    parser.add_argument("--score", type=float, metavar="SHARE", help="how sure the ear must be (default: its own)")
    parser.add_argument(
        "--listen", default="microphone", metavar="SOUND", help="a .wav or a folder of them (default: microphone)"
    )
    parser.add_argument(
        "--look", default="camera", metavar="PICTURE", help="camera:1, a picture or a folder (default: camera)"
    )
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="write the pictures there, with what was found")
    parser.add_argument("--post", metavar="URL", help="send each event there, as JSON")
    args = parser.parse_args()
    try:
        with runtime_arm.open(args.ear) as ear, runtime_arm.open(args.eye) as eye:
            for word in rings(ear, args.listen, args.word, args.score):
                event = {"time": datetime.now().isoformat(timespec="seconds"), "heard": word}
                event.update(seen(eye, args.look, args.keep))
                print(json.dumps(event), flush=True)
                if args.post:
                    post(args.post, event)
    except KeyboardInterrupt:
        pass
    except (ArmnetError, OSError) as problem:
        sys.exit(f"doorbell: {problem}")


def rings(ear: Any, source: str, wanted: Optional[str], score: Optional[float]) -> Iterator[str]:
    """The word, each time that somebody says it."""
    if wanted is not None and wanted not in (ear.labels or ()):
        raise FeedError(f"the ear does not know {wanted!r}, but {', '.join(ear.labels or ['no words'])}")
    live = source == "microphone"
    silent_until = 0.0
    for sound in microphone(ear.entry["sound"]) if live else files(ear, source):
        for event in ear.predict(sound, threshold=score):
            if event.label in (wanted or event.label,) and not (live and time.monotonic() < silent_until):
                yield event.label
                silent_until = time.monotonic() + REST


def files(model: Any, source: str) -> Iterator[Any]:
    """What the model takes, from a file, a folder or a camera."""
    for item in model.inputs(source):
        if item.error is not None:
            raise item.error
        yield item.value


def microphone(sound: Dict[str, Any]) -> Iterator[Any]:
    """The samples of the last second, (n,) int16, twice a second."""
    rate = int(sound["rate"])
    if shutil.which("arecord") is None:
        raise FeedError("a microphone needs arecord: apt install alsa-utils")
    command = ["arecord", "-q", "-t", "raw", "-f", "S16_LE", "-c", "1", "-r", str(rate)]
    heard = np.zeros(rate, np.int16)
    with subprocess.Popen(command, stdout=subprocess.PIPE) as recorder:
        try:
            while True:
                half = recorder.stdout.read(rate // 2 * 2)
                if not half:
                    raise FeedError("arecord has ended, for the reason that it gives")
                heard = np.concatenate([heard[len(half) // 2 :], np.frombuffer(half, "<i2")])
                yield heard
        finally:
            recorder.terminate()


def seen(eye: Any, source: str, folder: Optional[Path]) -> Dict[str, Any]:
    """What is in front of the camera, and where its picture was written."""
    with closing(files(eye, source)) as frames:
        picture = next(islice(frames, DARK if source.startswith("camera") else 0, None), None)
    if picture is None:
        raise FeedError(f"{source}: the camera gives no picture")
    result = eye.predict(picture)
    facts: Dict[str, Any] = {"seen": [" ".join(line.split()) for line in result.lines()]}
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{datetime.now():%Y-%m-%d_%H-%M-%S-%f}.jpg"
        result.draw(picture).save(path)
        facts["picture"] = str(path)
    return facts


def post(url: str, event: Dict[str, Any]) -> None:
    """Send the event; a door without a network goes on ringing."""
    request = Request(url, json.dumps(event).encode(), {"Content-Type": "application/json"})
    try:
        with urlopen(request, timeout=10):
            pass
    except (OSError, ValueError) as problem:
        print(f"doorbell: not sent to {url}: {problem}", file=sys.stderr)


if __name__ == "__main__":
    main()
