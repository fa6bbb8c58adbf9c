"""A tree ensemble as one table of nodes, whichever operator it comes from. No operator is declared here.

``TreeEnsembleClassifier`` and ``TreeEnsembleRegressor`` identify nodes by tree id and node id and give weights to
leaves; ``TreeEnsemble`` (ai.onnx.ml 5) lists inner nodes and leaves separately, by index. Source: the operator docs of
ai.onnx.ml 1, 3 and 5.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Dict, List, Sequence, Tuple

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.records import NamedTuple

LEAF = "LEAF"
MEMBER = "BRANCH_MEMBER"
COMPARISONS = {
    "BRANCH_LEQ": np.less_equal,
    "BRANCH_LT": np.less,
    "BRANCH_GTE": np.greater_equal,
    "BRANCH_GT": np.greater,
    "BRANCH_EQ": np.equal,
    "BRANCH_NEQ": np.not_equal,
}
MODES = (*COMPARISONS, MEMBER, LEAF)
_NUMBER_OF_MODE = {mode: number for number, mode in enumerate(MODES)}
# ai.onnx.ml 5 numbers its modes: LEQ, LT, GTE, GT, EQ, NEQ, MEMBER, in the order of MODES.


class Forest(NamedTuple):
    """The nodes of all trees. Arrays have one element per node, unless stated otherwise.

    ``mode``: an index into ``MODES``. A row x continues at ``on_true`` if ``x[feature] MODE value`` holds, or if
    x[feature] is NaN and ``nan_is_true`` is set; otherwise to ``on_false``. ``roots``: the root of each tree.
    ``members``: for each BRANCH_MEMBER node, the set of values that it tests for. Leaf ``at[i]`` adds ``weight[i]`` to
    target ``target[i]``. ``depth``: the depth of each tree, 0 for a single leaf.
    """

    mode: Array
    feature: Array
    value: Array
    on_true: Array
    on_false: Array
    nan_is_true: Array
    roots: Array
    depth: Array
    members: Dict[int, Array]
    at: Array
    target: Array
    weight: Array

    @property
    def is_leaf(self) -> Array:
        leaf: Array = self.mode == _NUMBER_OF_MODE[LEAF]
        return leaf


def numbers(op: OperatorDef, name: str) -> Array:
    """The floats of attribute ``name``, or its tensor form (``name`` with "_as_tensor"), which may be float64."""
    if op.has(f"{name}_as_tensor"):
        return np.asarray(op.get_tensor(f"{name}_as_tensor")).reshape(-1)
    return np.asarray(op.get_floats(name), np.float32)


def _integers(op: OperatorDef, name: str, count: int) -> Array:
    values = np.asarray(op.get_ints(name), np.int64)
    if values.size != count:
        raise ArgumentError(op, f"{name} needs {count} numbers, got {values.size}")
    return values


@lru_cache(maxsize=8)
def forest_of(op: OperatorDef) -> Forest:
    """The forest of a tree operator. ArgumentError if its attributes do not describe one."""
    return _by_index(op) if op.type == "TreeEnsemble" else _by_id(op)


def _by_id(op: OperatorDef) -> Forest:
    prefix = "class" if op.type == "TreeEnsembleClassifier" else "target"
    names = op.get_strs("nodes_modes")
    count = len(names)
    unknown = sorted(set(names) - {*COMPARISONS, LEAF})
    if unknown or not count:
        raise ArgumentError(op, f"nodes_modes must hold {', '.join([*COMPARISONS, LEAF])}; got {unknown[:1] or 'none'}")
    mode = np.array([_NUMBER_OF_MODE[name] for name in names], np.int8)
    leaf = mode == _NUMBER_OF_MODE[LEAF]
    trees, ids = _integers(op, "nodes_treeids", count), _integers(op, "nodes_nodeids", count)
    places: Dict[Tuple[int, int], int] = {key: at for at, key in enumerate(zip(trees.tolist(), ids.tolist()))}
    if len(places) != count:
        raise ArgumentError(op, "two nodes of one tree have the same id")

    def children(name: str) -> Array:
        below = np.arange(count)
        for at in np.flatnonzero(~leaf):
            key = (int(trees[at]), int(wanted[name][at]))
            if key not in places:
                raise ArgumentError(op, f"{name}: node {int(ids[at])} of tree {key[0]} has no child {key[1]}")
            below[at] = places[key]
        return below

    wanted = {name: _integers(op, name, count) for name in ("nodes_truenodeids", "nodes_falsenodeids")}
    on_true, on_false = children("nodes_truenodeids"), children("nodes_falsenodeids")
    values = numbers(op, "nodes_values")
    if values.size != count:
        raise ArgumentError(op, f"nodes_values needs {count} numbers, got {values.size}")
    weight = numbers(op, f"{prefix}_weights")
    weighted = zip(
        _integers(op, f"{prefix}_treeids", weight.size).tolist(),
        _integers(op, f"{prefix}_nodeids", weight.size).tolist(),
    )
    lost = [key for key in weighted if key not in places]
    if lost:
        raise ArgumentError(op, f"{prefix}_nodeids: tree {lost[0][0]} has no node {lost[0][1]}")
    keys = zip(op.get_ints(f"{prefix}_treeids"), op.get_ints(f"{prefix}_nodeids"))
    at = np.array([places[key] for key in keys], np.int64)
    counted = _counted(op, at)
    _, firsts = np.unique(trees, return_index=True)
    roots = _roots(op, on_true, on_false, leaf, trees.size, np.sort(firsts), trees)
    return Forest(
        mode,
        np.where(leaf, 0, _integers(op, "nodes_featureids", count)),
        values,
        on_true,
        on_false,
        _flags(op, count) & ~leaf,
        roots,
        _depths(op, roots, on_true, on_false, leaf),
        {},
        at[counted],
        _integers(op, f"{prefix}_ids", weight.size)[counted],
        weight[counted],
    )


def _counted(op: OperatorDef, at: Array) -> Array:
    """Which weights of the leaves ``at`` count: all, or, as in onnxruntime, the first of each leaf if there is but one
    target."""
    labels = len(op.get_ints("classlabels_int64s")) + len(op.get_strs("classlabels_strings"))
    if (labels if op.type == "TreeEnsembleClassifier" else op.get_int("n_targets", 1)) != 1:
        return np.arange(at.size)
    return np.sort(np.unique(at, return_index=True)[1])


def _flags(op: OperatorDef, count: int) -> Array:
    given = op.get_ints("nodes_missing_value_tracks_true")
    if len(given) not in (0, count):
        raise ArgumentError(op, f"nodes_missing_value_tracks_true needs {count} numbers, got {len(given)}")
    return np.array(given or [0] * count, np.bool_)


def _roots(
    op: OperatorDef, on_true: Array, on_false: Array, leaf: Array, count: int, firsts: Array, trees: Array
) -> Array:
    """The root of each tree, the only node that is no other's child; in the order in which the trees are listed."""
    child = np.zeros(count, np.int64)
    np.add.at(child, on_true[~leaf], 1)
    np.add.at(child, on_false[~leaf], 1)
    roots = np.flatnonzero(child == 0)
    found, counts = np.unique(trees[roots], return_counts=True)
    if found.size != firsts.size or (counts > 1).any():
        raise ArgumentError(op, "each tree needs exactly one node that is no other's child")
    by_tree = dict(zip(trees[roots].tolist(), roots.tolist()))
    return np.array([by_tree[int(tree)] for tree in trees[firsts]], np.int64)


