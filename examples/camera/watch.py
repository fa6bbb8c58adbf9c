"""Show in a web page what a camera sees, with what a network finds in it.

Needs runtime_arm beside it, or armnet installed; NumPy; Pillow; for a camera OpenCV or picamera2.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
import time
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Condition, Thread
from typing import Any, Optional, Tuple

import runtime_arm
from runtime_arm.errors import ArmnetError

PAGE = Path(__file__).with_name("page.html")
PARTS = "picture"  # what separates the pictures of the stream


class Newest:
    """The last thing that a thread has put here; others wait for it, and miss what they are too slow for."""

    def __init__(self) -> None:
        self._number, self._value, self._changed = 0, None, Condition()

    def put(self, value: Any) -> None:
        with self._changed:
            self._number, self._value = self._number + 1, value
            self._changed.notify_all()

    def after(self, number: int) -> Tuple[int, Any]:
        """The newest value and its number, as soon as that is larger."""
        with self._changed:
            self._changed.wait_for(lambda: self._number > number)
            return self._number, self._value


class Scene:
    """A picture as JPEG with what was found in it drawn over it, and the same as facts."""

    def __init__(self, picture: Any, result: Any, seconds: float):
        file = io.BytesIO()
        result.draw(picture).save(file, "JPEG", quality=80)
        self.jpeg = file.getvalue()
        self.facts = {"lines": [" ".join(line.split()) for line in result.lines()], "seconds": round(seconds, 4)}
        self.facts["result"] = result.to_dict()


def film(model: Any, source: str, pause: float, frames: Newest) -> None:
    """Puts into ``frames`` what the camera sees, for ever. A problem is put there, too, and ends it."""
    try:
        while True:
            for item in model.inputs(source):
                if item.error is not None:
                    raise item.error
                frames.put(item.value)
                time.sleep(0 if source.startswith("camera") else pause)
    except ArmnetError as problem:
        frames.put(problem)


def look(model: Any, threshold: Optional[float], frames: Newest, scenes: Newest) -> None:
    """Makes a scene of the newest frame, again and again. Raises the camera's problem."""
    number = 0
    while True:
        number, frame = frames.after(number)
        if isinstance(frame, ArmnetError):
            raise frame
        began = time.perf_counter()
        try:
            result = model.predict(frame, threshold=threshold)
        except ArmnetError as problem:  # a broken file among the pictures
            print(f"watch: {problem}", file=sys.stderr)
            continue
        scenes.put(Scene(frame, result, time.perf_counter() - began))


class Answers(BaseHTTPRequestHandler):
    """The page, the pictures as a stream, and what is found as JSON."""

    def __init__(self, scenes: Newest, *arguments: Any):
        self._scenes = scenes
        super().__init__(*arguments)

    def do_GET(self) -> None:
        if self.path == "/":
            self._send("text/html; charset=utf-8", PAGE.read_bytes())
        elif self.path == "/found":
            self._send("application/json", json.dumps(self._scenes.after(0)[1].facts).encode())
        elif self.path == "/live":
            self._stream()
        else:
            self.send_error(404)

    def _send(self, kind: str, content: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(content)

    def _stream(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", f"multipart/x-mixed-replace; boundary={PARTS}")
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        number = 0
        try:
            while True:
                number, scene = self._scenes.after(number)
                head = f"--{PARTS}\r\nContent-Type: image/jpeg\r\nContent-Length: {len(scene.jpeg)}\r\n\r\n"
                self.wfile.write(head.encode() + scene.jpeg + b"\r\n")
        except OSError:
            return  # the page was closed

    def log_message(self, *_: Any) -> None:
        """Nothing: a line for each request would hide the rest."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", help="a pair's folder or a bundle, of a detector or any other network for pictures")
    parser.add_argument("source", help="camera, camera:1, a video, or a folder of pictures that plays a camera")
    parser.add_argument("--score", type=float, metavar="SHARE", help="the least that counts (default: the model's own)")
    parser.add_argument("--pause", type=float, default=1.0, metavar="SECONDS", help="after a picture (default: 1)")
    parser.add_argument("--host", default="127.0.0.1", help="0.0.0.0 lets all your network look (default: 127.0.0.1)")
    parser.add_argument("--port", type=int, default=8000, help="0 takes any that is free (default: 8000)")
    args = parser.parse_args()
    if not args.source.startswith("camera") and not Path(args.source).exists():
        sys.exit(f"watch: {args.source}: no such file or folder")
    frames, scenes = Newest(), Newest()
    try:
        model = runtime_arm.open(args.model)
        server = ThreadingHTTPServer((args.host, args.port), partial(Answers, scenes))
        server.daemon_threads = True
        Thread(target=server.serve_forever, daemon=True).start()
        Thread(target=film, args=(model, args.source, args.pause, frames), daemon=True).start()
        print(f"http://{args.host}:{server.server_port}/", flush=True)
        look(model, args.score, frames, scenes)
    except KeyboardInterrupt:
        pass
    except (ArmnetError, OSError) as problem:
        sys.exit(f"watch: {problem}")


if __name__ == "__main__":
    main()
