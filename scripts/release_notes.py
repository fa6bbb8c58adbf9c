"""Print the section of CHANGELOG.md for a version, for its release.

  python scripts/release_notes.py v0.1.0

Refused, with one line, if the tag is not the version in runtime_arm/version.py, or the changelog has no section of it.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def notes(tag: str, version: str, changelog: str) -> str:
    """The section of a version. ValueError if there is none, or if the tag is another version's."""
    if tag != f"v{version}":
        raise ValueError(f"the tag is {tag}, but the version is {version}: the tag has to be v{version}")
    section = re.search(rf"(?ms)^## \[{re.escape(version)}\][^\n]*\n(.*?)(?=^## \[|\Z)", changelog)
    if section is None or not section[1].strip():
        raise ValueError(f"CHANGELOG.md has no section [{version}]: rename [Unreleased] to [{version}] with the date")
    return section[1].strip()


def main() -> int:
    """Prints the notes; returns 2, after one line on stderr, if there are none."""
    if len(sys.argv) != 2:
        print("usage: release_notes.py TAG", file=sys.stderr)
        return 2
    version = re.findall(r'^VERSION = "(.*)"', (ROOT / "runtime_arm/version.py").read_text(), re.MULTILINE)[0]
    try:
        print(notes(sys.argv[1], version, (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")))
    except ValueError as error:
        print(f"release_notes: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
