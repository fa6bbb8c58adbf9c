"""scripts/fuzz_graphs: a short run finds nothing, what is wrong is a finding, and every kind is drawn."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, Dict

import pytest

pytest.importorskip("onnx", reason="it makes the graphs")
pytest.importorskip("onnxruntime", reason="it runs what armnet is compared with")
from scripts.checking import one_model
from scripts.fuzzing.cases import Finding
from scripts.fuzzing.graphs import Graph, Unsuitable, random_graph
from scripts.fuzzing.kinds import KINDS, product
from tests.support.faulty_pairs import with_larger_weights
from tests.support.paths import ROOT, names_of_script

SCRIPT = ROOT / "scripts" / "fuzz_graphs"


@pytest.fixture(scope="module")
def fuzz() -> Dict[str, Any]:
    """The names that the script defines."""
    return names_of_script("fuzz_graphs")


def test_a_short_run_finds_nothing(tmp_path: Path) -> None:
    command = [sys.executable, str(SCRIPT), "--findings", str(tmp_path), "--count", "100"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    first, counts = done.stdout.splitlines()
    assert first == "100 cases of random graphs, from 0 on"
    assert int(counts.split(" ok")[0]) > 85


def test_a_graph_is_always_the_same() -> None:
    graphs = [random_graph(number, KINDS) for number in (1, 2, 1)]
    assert graphs[0] == graphs[2] != graphs[1]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_kind_finds_its_place(kind: Any) -> None:
    grown = 0
    for number in range(100):
        graph = Graph(number)
        graph.input(1, graph.choose(("n", 4, 8, 8), (2, 8, 4), (2, 4)))
        before = len(graph.nodes)
        graph.attempt(kind)
        grown += len(graph.nodes) > before
    assert grown >= 3


def test_what_does_not_fit_leaves_nothing_behind() -> None:
    graph = Graph(0)
    graph.input(1, (2, 3))

    def half(g: Graph) -> None:
        g.emit("Add", [g.value(), g.weight(3)])
        raise Unsuitable

    graph.attempt(half)
    assert not graph.nodes
    assert not graph.weights
    with pytest.raises(Unsuitable):
        graph.emit("Conv", [graph.value(), graph.weight(1, 1, 1, 1)])


def test_wrong_results_are_findings(fuzz: Dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    really = one_model.optimize

    def spoil(pair: Any, **options: Any) -> Any:
        return with_larger_weights(really(pair, **options))

    monkeypatch.setitem(fuzz["run"].__globals__, "KINDS", [product])
    assert fuzz["run"](0) == "ok"
    monkeypatch.setattr(one_model, "optimize", spoil)
    with pytest.raises(Finding, match="wrong_"):
        fuzz["run"](0)


def test_a_finding_is_kept_with_what_it_is_made_of(fuzz: Dict[str, Any], tmp_path: Path) -> None:
    title = fuzz["keep"](3, tmp_path)
    assert (tmp_path / "graph.onnx").read_bytes() == random_graph(3, KINDS).SerializeToString()
    assert title.startswith("of ")
