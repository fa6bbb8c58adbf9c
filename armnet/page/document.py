"""The frame of a page: one file that needs no network."""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256

from armnet.page.elements import text
from armnet.page.style import STYLE
from runtime_arm.version import VERSION


def document(
    title: str, body: str, *, style: str = "", pictures: bool = False, script: str = "", footer: str = ""
) -> str:
    """The page, HTML 5. body: HTML. style: rules beside those of all pages. pictures: whether the page holds pictures,
    as data. script: its only script; the page's policy names the script's hash, so that no other runs. footer: what
    follows the version.
    """
    policy = "default-src 'none'; style-src 'unsafe-inline'" + ("; img-src data:" if pictures else "")
    if script:
        policy += f"; script-src 'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'"
        script = f"<script>{script}</script>"
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{text(title)} \u2013 armnet</title><style>{STYLE}{style}</style></head>\n<body><main>{body}"
        f"<footer>armnet {VERSION}{footer}</footer></main>{script}</body></html>\n"
    )