def _depths(op: OperatorDef, roots: Array, on_true: Array, on_false: Array, leaf: Array) -> Array:
    """The depth of each tree. ArgumentError unless exactly one path leads from its root to each node."""
    depths = np.zeros(roots.size, np.int64)
    seen = np.zeros(leaf.size, np.bool_)
    nodes, tree, depth = roots, np.arange(roots.size), 0
    while nodes.size:
        if seen[nodes].any() or np.unique(nodes).size != nodes.size:
            raise ArgumentError(op, "a node is the child of two nodes, or of itself")
        seen[nodes] = True
        depths[tree] = depth
        inner = ~leaf[nodes]
        nodes, tree = nodes[inner], np.concatenate([tree[inner], tree[inner]])
        nodes, depth = np.concatenate([on_true[nodes], on_false[nodes]]), depth + 1
    if op.type != "TreeEnsemble" and not seen.all():
        raise ArgumentError(op, "a node cannot be reached from its tree's root")
    return depths


def _by_index(op: OperatorDef) -> Forest:
    """Inner nodes keep their indices; a leaf becomes a node of its own for each node that points to it."""
    splits = np.asarray(op.get_tensor("nodes_splits")).reshape(-1)
    modes = np.asarray(op.get_tensor("nodes_modes")).reshape(-1)
    count = splits.size
    weights = np.asarray(op.get_tensor("leaf_weights")).reshape(-1)
    if modes.size != count or not count or (modes > _NUMBER_OF_MODE[MEMBER]).any():
        raise ArgumentError(op, f"nodes_modes must hold {count} numbers from 0 to {_NUMBER_OF_MODE[MEMBER]}")
    leaf_targets = _integers(op, "leaf_targetids", weights.size)
    roots = np.asarray(op.get_ints("tree_roots"), np.int64)
    below: List[Array] = []
    leaves: List[Array] = []
    for side in ("true", "false"):
        ids = _integers(op, f"nodes_{side}nodeids", count)
        to_leaf = _integers(op, f"nodes_{side}leafs", count) != 0
        limit = np.where(to_leaf, weights.size, count)
        if ((ids < 0) | (ids >= limit)).any():
            raise ArgumentError(op, f"nodes_{side}nodeids names a node or leaf that does not exist")
        first = count + sum(part.size for part in leaves)
        leaves.append(ids[to_leaf])
        ids = ids.copy()
        ids[to_leaf] = first + np.arange(leaves[-1].size)
        below.append(ids)
    if roots.size == 0 or ((roots < 0) | (roots >= count)).any():
        raise ArgumentError(op, "tree_roots names a node that does not exist")
    leaf_of = np.concatenate(leaves)
    total = count + leaf_of.size
    mode = np.full(total, _NUMBER_OF_MODE[LEAF], np.int8)
    mode[:count] = modes
    on_true, on_false = np.arange(total), np.arange(total)
    on_true[:count], on_false[:count] = below

    def padded(values: Array) -> Array:
        return np.concatenate([values, np.zeros(leaf_of.size, values.dtype)])

    # Exporters write a tree of a single leaf as a split that decides nothing: both of its children are that leaf.
    leaf = mode == _NUMBER_OF_MODE[LEAF]
    return Forest(
        mode,
        padded(_integers(op, "nodes_featureids", count)),
        padded(splits),
        on_true,
        on_false,
        padded(_flags(op, count)),
        roots,
        _depths(op, roots, on_true, on_false, leaf),
        _members(op, mode[:count]),
        np.arange(count, total),
        leaf_targets[leaf_of],
        weights[leaf_of],
    )


