"""What pyproject.toml cannot say: on PyPI the README's links to files of the repository lead to the repository."""

from __future__ import annotations

import re
from pathlib import Path

from setuptools import setup

HERE = Path(__file__).parent


def long_description() -> str:
    """The README, with absolute links."""
    repository = re.findall(r'^Source = "(.*)"', (HERE / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE)
    text = (HERE / "README.md").read_text(encoding="utf-8")
    return re.sub(r"\]\((?!\w+:|#)", f"]({repository[0]}/blob/main/", text)


setup(long_description=long_description(), long_description_content_type="text/markdown")
