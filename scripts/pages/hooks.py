"""MkDocs calls these functions. They add pages for the commands and for the repository's own texts."""

from __future__ import annotations

import posixpath
import re
import sys
from pathlib import Path
from typing import Any, Dict, List

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))  # ``mkdocs`` itself does not look for modules beside mkdocs.yml

from armnet.commands import COMMANDS  # noqa: E402
from scripts.pages import schemas  # noqa: E402
from scripts.pages.command_pages import pages  # noqa: E402

EXAMPLES = sorted(path.parent.name for path in (ROOT / "examples").glob("*/README.md"))
TEXTS = {
    "ARCHITECTURE.md": "how-it-works/architecture.md",
    "BENCHMARKS.md": "figures.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "device_tests/README.md": "devices.md",
    "examples/README.md": "examples/index.md",
    **{f"examples/{name}/README.md": f"examples/{name}.md" for name in EXAMPLES},
    ".github/actions/test-model/README.md": "how-to/ci-files.md",
}
NOT_RUN = "Not run by the tests: "  # what the title of a block begins with, for tests/docs
PICTURES = {"BENCHMARKS.svg": "pictures/benchmarks.svg"}


def on_config(config: Any) -> Any:
    """Puts a line for each command where the navigation says ``commands/*``, and for each example at ``examples/*``."""
    made: Dict[str, List[Any]] = {
        "commands/*": [{f"armnet {name}": f"commands/{name}.md"} for name in COMMANDS],
        "examples/*": [f"examples/{name}.md" for name in EXAMPLES],
    }
    for section in config.nav:
        for title, entries in section.items():
            if isinstance(entries, list):
                section[title] = [line for entry in entries for line in made.get(str(entry), [entry])]
    return config


def on_files(files: Any, config: Any) -> Any:
    """Adds the pages of the commands, and the repository's own texts with links that lead to pages."""
    from mkdocs.structure.files import File

    made: Dict[str, Any] = dict(pages())
    made.update((page, relinked(text, config.repo_url)) for text, page in TEXTS.items())
    made.update((target, (ROOT / picture).read_bytes()) for picture, target in PICTURES.items())
    for name, content in made.items():
        files.append(File.generated(config, name, content=content))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Replaces ``<!-- keys of NAME -->`` by the table of a JSON Schema file. The titles of blocks that tests do not run
    say what they need.
    """
    markdown = re.sub(r"<!-- keys of ([\w-]+) -->", lambda found: schemas.table(found[1]), markdown)
    markdown = markdown.replace("<!-- schemas of commands -->", schemas.list_of_commands())
    return re.sub(rf'title="{NOT_RUN}(\w)', lambda found: f'title="{found[1].upper()}', markdown)


def on_page_content(html: str, page: Any, config: Any, files: Any) -> str:
    """In the pages of Python's names, each parameter that a text explains begins a line of its own."""
    return parameters_in_lines(html) if page.file.src_uri.startswith("api/") else html


def parameters_in_lines(html: str) -> str:
    """``a: this. b: that.`` in two lines, with a and b as code, if the page's signatures have such parameters."""
    names = set(re.findall(r'<span class="n">(\w+)</span>', html))
    if not names:
        return html
    name = rf"(?:{'|'.join(sorted(names))})"
    told = rf"{name}(?: \([^()<]*\))?"
    explained = re.compile(rf"(^|[.;]\s)({told}(?:,\s{told})*)(?=:\s)")

    def paragraph(found: Any) -> str:
        def line(start: Any) -> str:
            new = "<br>" if start[1] else ""
            coded = re.sub(rf"(^|,\s)({name})\b", r"\1<code>\2</code>", start[2])
            return f"{start[1]}{new}{coded}"

        return f"<p>{explained.sub(line, found[1])}</p>"

    return re.sub(r"<p>(.*?)</p>", paragraph, html, flags=re.DOTALL)


def relinked(text: str, repository: Any = None) -> str:
    """A text of the repository, with links to pages. Links to files that are not pages go to the repository; if it has
    no address, only their text remains.
    """
    page, folder = TEXTS[text], posixpath.dirname(text)

    def link(found: Any) -> str:
        words, target, anchor = found[1], found[2], found[3] or ""
        path = posixpath.normpath(posixpath.join(folder, target))
        there = {**TEXTS, **PICTURES}.get(path) or TEXTS.get(f"{path}/README.md")
        if path.startswith("docs/"):
            there = path[len("docs/") :]
        if there is not None:
            return f"[{words}]({posixpath.relpath(there, posixpath.dirname(page) or '.')}{anchor})"
        return f"[{words}]({repository.rstrip('/')}/blob/main/{path})" if repository else words

    return re.sub(
        r"\[([^\]]*)\]\((?!https?:|#)([^)#\s]+)(#[^)\s]*)?\)", link, (ROOT / text).read_text(encoding="utf-8")
    )
