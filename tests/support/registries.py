"""Registered methods and formats are removed, so that no test leaves any."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from heuristics import ORDERINGS, PACKINGS
from optsched.formats import FORMATS


@contextmanager
def registries_kept() -> Iterator[None]:
    """Restore all tables of registered functions at the end of the block."""
    tables: tuple[dict[str, Any], ...] = (ORDERINGS, PACKINGS, FORMATS)
    before = [dict(table) for table in tables]
    try:
        yield
    finally:
        for table, known in zip(tables, before, strict=True):
            table.clear()
            table.update(known)
