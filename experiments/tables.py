"""Tables of studies: as Markdown, inside a README, as CSV."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, TypeVar

Row = TypeVar("Row")
_TYPES = {"int": int, "float": float, "str": str}


def markdown(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Return a table; all columns but the first are aligned to the right."""
    rows = [head, ["---", *["---:"] * (len(head) - 1)], *lines]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def replace_table(readme: Path, name: str, table: str) -> None:
    """Put a table between the comments `<!-- NAME: begin -->` and `<!-- NAME: end -->`."""
    begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->"
    head, rest = readme.read_text().split(begin)
    readme.write_text(f"{head}{begin}{table}{end}{rest.split(end)[1]}")


def write_rows(path: Path, rows: Sequence[Any]) -> None:
    """Write dataclass objects of one type as CSV, a column a field."""
    with path.open("w", newline="") as file:
        names = [field.name for field in fields(rows[0])]
        writer = csv.DictWriter(file, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(row) for row in rows)


def read_rows(path: Path, kind: type[Row]) -> list[Row]:
    """Read what :func:`write_rows` wrote; fields are integers, floats and texts."""
    types = {field.name: _TYPES[str(field.type)] for field in fields(kind)}  # type: ignore[arg-type]
    with path.open(newline="") as file:
        return [
            kind(**{key: types[key](value) for key, value in entry.items()})
            for entry in csv.DictReader(file)
        ]
