"""What runs on a target, with the runtime beside it: computes features, or trains a head.

    python3 teach.py features THREADS ENTRY     ENTRY: JSON, how sounds are heard and by which decoder
    python3 teach.py head CLASSES EPOCHS SEED

It reads ``in.npz`` and writes ``out.npz``. Inputs have the names FILE|VIEW|NAME, features FILE|NAME; samples of a sound
have the name WAVE.
"""

from __future__ import annotations

import json
import sys
from typing import Any, Dict, List

import numpy as np

NETWORK, INPUTS, OUTPUTS, WAVE = "network", "in.npz", "out.npz", "wave"


def features(threads: int, entry: Dict[str, Any]) -> Dict[str, Any]:
    """The features of all views of every file."""
    from runtime_arm.app.model import Model
    from runtime_arm.app.teaching.features import heard, seen
    from runtime_arm.pair.pair import Pair
    from runtime_arm.results.decoders import decoder_of

    files: Dict[str, Dict[str, Dict[str, Any]]] = {}
    with np.load(INPUTS) as archive:
        for key in archive.files:
            file, view, name = key.split("|", 2)
            files.setdefault(file, {}).setdefault(view, {})[name] = archive[key]
    found: Dict[str, Any] = {}
    with Model(Pair.load(NETWORK), task="tensors", threads=threads or None, notice=lambda text: None) as runner:
        for file, views in files.items():
            shown: List[Any] = [views[view] for view in sorted(views, key=int)]
            if entry["sound"]:
                outputs = heard(runner, entry["sound"], decoder_of(entry["decoder"]), shown[0][WAVE])
            else:
                outputs = seen(runner, shown)
            found.update({f"{file}|{name}": values for name, values in outputs.items()})
    return found


def head(classes: int, epochs: int, seed: int) -> Dict[str, Any]:
    """Weights, bias and epochs of a head."""
    from runtime_arm.app.teaching.head import train_head

    with np.load(INPUTS) as archive:
        given = {name: archive[name] for name in archive.files}
    apart = given["held"], given["wanted"]
    made = train_head(given["x"], given["labels"], apart, classes, epochs=epochs, seed=seed)
    return {"weights": made.weights, "bias": made.bias, "epochs": np.array(made.epochs, np.float64)}


def main(words: List[str]) -> None:
    """Does what the arguments say."""
    if words[0] == "features":
        found = features(int(words[1]), json.loads(words[2]))
    else:
        classes, epochs, seed = (int(word) for word in words[1:])
        found = head(classes, epochs, seed)
    np.savez(OUTPUTS, **found)


if __name__ == "__main__":
    main(sys.argv[1:])
