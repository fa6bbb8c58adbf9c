"""The report page is complete, safe and self-contained; its timeline is right."""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path
from typing import Dict, List, Optional, Tuple

import numpy as np
import pytest

from armnet.__main__ import main
from armnet.page.elements import LONGEST, named, shortened, text
from armnet.page.graph import Edge, Node, nodes_of, picture
from armnet.page.graph import _laid_out as laid_out
from armnet.page.timeline import timeline
from runtime_arm.execution.executor import Executor
from runtime_arm.netdef import NetDef
from runtime_arm.pair.fills import fill
from runtime_arm.pair.metadata import TensorInfo
from runtime_arm.pair.pair import Pair
from tests.support.chromium import chromium, program

VOID = {"meta", "input"}
HOSTILE = '<script>alert(\'x\')</script>"&\u202e\x00 onload="x"'
NET = """
    net "net": x, w -> y
    Conv(x, w) -> a  kernel=3  pad=1
    Relu(a) -> b
    Split(b) -> c, d  axis=1
    Sigmoid(c) -> e
    Concat(d, e) -> f, _  axis=1
    Add(b, f) -> y
"""


class Page(HTMLParser):
    """The tags of a page with their attributes, and whether every tag is closed."""

    def __init__(self, page: str):
        super().__init__()
        self.tags: List[Tuple[str, Dict[str, Optional[str]]]] = []
        self.open: List[str] = []
        self.words: List[str] = []
        self.feed(page)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: List[Tuple[str, Optional[str]]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: List[Tuple[str, Optional[str]]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    def count(self, tag: str) -> int:
        return sum(name == tag for name, _ in self.tags)


def saved(folder: Path, names: Dict[str, str]) -> Path:
    """Saves the pair of NET with some blobs renamed, and returns its folder."""
    net = NetDef.from_text(NET)
    ops = [
        op.replace(
            input=tuple(names.get(name, name) for name in op.input),
            output=tuple(names.get(name, name) for name in op.output),
        )
        for op in net.op
    ]
    given = tuple(names.get(name, name) for name in net.external_input)
    weights = fill("w", np.ones((8, 4, 3, 3), np.float32))
    info = TensorInfo(names.get("x", "x"), (1, 4, 16, 16), "float32")
    Pair(NetDef("init", (weights,)), net.replace(op=tuple(ops), external_input=given), (info,)).save(folder / "pair")
    return folder / "pair"


def page_of(folder: Path, names: Optional[Dict[str, str]] = None) -> str:
    pair = saved(folder, names or {})
    assert main(["inspect", str(pair), "--html", str(folder / "page.html")]) == 0
    return (folder / "page.html").read_text("utf-8")


def test_the_page_is_complete_and_self_contained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = page_of(tmp_path)
    page = Page(content)
    assert capsys.readouterr().out == ""
    assert page.count("svg") == 2
    assert page.count("circle") == 1 + len(NetDef.from_text(NET).op)
    assert {"Conv", "Relu", "Concat"} <= set(page.words)
    assert not {"link", "img", "iframe"} & {tag for tag, _ in page.tags}
    assert page.count("script") == 1
    assert not any(name.startswith("on") or name in ("src", "href") for _, attrs in page.tags for name in attrs)
    assert "http" not in content.replace("http-equiv", "")
    policies = [attrs["content"] for _, attrs in page.tags if attrs.get("http-equiv") == "Content-Security-Policy"]
    digest = b64encode(sha256(content.partition("<script>")[2].partition("</script>")[0].encode()).digest()).decode()
    assert policies == [f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"]


def test_names_cannot_escape_into_the_page(tmp_path: Path) -> None:
    content = page_of(tmp_path, {name: f"{name}{HOSTILE}" for name in "xabdf"})
    page = Page(content)
    assert {tag for tag, _ in page.tags} == {tag for tag, _ in Page(page_of(tmp_path)).tags}
    assert not any(name.startswith("on") for _, attrs in page.tags for name in attrs)
    assert "\u202e" not in content
    assert "\x00" not in content
    assert "a<script>alert('x')</script>" in "".join(page.words)


def test_long_names_are_shortened_in_the_middle() -> None:
    assert text("a" * LONGEST) == "a" * LONGEST
    assert text("&" * (LONGEST + 1)) == "&amp;" * 47 + "\u2026" + "&amp;" * 72
    assert shortened("features/block_1/conv", 12) == "feat\u2026_1/conv"
    assert named("b" * 200).startswith(f'<span class="name" title="{"b" * 47}\u2026')


@pytest.mark.skipif(program() is None, reason="there is no Chromium: apt-get install chromium")
def test_a_browser_shows_sorts_and_searches_all_columns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pair = saved(tmp_path, {name: f"a_very_long_prefix_of_every_name/{name}/and_its_end" for name in "abcdef"})
    capsys.readouterr()
    assert main(["profile", str(pair), "--rounds", "1", "--threads", "1", "--json"]) == 0
    (tmp_path / "times.json").write_text(capsys.readouterr().out)
    page = tmp_path / "page.html"
    assert main(["inspect", str(pair), "--html", str(page), "--profile", str(tmp_path / "times.json")]) == 0
    with chromium(tmp_path) as browser:
        browser.resize(1280, 900)
        browser.go(page.as_uri())
        assert browser.said == []
        assert browser.value("document.documentElement.scrollWidth") <= 1280
        assert browser.value("[...document.querySelectorAll('.panel')].every((p) => p.scrollWidth <= p.clientWidth)")
        column = "[...document.querySelectorAll('.operators tbody tr:not([hidden])')].map((r) => r.cells[{}].innerText)"
        steps, adds = column.format(0), column.format(6)
        before = browser.value(steps)
        assert before == ["", *map(str, range(len(before) - 1))]
        assert all(float(ms) > 0 for ms in browser.value(column.format(8))[1:] if ms)
        browser.value("document.querySelectorAll('.operators th button')[6].click()")
        assert browser.value(adds)[0] == "73.7 k"
        assert browser.value("getComputedStyle(document.querySelector('.lanes')).display") == "none"
        for _ in range(2):
            browser.value("document.querySelectorAll('.operators th button')[6].click()")
        assert browser.value(steps) == before
        assert browser.value("getComputedStyle(document.querySelector('.lanes')).display") != "none"
        search = "const s = document.getElementById('search'); s.value = '{}'; s.dispatchEvent(new Event('input'))"
        browser.value(f"{{ {search.format('RELU')} }}")
        assert 1 <= len(browser.value(steps)) < len(before)
        assert all("relu" in one.lower() for one in browser.value(column.format(1)))


def test_a_profile_that_is_none_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pair = saved(tmp_path, {})
    (tmp_path / "text.json").write_text("no JSON")
    (tmp_path / "other.json").write_text('{"operators": [{"index": 7, "type": "Other", "output": "z", "ms": 1}]}')
    for name, problem in (("text", "not what armnet profile"), ("other", "another network"), ("none", "No such file")):
        assert main(["inspect", str(pair), "--profile", str(tmp_path / f"{name}.json")]) == 2
        assert problem in capsys.readouterr().err


def test_a_page_that_cannot_be_written_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pair = saved(tmp_path, {})
    assert main(["inspect", str(pair), "--html", str(tmp_path / "missing/page.html")]) == 2
    assert "page.html" in capsys.readouterr().err


def test_text_shows_the_bytes_in_use_as_bars(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(saved(tmp_path, {}))]) == 0
    lines = capsys.readouterr().out.splitlines()
    bars = [line.count("#") for line in lines if "x16x16" in line]
    assert len(bars) >= len(NetDef.from_text(NET).op)
    assert max(bars) == 24
    assert any(line.startswith("arena") for line in lines)


def test_the_timeline_shows_where_each_blob_lies_and_how_much_is_live() -> None:
    net = NetDef.from_text('net "": x -> y\n Softmax(x) -> a\n Relu(a) -> b\n Softmax(b) -> y')
    segment = Executor(net, {}).plan({"x": np.zeros((8, 16), np.float32)}, ["y"])
    one = timeline(segment)
    blobs = {block.names: block for block in one.blocks if block.kind != "scratch"}
    assert set(blobs) == {("x",), ("a", "b"), ("y",)}
    assert [(block.first, block.last) for block in blobs.values()] == [(0, 0), (0, 2), (2, 2)]
    assert blobs[("x",)].kind == "input"
    assert all(0 <= block.offset <= block.offset + block.nbytes <= one.arena_nbytes for block in one.blocks)
    scratch = sum(block.nbytes for block in one.blocks if block.kind == "scratch" and block.first == 0)
    assert one.live[0] == 2 * 512 + scratch
    assert max(one.live) <= one.arena_nbytes
    assert one.any_order_nbytes <= one.least_nbytes <= one.arena_nbytes


def test_a_chain_stays_in_one_lane_and_a_shortcut_gets_its_own() -> None:
    nodes = [Node("input", (), (0,)), Node("Relu", (0,), (1,)), Node("Conv", (1,), (2,)), Node("Add", (1, 2), (3,))]
    lanes, edges = laid_out(nodes)
    assert lanes == [0, 0, 1, 0]
    assert edges == [Edge(0, 0, 0, 1, 0), Edge(1, 0, 0, 2, 1), Edge(1, 0, 0, 3, 0), Edge(2, 1, 1, 3, 0)]
    assert picture(nodes).count("<path") == 4


def test_a_name_that_is_written_again_is_another_blob() -> None:
    rows = [{"type": "Relu", "reads": ["x", "w"], "outputs": ["x"]}, {"type": "Relu", "reads": ["x"], "outputs": ["y"]}]
    assert nodes_of(rows, ["x"]) == [Node("input", (), [0]), Node("Relu", [0], [1]), Node("Relu", [1], [2])]
