"""What pyproject.toml cannot say: where the repository is, and where the README's links lead that point into it.

``$REPOSITORY_URL`` names the repository; the release workflow sets it. Without it there are no addresses, and the links
stay as they are.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from setuptools import setup

README = (Path(__file__).parent / "README.md").read_text(encoding="utf-8")
REPOSITORY = os.environ.get("REPOSITORY_URL", "").rstrip("/")
FILES = f"{REPOSITORY}/blob/main/"

setup(
    long_description=re.sub(r"\]\((?!\w+:|#)", f"]({FILES}", README) if REPOSITORY else README,
    long_description_content_type="text/markdown",
    project_urls={
        "Homepage": REPOSITORY,
        "Source": REPOSITORY,
        "Issues": f"{REPOSITORY}/issues",
        "Changelog": f"{FILES}CHANGELOG.md",
    }
    if REPOSITORY
    else {},
)
