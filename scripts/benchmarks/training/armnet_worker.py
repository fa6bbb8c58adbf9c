"""``python -m scripts.benchmarks.training.armnet_worker FOLDER``: training steps of the pair in FOLDER/pair."""

from __future__ import annotations

import sys

import numpy as np

from scripts.benchmarks.training.worker import MOMENTUM, RATE, serve
from training import Trainer
from training.solvers import SGD


def main(folder: str) -> None:
    feeds = dict(np.load(f"{folder}/batch.npz"))
    trainer = Trainer(f"{folder}/pair", loss="softmax", labels="label", solver=SGD(rate=RATE, momentum=MOMENTUM))
    serve(lambda: trainer.step(feeds))


if __name__ == "__main__":
    main(sys.argv[1])
