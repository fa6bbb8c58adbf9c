"""The documentation site: it is built without a warning, and its pages hold what the packages hold."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from armnet.commands import COMMANDS
from scripts.pages.command_pages import pages, parser_of, subcommands
from scripts.pages.outside_links import outside
from tests.support.pages import PAGES, name_of
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
