"""What runs on a target, with the runtime beside it: answers the inputs in ``in.npz``, writes ``out.npz``.

    python3 answer.py COUNT THREADS

Arrays have the names PLACE|NAME: the place of the example, and the input's or output's name; samples of a sound have
the name WAVE. Prints {place: why it could not be answered}, JSON.
"""

from __future__ import annotations

import json
import sys
from typing import Any, Dict, Mapping

import numpy as np

NETWORK, INPUTS, OUTPUTS, WAVE = "network", "in.npz", "out.npz", "wave"


def by_place(arrays: Mapping[str, Any]) -> Dict[int, Dict[str, Any]]:
    """The arrays of each example by name."""
    found: Dict[int, Dict[str, Any]] = {}
    for key, array in arrays.items():
        place, _, name = key.partition("|")
        found.setdefault(int(place), {})[name] = array
    return found


def main(count: int, threads: int) -> None:
    """Answers the examples one after the other."""
    import runtime_arm
    from runtime_arm.app.outputs import plain
    from runtime_arm.app.sounds import answer_windows
    from runtime_arm.errors import ArmnetError

    outputs: Dict[str, Any] = {}
    errors: Dict[str, str] = {}
    with np.load(INPUTS) as archive:
        given = by_place({key: archive[key] for key in archive.files})
    with runtime_arm.open(NETWORK, threads=threads or None, notice=lambda text: None) as model:
        for place in range(count):
            try:
                sound = "sound" in model.entry and set(given[place]) == {WAVE}
                found = answer_windows(model, given[place][WAVE]) if sound else model.run(given[place])
            except ArmnetError as error:
                errors[str(place)] = str(error)
                continue
            outputs.update({f"{place}|{name}": plain(value) for name, value in found.items()})
    np.savez(OUTPUTS, **outputs)
    print(json.dumps(errors))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
