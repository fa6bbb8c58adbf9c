"""The code blocks of the documentation's pages: what they hold, and how a page's blocks are run in order.

A block of ``sh`` or ``python`` is run, in a folder that holds the demo's files, the examples and what earlier blocks
of the page made. Its title may say otherwise, for the reader to see:

``Not run by the tests: needs a Raspberry Pi``   only its syntax is checked, and the commands and options that it names
``test_digits.py``                       the block is the content of a file of that name
``What it printed``                      a block of ``text``: of a block that is not run, as it was when it was
``Output``                               a block of ``text``: what the block before it prints; ``...`` is anything
"""

from __future__ import annotations

import doctest
import os
import re
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Dict, Iterator, List, NamedTuple

from scripts.pages.hooks import NOT_RUN, TEXTS
from tests.support.paths import ROOT

DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
OTHERS = sorted(ROOT / text for text in TEXTS)  # pages that lie elsewhere in the repository
OUTPUT = "Output"
PRINTED = "What it printed"
_FENCE = re.compile(r'^(?P<indent> *)```(?P<language>\w*)(?: +title="(?P<title>[^"]*)")?(?P<rest>.*)$')
_MARK = "-- block "
MOST_SECONDS = 300  # for a page
_LENIENT = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
_SETTINGS = {"COLUMNS": "100", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}


class Block(NamedTuple):
    """A fenced block: the line of its page where it starts, its language and title ("" for none), its lines."""

    line: int
    language: str
    title: str
    text: str

    @property
    def is_run(self) -> bool:
        return self.language in ("sh", "python") and not self.title

    @property
    def is_file(self) -> bool:
        return bool(self.title) and self.title not in (OUTPUT, PRINTED) and not self.title.startswith(NOT_RUN)


def name_of(page: Path) -> str:
    """The page by its place on the site; of another text by that in the repository."""
    return str(page.relative_to(DOCS if DOCS in page.parents else ROOT))


def blocks(page: Path) -> List[Block]:
    """The page's fenced blocks; a fence that says what nobody reads is an error."""
    found: List[Block] = []
    lines = iter(enumerate(page.read_text(encoding="utf-8").splitlines(), 1))
    for number, line in lines:
        opened = _FENCE.match(line)
        if opened is None:
            continue
        assert not opened["rest"], f"{name_of(page)}:{number}: cannot read {line.strip()}"
        body = []
        for _, inner in lines:
            if inner.strip() == "```":
                break
            body.append(inner)
        text = textwrap.dedent("\n".join(body)) + "\n"
        found.append(Block(number, opened["language"], opened["title"] or "", text))
    return found


def commands(script: str) -> Iterator[List[str]]:
    """The words of every ``armnet`` command of a shell script."""
    for line in script.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        while "armnet" in words:
            words = words[words.index("armnet") + 1 :]
            ends = [at for at, word in enumerate(words) if word in ("|", ">", "&&", ";", "&", "2>")]
            yield words[: ends[0]] if ends else words


def run(page: Path, folder: Path, armnet: str) -> Dict[int, str]:
    """Runs the page's blocks in order; what each of them printed on the standard output, by its line.

    armnet: a shell function of that name.
    """
    script = ["set -euo pipefail", armnet]
    python = shlex.quote(sys.executable)
    script.append(f'python3() {{ {python} "$@"; }}; python() {{ {python} "$@"; }}')
    script.append(f'pytest() {{ {python} -m pytest -p no:cacheprovider -p armnet.pytest_plugin.plugin "$@"; }}')
    for block in blocks(page):
        if block.is_file:
            script.append(f"cat > {shlex.quote(block.title)} <<'END-OF-FILE'\n{block.text}END-OF-FILE")
        elif block.is_run:
            script.append(f"echo '{_MARK}{block.line}'; echo 'line {block.line}:' >&2")
            script.append(
                f"python3 - <<'END-OF-PYTHON'\n{block.text}END-OF-PYTHON" if block.language == "python" else block.text
            )
    done = subprocess.run(
        ["bash", "-c", "\n".join(script)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "ARMNET_CACHE": str(folder / ".cache"), **_SETTINGS},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=MOST_SECONDS,
    )
    assert done.returncode == 0, (
        f"{name_of(page)}: exit status {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    )
    parts = re.split(rf"^{_MARK}(\d+)\n", done.stdout, flags=re.MULTILINE)
    return {int(line): text for line, text in zip(parts[1::2], parts[2::2])}


def differs(shown: str, printed: str) -> str:
    """ "" if what a page shows is what was printed, else both, one above the other."""
    same = doctest.OutputChecker().check_output(_even(shown), _even(printed), _LENIENT)
    return "" if same else f"the page shows\n{shown}\nand it printed\n{printed}"


def _even(text: str) -> str:
    """The text without blanks at ends of lines, as editors leave it."""
    return "\n".join(line.rstrip() for line in text.strip("\n").splitlines()) + "\n"
