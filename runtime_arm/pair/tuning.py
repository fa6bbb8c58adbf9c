"""tuning.json: the fastest engines on one machine, for one net and the shapes that were measured.

    {"schema": 2, "armnet": "0.1.0", "predict_net": "SHA-256 of predict_net.pb",
     "machine": {"cpu": "4 x Cortex-A72", "cores": 4, "caches": {...}, "numpy": "1.26.4", "blas": "..."},
     "measurements": [{"shapes": {"data": [1, 3, 224, 224]}, "threads": 4, "workers": "processes",
                       "engines": {"0": "IM2COL,block=524288", "1": "WINOGRAD:f4x4_3x3"},
                       "seconds": {"0": {"IM2COL": 0.0012}, "1": {"IM2COL": 0.0041, "WINOGRAD:f4x4_3x3": 0.0022}},
                       "device": {"spec": "opencl:0", "name": "Mali-G52", "driver": "ARM Platform 3.0",
                                  "operators": [0, 1, 2],
                                  "islands": [{"operators": [0, 1, 2], "device": 0.0031, "processor": 0.0052}]}}]}

Operators are numbered as in predict_net; engines may have hints (see ``registry/engine_preferences.py``). Workers are
processes that split the operators (see ``execution/workers.py``), or the BLAS threads of one process. "device", where a
device was measured: which operators run there, and the seconds of every island. The file is
stored beside the pair; the pair's hashes do not cover it. It is a hint: if it was made for another net, machine, number
of threads or other shapes, or is damaged, it is ignored, with a note.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from runtime_arm.netdef import NetDef
from runtime_arm.pair.metadata import LARGEST
from runtime_arm.pair.tuned import PROCESSES, THREADS, TUNING, UNTUNED, OnDevice, Tuned
from runtime_arm.records import NamedTuple
from runtime_arm.registry.specs import TensorSpec
from runtime_arm.version import VERSION

SCHEMA = 2

Shapes = Mapping[str, Tuple[int, ...]]


class Measurement(NamedTuple):
    """The fastest engine of each operator for inputs of these shapes, the seconds that each engine took, and the faster
    kind of workers."""

    shapes: Shapes
    threads: int
    engines: Mapping[int, str]
    seconds: Mapping[int, Mapping[str, float]]
    workers: str = PROCESSES
    device: Optional[OnDevice] = None

    def to_json(self) -> Dict[str, Any]:
        """The object in tuning.json."""
        content = {**self._asdict(), "shapes": {name: list(shape) for name, shape in self.shapes.items()}}
        device = content.pop("device")
        return content if device is None else {**content, "device": device.to_json()}


class Tuning(NamedTuple):
    """The measurements of one net on one machine. ``problem``: why the file could not be read."""

    net: str
    machine: Mapping[str, Any]
    measurements: Tuple[Measurement, ...]
    problem: str = ""

    def to_bytes(self) -> bytes:
        """The content of tuning.json."""
        content = {
            "schema": SCHEMA,
            "armnet": VERSION,
            "predict_net": self.net,
            "machine": dict(self.machine),
            "measurements": [one.to_json() for one in self.measurements],
        }
        return json.dumps(content, indent=1).encode()

    def why_stale(self, net: NetDef, machine: Mapping[str, Any]) -> Optional[str]:
        """The reason why it does not hold for this net on this machine, or None if it does."""
        if self.problem:
            return self.problem
        if self.net != net_hash(net):
            return "it was measured for another net"
        changed = [key for key in {**self.machine, **machine} if self.machine.get(key) != machine.get(key)]
        if changed:
            before, now = self.machine.get(changed[0]), machine.get(changed[0])
            return f"it was measured on another machine ({changed[0]} was {before}, is {now})"
        return None

    def find(self, shapes: Shapes, threads: int) -> Optional[Measurement]:
        """The measurement for these shapes, of inputs and possibly other blobs, and this number of threads."""
        fitting = (one for one in self.measurements if one.threads == threads and one.shapes.items() <= shapes.items())
        return next(fitting, None)

    def with_measurement(self, new: Measurement) -> Tuning:
        """The tuning with another measurement, which replaces one for the same shapes and threads."""
        kept = [one for one in self.measurements if (one.shapes, one.threads) != (new.shapes, new.threads)]
        return Tuning(self.net, self.machine, (*kept, new))


class Tunings:
    """How to run a net on this machine with this number of threads; ``notes`` say why measurements are ignored."""

    def __init__(self, tuning: Optional[Tuning], net: NetDef, threads: int):
        self.notes: List[str] = []
        self._threads = threads
        self._tuning = tuning
        reason = tuning.why_stale(net, fingerprint()) if tuning is not None else None
        if reason is not None:
            self._ignore(reason)
            self._tuning = None

    def of(self, specs: Mapping[str, TensorSpec]) -> Tuned:
        """What was measured for inputs of these specs, or UNTUNED."""
        if self._tuning is None:
            return UNTUNED
        shapes = {name: spec.shape for name, spec in specs.items()}
        found = self._tuning.find(shapes, self._threads)
        if found is None:
            given = ", ".join(f"{name} {list(shape)}" for name, shape in shapes.items())
            self._ignore(f"nothing was measured for {given} with threads={self._threads}")
            return UNTUNED
        return Tuned(found.engines, found.workers, found.device)

    def _ignore(self, reason: str) -> None:
        note = f"{TUNING} is ignored: {reason}; armnet optimize --engines measure renews it"
        if note not in self.notes:
            self.notes.append(note)


def fingerprint() -> Dict[str, Any]:
    """The properties on which the speed of engines depends: CPU, caches, NumPy and its BLAS."""
    from runtime_arm.machine.identity import identity

    found = identity()
    blas = found["blas"] or {}
    return {
        "cpu": f"{found['cpu']} ({found['machine']})",
        "cores": found["cores"],
        "caches": found["caches"],
        "numpy": found["numpy"],
        "blas": " ".join(filter(None, (blas.get("config") or blas.get("name"), blas.get("core")))),
    }


def net_hash(net: NetDef) -> str:
    """The SHA-256 of the net's file."""
    return hashlib.sha256(net.to_bytes()).hexdigest()


