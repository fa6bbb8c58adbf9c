"""The frame of a page: one file that needs no network."""

from __future__ import annotations

from armnet.page.elements import text
from armnet.page.style import STYLE
from runtime_arm.version import VERSION


def document(title: str, body: str, *, style: str = "", pictures: bool = False) -> str:
    """The page, HTML 5, without a script. body: HTML. style: rules beside those of all pages. pictures: whether the
    page holds pictures, as data."""
    policy = "default-src 'none'; style-src 'unsafe-inline'" + ("; img-src data:" if pictures else "")
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{text(title)} \u2013 armnet</title><style>{STYLE}{style}</style></head>\n<body><main>{body}"
        f"<footer>armnet {VERSION}</footer></main></body></html>\n"
    )
