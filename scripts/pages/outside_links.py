"""Lists the external addresses that pages of the site link to, and says which of them do not answer.

python -m scripts.pages.outside_links [--list]
"""

from __future__ import annotations

import re
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Dict, List, Optional

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "build/site"


def outside(site: Path) -> Dict[str, List[str]]:
    """Every address that is linked from the content of a page, with the pages that link it."""
    found: Dict[str, List[str]] = {}
    for page in sorted(site.rglob("*.html")):
        content = page.read_text(encoding="utf-8").partition("<article")[2].partition("</article>")[0]
        for address in re.findall(r'href="(https?://[^"#]+)', content):
            pages = found.setdefault(address.replace("&amp;", "&"), [])
            name = str(page.relative_to(site))
            if name not in pages:
                pages.append(name)
    return found


def problem(address: str) -> Optional[str]:
    """Why an address does not answer; None if it does."""
    request = urllib.request.Request(address, headers={"User-Agent": "Mozilla/5.0 (armnet's check of links)"})
    try:
        with urllib.request.urlopen(request, timeout=20):
            return None
    except urllib.error.HTTPError as error:
        return None if error.code in (403, 429) else f"HTTP {error.code}"  # it is there, and wants a browser
    except OSError as error:
        return str(error)


def main() -> int:
    broken = 0
    for address, pages in outside(SITE).items():
        wrong = None if "--list" in sys.argv else problem(address)
        broken += wrong is not None
        print(f"{address}  ({', '.join(pages)}){'' if wrong is None else f': {wrong}'}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
