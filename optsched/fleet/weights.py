"""Weights of graphs: one `name weight` per line, or a JSON object."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path

from optsched.errors import UsageError
from optsched.formats.source import parse_json, read_bytes

MOST_WEIGHT = 1e15
"""Maximum weight, so that sums of bytes times weights stay finite."""
MOST_BYTES = 2**26
"""Maximum bytes of a file of weights; 100,000 graphs take a tenth of it."""


def read_weights(path: str | Path) -> dict[str, float]:
    """Read weights by graph: by its path, file name, file name without suffixes, or name.

    Raise `UsageError` if a line cannot be parsed, or a weight is not a number from 0 to
    :data:`MOST_WEIGHT`.
    """
    data = read_bytes(path)
    if len(data) > MOST_BYTES:
        raise UsageError(f"{path}: weights file too large ({len(data):,} bytes)")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise UsageError(
            f"{path}: weights file is not text, expected one 'name weight' per line"
        ) from None
    if text.lstrip().startswith("{"):
        found = parse_json(text)
        pairs = list(found.items()) if isinstance(found, dict) else []
    else:
        lines = (line.strip() for line in text.splitlines())
        pairs = [_split(path, line) for line in lines if line and not line.startswith("#")]
    return {str(name): parse_weight(f"{path}: {name}", value) for name, value in pairs}


def _split(path: str | Path, line: str) -> tuple[str, str]:
    # The weight comes last, since paths may contain spaces.
    name, _, weight = line.replace(",", " ").strip().rpartition(" ")
    if not name.strip():
        raise UsageError(f"{path}: expected 'name weight', got {line[:60]!r}")
    return name.strip(), weight


def parse_weight(what: str, value: object) -> float:
    """Return a weight, which must be a number from 0 to :data:`MOST_WEIGHT`."""
    try:
        weight = float(value) if isinstance(value, str | int | float) else math.nan
    except (ValueError, OverflowError):
        weight = math.nan
    # True is a number in Python.
    if isinstance(value, bool) or not 0 <= weight <= MOST_WEIGHT:
        raise UsageError(
            f"{what}: weight must be a number from 0 to {MOST_WEIGHT:g}, got {str(value)[:40]!r}"
        )
    return weight


def weight_of(source: str, weights: Mapping[str, float]) -> float:
    """Return the weight of a graph by its path or a shorter form of its name; 1 by default."""
    return next((weights[name] for name in _names_of(source) if name in weights), 1.0)


def unused_weights(sources: Iterable[str], weights: Mapping[str, float]) -> list[str]:
    """Return the names that match no graph and are perhaps misspelled."""
    used = {name for source in sources for name in _names_of(source)}
    return [name for name in weights if name not in used]


def _names_of(source: str) -> list[str]:
    """Return the path, the file name, and the file name without its suffixes, one by one."""
    name = Path(source).name
    # From the longest to the shortest: a.b.json, a.b, a.
    endings = [at for at in range(len(name) - 1, 0, -1) if name[at] == "."]
    return [source, name, *(name[:at] for at in endings)]
