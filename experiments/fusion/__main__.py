"""Peaks with and without fusion: `python -m experiments.fusion STUDY... [--write]`."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from experiments.fusion import tables
from experiments.fusion.cuts import WORK, cut_rows, cut_table
from experiments.fusion.measure import built_rows, captured_rows, model_rows
from experiments.tables import replace_table, write_rows

HERE = Path(__file__).parent
STUDIES = ("smallest", "built", "captured", "models", "cuts")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m experiments.fusion")
    # Python 3.11 compares a default that is a tuple with the choices, and refuses it.
    parser.add_argument("studies", nargs="*", choices=[*STUDIES, []], metavar="STUDY")
    parser.add_argument("--folder", type=Path, default=Path("out"), help="captures of the models")
    parser.add_argument("--work", type=int, default=WORK, help="units for a search of cuts")
    parser.add_argument("--write", action="store_true", help="replace the README's tables, and CSV")
    options = parser.parse_args(arguments)
    for study in options.studies or STUDIES[:4]:
        table = _make(study, options.folder, options.work, options.write)
        print(f"{study}\n\n{table}", flush=True)
        if options.write:
            replace_table(HERE / "README.md", study, table)


def _make(study: str, folder: Path, work: int, write: bool) -> str:
    if study == "smallest":
        return tables.smallest_graphs()
    makers: dict[str, tuple[Callable[[], Iterable[Any]], Callable[[Sequence[Any]], str]]] = {
        "built": (built_rows, tables.built),
        "captured": (captured_rows, tables.captured),
        "models": (lambda: model_rows(folder), tables.models),
        "cuts": (lambda: cut_rows(folder, work), cut_table),
    }
    measure, show = makers[study]
    rows = list(measure())
    if write:
        write_rows(HERE / f"{study}.csv", rows)
    return show(rows)


if __name__ == "__main__":
    main()