def _members(op: OperatorDef, mode: Array) -> Dict[int, Array]:
    """The sets of the BRANCH_MEMBER nodes: ``membership_values`` lists them one after another, each ended by NaN."""
    nodes = np.flatnonzero(mode == _NUMBER_OF_MODE[MEMBER])
    if not nodes.size:
        return {}
    values = np.asarray(op.get_tensor("membership_values")).reshape(-1)
    ends = np.flatnonzero(np.isnan(values))
    if ends.size < nodes.size:
        raise ArgumentError(op, f"membership_values holds {ends.size} sets, {nodes.size} nodes need one")
    starts = [0, *(ends[:-1] + 1).tolist()]
    return {int(node): values[start:end] for node, start, end in zip(nodes, starts, ends)}


def leaves_reached(forest: Forest, rows: Array) -> Array:
    """The leaf that each row reaches in each tree, (trees, N). ``rows``: (N, features)."""
    reached = np.empty((forest.roots.size, rows.shape[0]), np.int64)
    every = np.arange(rows.shape[0])
    for tree, root in enumerate(forest.roots):
        node = np.full(rows.shape[0], root)
        for _ in range(int(forest.depth[tree])):
            x = rows[every, forest.feature[node]]
            node = np.where(_holds(forest, node, x), forest.on_true[node], forest.on_false[node])
        reached[tree] = node
    return reached


def _holds(forest: Forest, node: Array, x: Array) -> Any:
    """Whether the test of each node holds for its x. For leaves it makes no difference: both children are the leaf."""
    value = forest.value[node]
    holds = forest.nan_is_true[node] & np.isnan(x)
    for number, compare in enumerate(COMPARISONS.values()):
        holds |= (forest.mode[node] == number) & compare(x, value)
    for at in set(node.tolist()) & forest.members.keys():
        holds |= (node == at) & np.isin(x, forest.members[at])
    return holds


# How weights of one target are combined, and what that begins with.
_COMBINED: Dict[str, Tuple[Any, float]] = {
    "SUM": (np.add, 0.0),
    "AVERAGE": (np.add, 0.0),
    "MIN": (np.minimum, np.inf),
    "MAX": (np.maximum, -np.inf),
}


def target_totals(forest: Forest, reached: Array, targets: int, reduce: str) -> Tuple[Array, Array]:
    """The weights of the leaves reached, reduced over the trees; and whether any of the leaves has one for the target.

    Both are (N, targets); the first is float64, and 0 where no leaf has a weight. ``reduce``: SUM, AVERAGE (over all
    trees), MIN or MAX.
    """
    combine, fill = _COMBINED[reduce]
    dense = np.full((forest.mode.size, targets), fill)
    given = np.zeros((forest.mode.size, targets), np.bool_)
    combine.at(dense, (forest.at, forest.target), forest.weight.astype(np.float64))
    given[forest.at, forest.target] = True
    touched: Array = np.any(given[reached], axis=0)
    if reduce in ("MIN", "MAX"):
        return np.where(touched, combine.reduce(dense[reached], axis=0), 0.0), touched
    totals = np.zeros((reached.shape[1], targets))
    for tree in reached:
        totals += dense[tree]
    return (totals / max(forest.roots.size, 1) if reduce == "AVERAGE" else totals), touched


def require_targets(op: OperatorDef, forest: Forest, targets: int, features: int) -> None:
    """ArgumentError if the forest gives weight to targets, or reads features, that do not exist."""
    if forest.target.size and not (forest.target.min() >= 0 and forest.target.max() < targets):
        raise ArgumentError(op, f"a weight is given to target {int(forest.target.max())} of {targets}")
    inner = ~forest.is_leaf
    if inner.any() and not (forest.feature[inner].min() >= 0 and forest.feature[inner].max() < features):
        raise ArgumentError(op, f"feature {int(forest.feature[inner].max())} is read, X has {features}")


def base_values(op: OperatorDef, targets: Sequence[int]) -> Array:
    """``base_values`` as float64. ArgumentError unless their number is one of ``targets``."""
    values = numbers(op, "base_values").astype(np.float64)
    if values.size not in targets:
        raise ArgumentError(op, f"base_values needs {' or '.join(map(str, targets))} numbers, got {values.size}")
    return values
