"""Trees."""

from __future__ import annotations

from typing import Any, Dict, Iterator

import numpy as np

from device_tests.host.golden_cases.case import Case, case

STUMPS: Dict[str, Any] = {  # two trees of three nodes each
    "nodes_treeids": [0, 0, 0, 1, 1, 1],
    "nodes_nodeids": [0, 1, 2, 0, 1, 2],
    "nodes_featureids": [0, 0, 0, 2, 0, 0],
    "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF", "BRANCH_LT", "LEAF", "LEAF"],
    "nodes_values": [0.0, 0.0, 0.0, 0.5, 0.0, 0.0],
    "nodes_truenodeids": [1, 0, 0, 1, 0, 0],
    "nodes_falsenodeids": [2, 0, 0, 2, 0, 0],
}


LEAVES: Dict[str, Any] = {"treeids": [0, 0, 1, 1], "nodeids": [1, 2, 1, 2], "ids": [0] * 4, "weights": [0.5, 1, 2, 4]}


def tabular() -> Iterator[Case]:
    for prefix, type, outputs in (("target", "TreeEnsembleRegressor", 1), ("class", "TreeEnsembleClassifier", 2)):
        leaves = {f"{prefix}_{name}": [float(x) for x in v] if name == "weights" else v for name, v in LEAVES.items()}
        labels = {"classlabels_int64s": [3, 7]} if outputs == 2 else {}
        yield from case(type, "9x3", domain="ai.onnx.ml", outputs=outputs, **STUMPS, **leaves, **labels)
    yield from case(
        "TreeEnsemble",
        "9x3",
        domain="ai.onnx.ml",
        tree_roots=[0],
        nodes_featureids=[1],
        nodes_splits=np.array([0.25], np.float32),
        nodes_modes=np.array([0], np.uint8),
        nodes_truenodeids=[0],
        nodes_falsenodeids=[1],
        nodes_trueleafs=[1],
        nodes_falseleafs=[1],
        leaf_targetids=[0, 0],
        leaf_weights=np.array([1.5, -2.5], np.float32),
    )
