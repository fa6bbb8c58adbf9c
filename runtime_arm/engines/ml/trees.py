"""LEVELS: all rows descend all trees at once, one level at a time.

All nodes are in one table, with the two children of a node side by side. One level of a block of trees is then

    index = feature[node] * N + row              # X is transposed, (features + 1, N)
    holds = X[index] <= value[node]              # or the node's own comparison
    node  = other[node] + holds                  # other: the child for "no"; the one for "yes" follows it

over arrays (trees, N). A leaf leads back to itself: it reads the row of zeros after X's last feature, so that the
result of its comparison is known in advance. Trees are sorted by depth, the deepest first; a level handles only the
trees that are deep enough. A block has as many trees as fit in the second-level cache with their arrays.

Sums: if each tree gives weight to one target alone, the leaf weights of a block, (trees, N), are multiplied by a matrix
(targets, trees) of zeros and ones. Otherwise rows (targets) of a table are added, tree by tree.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, List, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.machine.caches import usual_block_nbytes
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.ml.forest import COMPARISONS, MODES, Forest, forest_of, numbers
from runtime_arm.operators.ml.scores import labels_of
from runtime_arm.operators.ml.trees import (
    aggregate_of,
    classified,
    regressed,
    tree_ensemble,
    tree_ensemble_classifier,
    tree_ensemble_regressor,
)
from runtime_arm.records import NamedTuple
from runtime_arm.registry.kernel import Call, Run, Specs
from runtime_arm.registry.specs import TensorSpec


class Table(NamedTuple):
    """The forest in the form described above. Arrays have one element per node; ``depth`` and ``target`` one per tree.

    ``weights``: (nodes,), for the target of the node's tree; or (nodes, targets) if a tree has several targets, in
    which case ``target`` is None. The deepest tree is the first.
    """

    feature: Array
    value: Array
    mode: Array
    other: Array
    nan_is_true: Array
    weights: Array
    depth: Array
    target: Optional[Array]


@lru_cache(maxsize=8)
def table_of(op: OperatorDef, features: int) -> Table:
    """The table of an operator's forest: the roots, then the children level by level, "no" before "yes"."""
    forest, targets = forest_of(op), _targets(op)
    order = np.argsort(-forest.depth, kind="stable")
    nodes, tree = forest.roots[order], np.arange(order.size)
    origin, tree_of, other, total = [nodes], [tree], [], nodes.size
    is_leaf = forest.is_leaf
    while nodes.size:
        inner = ~is_leaf[nodes]
        first = np.full(nodes.size, -1)
        first[inner] = total + 2 * np.arange(inner.sum())
        other.append(first)
        parents = nodes[inner]
        nodes = np.stack([forest.on_false[parents], forest.on_true[parents]], axis=1).reshape(-1)
        tree = np.repeat(tree[inner], 2)
        origin.append(nodes)
        tree_of.append(tree)
        total += nodes.size
    at, trees, below = np.concatenate(origin), np.concatenate(tree_of), np.concatenate(other)
    leaf = is_leaf[at]
    compare = _only_comparison(forest)
    holds = True if compare is None else bool(compare(0, 1))
    weights, target = _weights(forest, at, trees, targets)
    return Table(
        np.where(leaf, features, forest.feature[at]).astype(np.intp),
        np.where(leaf, 1, forest.value[at]).astype(forest.value.dtype),
        np.where(leaf, 0, forest.mode[at]).astype(np.int8),
        np.where(leaf, np.arange(at.size) - holds, below).astype(np.intp),
        forest.nan_is_true[at],
        weights,
        forest.depth[order],
        target,
    )


def _only_comparison(forest: Forest) -> Any:
    """The comparison that all nodes make, or None."""
    modes = _modes(forest)
    return COMPARISONS[MODES[modes[0]]] if len(modes) == 1 else None


def _modes(forest: Forest) -> List[int]:
    return [int(number) for number in np.unique(forest.mode[~forest.is_leaf])] or [0]


def _weights(forest: Forest, at: Array, trees: Array, targets: int) -> Tuple[Array, Optional[Array]]:
    """The ``weights`` and the ``target`` of ``Table``."""
    dense = np.zeros((forest.mode.size, targets), forest.weight.dtype)
    np.add.at(dense, (forest.at, forest.target), forest.weight)
    used = np.zeros((forest.roots.size, targets), np.bool_)
    given = np.zeros(dense.shape, np.bool_)
    given[forest.at, forest.target] = True
    np.logical_or.at(used, trees, given[at])
    if (used.sum(axis=1) > 1).any():
        return dense[at], None
    target = used.argmax(axis=1)
    return dense[at, target[trees]], target


