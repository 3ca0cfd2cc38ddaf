"""The tables of the notes: `python -m experiments.seed_tables FOLDER [--write] [--table NAME]`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from experiments.seed_tables.captures import documents, is_captured
from experiments.seed_tables.measure import SeedRow, measure
from experiments.seed_tables.setups import all_setups
from experiments.seed_tables.tables import TABLES
from experiments.tables import read_rows, replace_table, write_rows

HERE = Path(__file__).parent
RESULTS = HERE / "results.csv"


def main(arguments: Sequence[str] | None = None) -> None:
    options = _parser().parse_args(arguments)
    if options.folder is None:
        rows = read_rows(RESULTS, SeedRow)
    else:
        known = {row.graph: row for row in read_rows(RESULTS, SeedRow)} if options.keep else {}
        rows = list(_measure(options, known))
    if options.write:
        if options.only or options.table:
            sys.exit("--write takes all models and all tables: leave out --only and --table")
        write_rows(RESULTS, rows)
        for name, table in TABLES.items():
            replace_table(HERE / "README.md", name, table(rows))
    for name in [options.table] if options.table else TABLES:
        print(f"{name}: {(TABLES[name].__doc__ or '').splitlines()[0]}\n\n{TABLES[name](rows)}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m experiments.seed_tables")
    parser.add_argument(
        "folder",
        nargs="?",
        type=Path,
        metavar="FOLDER",
        help="where captures are kept; graphs that it lacks are captured. "
        "Without it the tables are those of results.csv",
    )
    parser.add_argument("--only", default="", metavar="NAME", help="models with this in their name")
    parser.add_argument(
        "--seconds", type=float, default=120.0, help="limit of our solver per graph"
    )
    parser.add_argument(
        "--keep", action="store_true", help="measure no graph that results.csv has already"
    )
    parser.add_argument(
        "--captured", action="store_true", help="capture nothing: leave out what the folder lacks"
    )
    parser.add_argument("--table", choices=TABLES, help="print this one only")
    parser.add_argument(
        "--write", action="store_true", help="replace results.csv and the README's tables"
    )
    return parser


def _measure(options: argparse.Namespace, known: Mapping[str, SeedRow]) -> Iterator[SeedRow]:
    for setup in all_setups():
        names = [name.removesuffix(".json.gz") for name in setup.files]
        if options.only not in setup.model:
            continue
        if all(name in known for name in names):
            yield from (known[name] for name in names)
        elif not options.captured or is_captured(setup, options.folder):
            for name, document in documents(setup, options.folder):
                row = measure(setup, name, document, options.seconds)
                print(f"{name}: solved in {row.seconds} s", file=sys.stderr)
                yield row


if __name__ == "__main__":
    main()
