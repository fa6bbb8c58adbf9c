"""Random tree ensembles, as attributes of the operators of ai.onnx.ml."""

from __future__ import annotations

from itertools import count
from typing import Any, Dict, List, Sequence, Tuple

import numpy as np

EVERY_MODE = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
_NODES = "treeids nodeids featureids modes values truenodeids falsenodeids missing_value_tracks_true"


def forest(
    random: np.random.RandomState,
    prefix: str,
    targets: int,
    *,
    trees: int = 3,
    depth: int = 4,
    features: int = 5,
    modes: Sequence[str] = ("BRANCH_LEQ",),
    missing: bool = False,
    one_target: bool = False,
) -> Dict[str, Any]:
    """Attributes of a random ensemble; ``prefix`` is "class" or "target".

    Every leaf has weights for all targets; with ``one_target`` only for the target of its tree. Thresholds have one
    decimal, so that rows with one decimal can equal them. ``missing``: NaN takes the true branch at some nodes.
    """
    nodes: Dict[str, List[Any]] = {name: [] for name in _NODES.split()}
    weights: Dict[str, List[Any]] = {name: [] for name in ("treeids", "nodeids", "ids", "weights")}
    for tree in range(trees):
        ids = count()
        pending: List[Tuple[int, int]] = [(next(ids), 0)]
        while pending:
            node, level = pending.pop()
            leaf = level == depth or (level > 0 and random.rand() < 0.2)
            below = (0, 0) if leaf else (next(ids), next(ids))
            pending += [] if leaf else [(child, level + 1) for child in below]
            mode = "LEAF" if leaf else modes[random.randint(len(modes))]
            value = float(np.float32(round(random.randn(), 1)))
            row = (tree, node, random.randint(features), mode, value, *below, int(missing and random.rand() < 0.5))
            for column, entry in zip(nodes.values(), row):
                column.append(entry)
            for target in [tree % targets] if one_target else range(targets):
                if leaf:
                    for column, entry in zip(weights.values(), (tree, node, target, float(np.float32(random.randn())))):
                        column.append(entry)
    if not missing:
        del nodes["missing_value_tracks_true"]
    return {
        **{f"nodes_{name}": v for name, v in nodes.items()},
        **{f"{prefix}_{name}": v for name, v in weights.items()},
    }


def rows(random: np.random.RandomState, number: int, features: int = 5, missing: bool = False) -> Any:
    """(number, features) float32 with one decimal; with ``missing``, some values are NaN."""
    x = random.randn(number, features).round(1).astype(np.float32)
    if missing:
        x[random.rand(*x.shape) < 0.2] = np.nan
    return x
