"""What every page has: a whole document, readable on a phone and in the dark."""

from __future__ import annotations

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem; color: #1b2733 }
h1 { font-weight: 600 } code { background: #f0f4f8; padding: .1rem .3rem }
@media (prefers-color-scheme: dark) {
  body { background: #102a43; color: #f0f4f8 } code { background: #243b53 } a { color: #7cc4fa }
}
"""


def document(title: str, body: str, *, style: str, refresh_seconds: int | None = None) -> str:
    """A document of HTML that is escaped already; `style` adds to the common one."""
    refresh = "" if refresh_seconds is None else f'<meta http-equiv="refresh" content="{refresh_seconds}">'
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>{refresh}'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{_STYLE}{style}</style></head><body>{body}</body></html>"
    )
