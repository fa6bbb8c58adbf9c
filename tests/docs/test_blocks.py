"""The code of all pages, those of the repository's own texts too: blocks run in order and print what is shown; what is
not run is checked as far as that goes."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Iterator, List

import pytest

from armnet.commands import COMMANDS
from scripts.pages.command_pages import parser_of, subcommands
from tests.docs.fork_server import ForkServer
from tests.docs.pages import NOT_RUN, OTHERS, OUTPUT, PAGES, blocks, commands, differs, name_of, run
from tests.support.paths import ROOT

LANGUAGES = {"sh", "python", "text", "json", "yaml", "ini", "toml", "html"}
ALL = [*PAGES, *OTHERS]
RUN = [page for page in ALL if any(block.is_run for block in blocks(page))]


def ids(page: Path) -> str:
    return name_of(page)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkServer]:
    for package in ("onnx", "onnxruntime", "PIL"):
        pytest.importorskip(package, reason=f"the pages' commands need {package}")
    with ForkServer(tmp_path_factory.mktemp("server")) as running:
        yield running


@pytest.mark.parametrize("page", RUN, ids=ids)
def test_blocks_run_and_print_what_the_page_shows(page: Path, server: ForkServer, tmp_path: Path) -> None:
    for name in ("demo", "examples"):
        (tmp_path / name).symlink_to(ROOT / name)
    printed = run(page, tmp_path, server.function)
    before = None
    for block in blocks(page):
        if block.title == OUTPUT:
            assert before is not None, f"{name_of(page)}:{block.line}: the output of nothing"
            difference = differs(block.text, printed[before.line])
            assert not difference, f"{name_of(page)}:{block.line}: {difference}"
        before = block if block.is_run else before


@pytest.mark.parametrize("page", ALL, ids=ids)
def test_blocks_are_of_a_known_kind(page: Path) -> None:
    for block in blocks(page):
        where = f"{name_of(page)}:{block.line}"
        assert block.language in LANGUAGES, f"{where}: a block of {block.language or 'no language'}"
        if block.language == "json":
            json.loads(block.text)
        if block.language == "yaml":
            pytest.importorskip("yaml", reason="PyYAML reads YAML").safe_load(block.text)


@pytest.mark.parametrize("page", ALL, ids=ids)
def test_blocks_that_are_not_run_would_be_understood(page: Path) -> None:
    for block in blocks(page):
        where = f"{name_of(page)}:{block.line}"
        if not block.title.startswith(NOT_RUN):
            continue
        assert len(block.title) > len(NOT_RUN) + 5, f"{where}: say why"
        if block.language == "python":
            compile(block.text, where, "exec")
        elif block.language == "sh":
            checked = subprocess.run(["bash", "-n"], input=block.text, capture_output=True, text=True, check=False)
            assert checked.returncode == 0, f"{where}: {checked.stderr}"
            for words in commands(block.text):
                assert_understood(words, where)


def assert_understood(words: List[str], where: str) -> None:
    """``armnet`` has this command, with these options."""
    if words[:1] in ([], ["--version"], ["--help"]):
        return
    assert words[0] in COMMANDS, f"{where}: no command {words[0]}"
    status = None
    try:
        parser_of(words[0]).parse_args(words[1:])
    except SystemExit as end:  # --help ends with 0
        status = end.code
    assert not status, f"{where}: armnet {' '.join(words)}"


@pytest.mark.parametrize("name", COMMANDS)
def test_examples_of_the_help_are_understood(name: str) -> None:
    parser = parser_of(name)
    texts = [parser.description or "", *(sub.description or "" for sub in subcommands(parser).values())]
    examples = [line for text in texts for line in text.splitlines() if line.startswith(f"  armnet {name}")]
    assert examples
    for line in examples:
        words = next(commands(re.split(r" {2,}", line.strip())[0]))
        assert_understood(words, f"armnet {name} --help")