def parse_tuning(data: memoryview) -> Tuning:
    """The content of a tuning.json. One that cannot be read has only a ``problem``."""
    try:
        if len(data) > LARGEST:
            raise ValueError(f"{len(data)} bytes are too many")
        return _parsed(json.loads(bytes(data).decode("utf-8")))
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        return Tuning("", {}, (), f"it is damaged ({type(error).__name__}: {error})")


def _parsed(content: Any) -> Tuning:
    if content["schema"] != SCHEMA:
        raise ValueError(f"schema {content['schema']!r} is not the {SCHEMA} that armnet {VERSION} reads")
    measurements = tuple(map(_measurement, content["measurements"]))
    return Tuning(str(content["predict_net"]), dict(content["machine"]), measurements)


def _measurement(content: Any) -> Measurement:
    shapes = {str(name): _sizes(shape) for name, shape in content["shapes"].items()}
    engines = {int(index): str(engine) for index, engine in content["engines"].items()}
    seconds = {
        int(index): {str(engine): float(taken) for engine, taken in each.items()}
        for index, each in content["seconds"].items()
    }
    workers = content["workers"]
    if workers not in (PROCESSES, THREADS):
        raise ValueError(f"workers must be {PROCESSES} or {THREADS}, got {workers!r}")
    device = _on_device(content["device"]) if "device" in content else None
    return Measurement(shapes, int(content["threads"]), engines, seconds, workers, device)


def _on_device(content: Any) -> OnDevice:
    islands = tuple(
        {"operators": list(_sizes(one["operators"])), **{side: float(one[side]) for side in ("device", "processor")}}
        for one in content["islands"]
    )
    spec, name, driver = (str(content[key]) for key in ("spec", "name", "driver"))
    return OnDevice(spec, name, driver, _sizes(content["operators"]), islands)


def _sizes(shape: Sequence[Any]) -> Tuple[int, ...]:
    return tuple(int(size) for size in shape)
