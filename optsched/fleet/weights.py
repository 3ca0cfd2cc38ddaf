"""How much the bytes of each graph count: one `name weight` a line, or a JSON object."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path

from optsched.errors import UsageError
from optsched.formats.source import parse_json, read_bytes

MOST_WEIGHT = 1e15
"""So that sums of bytes times weights stay numbers."""
MOST_BYTES = 2**26
"""Of a file of weights: a hundred thousand graphs take a tenth."""


def read_weights(path: str | Path) -> dict[str, float]:
    """Read weights by graph: by path, by file name, by file name without its endings, or by name.

    Raises
    ------
    UsageError
        If a line is none, or a weight is no number from 0 to :data:`MOST_WEIGHT`.
    """
    data = read_bytes(path)
    if len(data) > MOST_BYTES:
        raise UsageError(f"{path}: {len(data):,} bytes are too many for weights")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise UsageError(f"{path}: weights are text, one 'name weight' a line") from None
    if text.lstrip().startswith("{"):
        found = parse_json(text)
        pairs = list(found.items()) if isinstance(found, dict) else []
    else:
        lines = (line.strip() for line in text.splitlines())
        pairs = [_split(path, line) for line in lines if line and not line.startswith("#")]
    return {str(name): parse_weight(f"{path}: {name}", value) for name, value in pairs}


def _split(path: str | Path, line: str) -> tuple[str, str]:
    name, _, weight = line.replace(",", " ").strip().rpartition(" ")
    if not name.strip():
        raise UsageError(f"{path}: {line[:60]!r} is no 'name weight'")
    return name.strip(), weight


def parse_weight(what: str, value: object) -> float:
    """Return a weight: any number from 0 to :data:`MOST_WEIGHT`."""
    try:
        weight = float(value) if isinstance(value, str | int | float) else math.nan
    except (ValueError, OverflowError):
        weight = math.nan
    if isinstance(value, bool) or not 0 <= weight <= MOST_WEIGHT:
        raise UsageError(
            f"{what}: a weight is a number from 0 to {MOST_WEIGHT:g}, got {str(value)[:40]!r}"
        )
    return weight


def weight_of(source: str, weights: Mapping[str, float]) -> float:
    """Return the weight of a graph by its path or any shorter form of its name; 1 by default."""
    return next((weights[name] for name in _names_of(source) if name in weights), 1.0)


def unused_weights(sources: Iterable[str], weights: Mapping[str, float]) -> list[str]:
    """Return the names by which no graph goes: perhaps they are misspelt."""
    used = {name for source in sources for name in _names_of(source)}
    return [name for name in weights if name not in used]


def _names_of(source: str) -> list[str]:
    """Return the path, the file's name, and that without its endings, one after the other."""
    name = Path(source).name
    endings = [at for at in range(len(name) - 1, 0, -1) if name[at] == "."]
    return [source, name, *(name[:at] for at in endings)]
