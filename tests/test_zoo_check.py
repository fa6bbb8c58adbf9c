"""scripts/zoo_check checks what PyTorch's exporters write, keeps what is not good, and goes on where it was stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, List

import pytest

from scripts.checking.isolated import Limits, read_rows
from scripts.zoo.page import page
from scripts.zoo.pictures import SMALLER
from tests.support.paths import DEMO, names_of_script

SMALL, BAD, REMARKED = "timm/good small", "timm/odd odd_tiny", "timm/near near_tiny"


@pytest.fixture(scope="module")
def script() -> Dict[str, Any]:
    """The names that the script defines."""
    return names_of_script("zoo_check")


def test_what_is_exported_is_checked_once(
    script: Dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In place of PyTorch: "script" writes a model, or a file that is none; "dynamo" refuses."""
    pytest.importorskip("onnxruntime", reason="the models are compared with onnxruntime")
    asked: List[str] = []

    def exported(network: Any, exporters: List[str], place: Path, limits: Any) -> Dict[str, str]:
        asked.append(network.name)
        place.mkdir(parents=True, exist_ok=True)
        good = network.name == "small"
        (place / "script.onnx").write_bytes((DEMO / "digits.onnx").read_bytes() if good else b"no model")
        return {name: "" if name == "script" else "RuntimeError: no such operator | at all" for name in exporters}

    monkeypatch.setitem(script["check_network"].__globals__, "exported", exported)
    monkeypatch.setitem(SMALLER, "small", (8, 16))
    networks = [script["Network"]("timm/good", "small", 1.0, 5), script["Network"]("timm/odd", "odd_tiny", 2.0, 3)]
    rows: Dict[str, Any] = {}
    for again in ([], [], ["refused"]):
        for network in networks:
            script["check_network"](network, ["script", "dynamo"], tmp_path, rows, again, Limits(300, 8))
    assert asked == ["small", "odd_tiny", "odd_tiny"]
    assert {name: row["outcome"] for name, row in rows.items()} == {
        f"{SMALL} script": "ok",
        f"{SMALL} dynamo": "not exported",
        f"{BAD} script": "refused",
        f"{BAD} dynamo": "not exported",
    }
    assert rows[f"{SMALL} script"]["remark"] == "on a picture of 8 x 8, it is made for 16 x 16"
    assert [path.name for path in sorted(tmp_path.rglob("*.onnx*"))] == ["script.onnx"]
    kept = read_rows(tmp_path / "models.csv")
    assert {name: row["commit"] for name, row in kept.items()} == dict.fromkeys(rows, script["commit"]())


def test_the_page_counts_and_lists_what_is_not_good() -> None:
    rows = {
        f"{SMALL} script": {"outcome": "ok", "remark": "", "commit": "0a1b2c3"},
        f"{SMALL} dynamo": {"outcome": "not exported", "remark": "no such operator | at all"},
        f"{BAD} dynamo": {"outcome": "ok", "remark": "", "commit": "4d5e6f7"},
        f"{REMARKED} script": {"outcome": "ok", "remark": "a|b", "commit": ""},
    }
    text = page(rows, ["timm/good", "timm/odd", "timm/late"], "2026-01-02")
    assert "shows the results up to 2026-01-02.\n3 of 4 families were tried." in text
    assert "| exporter | not exported | ok |" in text
    assert "| dynamo | 1 | 1 |" in text
    assert "| script | 0 | 2 |" in text
    assert f"| network | exporter | ok, with a remark |\n|---|---|---|\n| {REMARKED} | script | a\\|b |\n" in text
    assert f"| {SMALL} | dynamo | not exported | no such operator \\| at all |" in text
    assert f"| {BAD} |" not in text
    assert "Ok by dynamo and script: none." in text
    assert "Ok only with dynamo: timm/odd." in text
    assert "Ok only with script: timm/good, timm/near." in text
    assert "Not tried: timm/late." in text
    assert "By the code of 0a1b2c3: timm/good.\n\nBy the code of 4d5e6f7: timm/odd.\n" in text
