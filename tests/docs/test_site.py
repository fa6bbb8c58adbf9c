"""The documentation site: it is built without a warning, and its pages hold what the packages hold."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from armnet.commands import COMMANDS
from scripts.pages import draw_pictures
from scripts.pages.command_pages import pages, parser_of, subcommands
from scripts.pages.hooks import parameters_in_lines
from scripts.pages.outside_links import outside
from tests.docs.pages import DOCS, PAGES, name_of
from tests.support.paths import ROOT


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as ``scripts/docs`` builds it: a broken link, an anchor that is missing or a page that nobody
    can reach is an error."""
    for package in ("mkdocs", "material", "mkdocstrings_handlers"):
        pytest.importorskip(package, reason="MkDocs builds the site: pip install 'armnet[docs]'")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


def test_every_page_and_every_command_has_its_html(site: Path) -> None:
    for page in PAGES:
        name = name_of(page)
        html = site / name.replace("index.md", "index.html").replace(".md", "/index.html")
        assert html.is_file(), name
    for command in COMMANDS:
        html = (site / "commands" / command / "index.html").read_text(encoding="utf-8")
        assert f'<h1 id="armnet-{command}">' in html


def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    for html in site.rglob("*.html"):
        text = html.read_text(encoding="utf-8")
        fetched = re.findall(
            r'<(?:script|img|iframe|source)[^>]*src="(https?:[^"]+)|<link[^>]*rel="stylesheet"[^>]*href="(https?:[^"]+)',
            text,
        )
        assert fetched == [], html


def test_links_to_other_sites_are_found(site: Path) -> None:
    addresses = outside(site)
    assert any("termux.dev" in address for address in addresses)
    assert all(" " not in address for address in addresses)


def test_each_parameter_begins_a_line() -> None:
    signature = '<span class="n">size</span>, <span class="n">depth</span>, <span class="n">labels</span>'
    told = "<p>size (in bytes), depth: two numbers. labels: a file; it names size: so. other: no parameter.</p>"
    lined = (
        "<p><code>size</code> (in bytes), <code>depth</code>: two numbers. <br><code>labels</code>: a file; "
        "it names size: so. other: no parameter.</p>"
    )
    assert parameters_in_lines(signature + told) == signature + lined
    assert parameters_in_lines(told) == told


def test_pictures_are_what_the_script_draws() -> None:
    """Those that show a plan and costs depend on the machine: they are drawn, and their parts are counted."""
    fixed = {
        "winograd.svg": draw_pictures.winograd(),
        "tiles.svg": draw_pictures.tiles(),
        "speed.svg": draw_pictures.speed(draw_pictures.ratios()),
    }
    for name, picture in fixed.items():
        shown = (draw_pictures.FOLDER / name).read_text(encoding="utf-8")
        assert shown == picture, f"{name}: draw it again: python -m scripts.pages.draw_pictures"
    facts = draw_pictures.inspected()
    legend_and_sheet = 4
    assert draw_pictures.arena(facts).count("<rect") == len(facts["memory"]["blocks"]) + legend_and_sheet
    costs = draw_pictures.choices()
    assert draw_pictures.engines(costs).count("<rect") == sum(len(options) for _, options in costs) + 1


def test_the_recording_shows_the_demos_commands() -> None:
    shown = (DOCS / "pictures/demo.svg").read_text(encoding="utf-8").replace("&#160;", " ")
    source = (ROOT / "scripts/demo.py").read_text(encoding="utf-8")
    for word in sorted(set(re.findall(r'(?:command\(|^)\s*"(\w+)",', source, re.MULTILINE)) & set(COMMANDS)):
        assert f"armnet {word} " in shown, f"record the demo again: python -m scripts.pages.record_demo ({word})"


def test_a_commands_page_names_every_option() -> None:
    made = pages()
    for command in COMMANDS:
        parser = parser_of(command)
        for one in (parser, *subcommands(parser).values()):
            options = [option for action in one._actions for option in action.option_strings if option != "--help"]
            for option in options:
                assert option == "-h" or f"`{option}" in made[f"commands/{command}.md"], f"{command} {option}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_path_in_backticks_exists(page: Path) -> None:
    """Paths that start with a folder of the repository; others are the reader's own."""
    names = re.findall(r"`([\w.-]+/[\w./-]*)`", page.read_text(encoding="utf-8"))
    ours = {path.name for path in ROOT.iterdir()}
    assert [name for name in names if name.partition("/")[0] in ours and not (ROOT / name).exists()] == []
