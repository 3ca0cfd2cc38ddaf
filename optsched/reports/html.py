"""What all HTML pages share: one file that asks the network for nothing, and escapes all names."""

from __future__ import annotations

from html import escape
from importlib.resources import files

from optsched.reports.record import versions
from optsched.reports.tables import safe

# The browser itself refuses whatever is not in the file.
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data:; font-src data:"
)


def asset(name: str) -> str:
    """Return a file of the folder `assets`."""
    return files("optsched.reports").joinpath("assets", name).read_text("utf-8")


def document(title: str, body: str) -> str:
    """Return a page that may load nothing from anywhere."""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<link rel="icon" href="data:,"><title>{safe(title)}</title>'
        f"<style>{asset('page.css')}</style></head><body>{body}</body></html>"
    )


def origin() -> str:
    """Return the versions."""
    used = ", ".join(f"{name} {number}" for name, number in versions().items())
    return f"<p>Made with {escape(used)}.</p>"