def _surely_scored(forest: Forest, targets: int) -> bool:
    """Whether every row surely gets a weight for every target: each target has a tree whose leaves all have one."""
    tree_of = np.zeros(forest.mode.size, np.int64)
    nodes, tree = forest.roots, np.arange(forest.roots.size)
    while nodes.size:
        tree_of[nodes] = tree
        inner = ~forest.is_leaf[nodes]
        parents = nodes[inner]
        nodes, tree = np.concatenate([forest.on_true[parents], forest.on_false[parents]]), np.tile(tree[inner], 2)
    given = np.zeros((forest.mode.size, targets), np.bool_)
    given[forest.at, forest.target] = True
    leaves = np.zeros((forest.roots.size, targets), np.int64)
    np.add.at(leaves, tree_of[forest.is_leaf], given[forest.is_leaf])
    return bool((leaves == np.bincount(tree_of[forest.is_leaf])[:, None]).any(axis=0).all())


def _targets(op: OperatorDef) -> int:
    if op.type == "TreeEnsembleClassifier":
        return int(labels_of(op, "classlabels_int64s").size)
    return op.get_int("n_targets", 1)


def supports(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
    """Accepts sums and averages over trees whose tests are comparisons."""
    forest = forest_of(op)
    if aggregate_of(op) in ("MIN", "MAX"):
        return "takes sums and averages alone"
    if forest.members:
        return "takes no set membership"
    targets, bases = _targets(op), numbers(op, "base_values").size
    several = np.unique(forest.target).size > 1 or targets > 2 or bases > 1
    needed = targets if several else int(bases > 0 and not forest.target.any())
    if op.type == "TreeEnsembleClassifier" and needed and not _surely_scored(forest, needed):
        return "a row may end without a score for some class"
    return None


_NBYTES = 40  # per row and tree: node, index, x, value, weight, flags


def _cut(rows: int, trees: int) -> Tuple[int, int]:
    """The numbers of rows and trees in a block: all rows and the trees that fit, or one tree and the rows that fit."""
    most = max(usual_block_nbytes() // _NBYTES, 256)
    step = max(min(rows, most), 1)
    return step, max(min(trees, most // step), 1)


def scratch(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Sequence[TensorSpec]:
    """Node and index; x and value; flags; modes; X transposed; where X is NaN; leaf weights; sums."""
    (x,) = inputs
    assert x is not None
    table, targets = table_of(op, x.shape[1]), _targets(op)
    rows, trees = _cut(x.shape[0], table.depth.size)
    size, width, dtype, weight = rows * trees, x.shape[1] + 1, table.value.dtype, table.weights.dtype
    return [
        TensorSpec((2, size), np.intp),
        TensorSpec((2, size), dtype),
        TensorSpec((3, size), np.bool_),
        TensorSpec((size,), np.int8),
        TensorSpec((width * rows,), dtype),
        TensorSpec((width * rows,), np.bool_),
        TensorSpec((size * (targets if table.target is None else 1),), weight),
        TensorSpec((2, rows * targets), weight),
    ]


class Descent:
    """Takes the rows of one block of X down all trees."""

    def __init__(self, call: Call, first: int, last: int):
        table, features = table_of(call.op, call.inputs[0].shape[1]), call.inputs[0].shape[1]
        self.table, count = table, last - first
        self.x, self.rows = call.inputs[0][first:last], slice(first, last)
        _, most = _cut(call.inputs[0].shape[0], table.depth.size)
        self.turned = call.scratch[4][: (features + 1) * count].reshape(features + 1, count)
        self.missing = call.scratch[5][: (features + 1) * count].reshape(features + 1, count)
        self.columns = np.arange(count, dtype=np.intp)
        self.offset = table.feature * count
        shape = (count, _targets(call.op)) if table.target is None else (_targets(call.op), count)
        self.totals, self.more = (part[: count * _targets(call.op)].reshape(shape) for part in call.scratch[7])
        forest = forest_of(call.op)
        self.comparisons = [(mode, COMPARISONS[MODES[mode]]) for mode in _modes(forest)]
        if len(self.comparisons) > 1 and self.comparisons[0][0]:
            self.comparisons.insert(0, (0, np.less_equal))  # the comparison of leaves
        self.follows_missing = bool(table.nan_is_true.any())
        starts = range(0, table.depth.size, most)
        self.blocks = [self._block(call, start, min(start + most, table.depth.size)) for start in starts]

    def _block(self, call: Call, first: int, last: int) -> Tuple[Any, ...]:
        """The roots, the array of nodes, the arrays of each level, the array of leaf weights, the matrix or None."""
        table, trees, rows = self.table, last - first, self.columns.size
        flat = [*call.scratch[0], *call.scratch[1], *call.scratch[2], call.scratch[3]]
        whole = [part[: trees * rows].reshape(trees, rows) for part in flat]
        deep = [int((table.depth[first:last] > level).sum()) for level in range(int(table.depth[first]))]
        levels = [tuple(part[:count] for part in whole) for count in deep]
        roots = np.arange(first, last, dtype=np.intp)[:, None]
        if table.target is None:
            reached = call.scratch[6][: trees * rows * self.more.shape[1]].reshape(trees, rows, -1)
            return roots, whole[0], levels, reached, None
        matrix = (np.arange(self.more.shape[0])[:, None] == table.target[first:last]).astype(table.weights.dtype)
        return roots, whole[0], levels, call.scratch[6][: trees * rows].reshape(trees, rows), matrix

    def run(self) -> Array:
        """The totals of these rows, (rows, targets). The next run overwrites them."""
        np.copyto(self.turned[:-1], self.x.T)
        self.turned[-1] = 0
        missing = self.follows_missing and bool(np.isnan(self.turned, out=self.missing).any())
        self.totals[...] = 0
        for roots, node, levels, reached, matrix in self.blocks:
            np.copyto(node, roots)
            for level in levels:
                self._descend(level, missing)
            np.take(self.table.weights, node, axis=0, out=reached, mode="clip")
            if matrix is None:
                np.add.reduce(reached, axis=0, out=self.more)
            else:
                np.matmul(matrix, reached, out=self.more)
            np.add(self.totals, self.more, out=self.totals)
        totals: Array = self.totals if self.table.target is None else self.totals.T
        return totals

    def _descend(self, level: Tuple[Array, ...], missing: bool) -> None:
        """Goes down one level: each node is replaced by the child that its test selects."""
        node, index, x, value, holds, flag, other, mode = level
        table = self.table
        np.take(self.offset, node, out=index, mode="clip")
        np.add(index, self.columns, out=index)
        np.take(self.turned.reshape(-1), index, out=x, mode="clip")
        np.take(table.value, node, out=value, mode="clip")
        if len(self.comparisons) == 1:
            self.comparisons[0][1](x, value, out=holds)
        else:
            np.take(table.mode, node, out=mode, mode="clip")
            holds[...] = False
            for number, compare in self.comparisons:
                compare(x, value, out=flag)
                np.equal(mode, number, out=other)
                np.logical_and(flag, other, out=flag)
                np.logical_or(holds, flag, out=holds)
        if missing:
            np.take(table.nan_is_true, node, out=flag, mode="clip")
            np.isnan(x, out=other)
            np.logical_and(flag, other, out=flag)
            np.logical_or(holds, flag, out=holds)
        np.take(table.other, node, out=index, mode="clip")
        np.add(index, holds, out=node)


def _descents(call: Call) -> List[Descent]:
    rows = call.inputs[0].shape[0]
    step, _ = _cut(rows, table_of(call.op, call.inputs[0].shape[1]).depth.size)
    return [Descent(call, first, min(first + step, rows)) for first in range(0, rows, step)]


@tree_ensemble.kernel("LEVELS", supports=supports, scratch=scratch)
@tree_ensemble_regressor.kernel("LEVELS", supports=supports, scratch=scratch)
def regressor(call: Call) -> Run:
    descents, y, op = _descents(call), call.outputs[0], call.op
    divisor = forest_of(op).roots.size if aggregate_of(op) == "AVERAGE" else 1

    def run() -> None:
        for descent in descents:
            totals = descent.run()
            if divisor > 1:
                np.divide(totals, divisor, out=totals)
            y[descent.rows] = regressed(op, totals)

    return run


@tree_ensemble_classifier.kernel("LEVELS", supports=supports, scratch=scratch)
def classifier(call: Call) -> Run:
    descents, (labels, scores), op = _descents(call), call.outputs, call.op
    forest = forest_of(op)

    def run() -> None:
        for descent in descents:
            totals = descent.run()
            labels[descent.rows], scores[descent.rows] = classified(op, forest, totals, np.ones(1, np.bool_))

    return run
