"""Published results done again: `python -m experiments.prior_art cells|alexnet|race [--write]`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from experiments.prior_art import alexnet, cells
from experiments.prior_art.race import FAMILIES, METHODS, Row, contradictions, race
from experiments.tables import markdown, replace_table, write_rows
from optsched.errors import OptschedError

HERE = Path(__file__).parent


def main(argv: Sequence[str]) -> int:
    """Run one part of the study; exit with 1 if two methods contradict each other."""
    parser = argparse.ArgumentParser(prog="python -m experiments.prior_art", description=__doc__)
    parser.add_argument("part", choices=("cells", "alexnet", "race"))
    parser.add_argument("--seconds", type=float, default=10.0, help="limit of each solve")
    parser.add_argument("--swiftnet", type=Path, help="the published file of SwiftNet")
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--families", nargs="+", default=list(FAMILIES), choices=FAMILIES)
    parser.add_argument("--write", action="store_true", help="into the README")
    args = parser.parse_args(argv)
    try:
        return run(args)
    except (OptschedError, OSError) as error:
        print(error, file=sys.stderr)
        return 2


def run(args: argparse.Namespace) -> int:
    """Run the requested study."""
    if args.part == "cells":
        rows = [list(map(str, cells.row(g, args.seconds))) for g in cells.cells(args.swiftnet)]
        return show("cells", markdown(cells.HEAD, rows), args.write)
    if args.part == "alexnet":
        rows = [list(map(str, row)) for row in alexnet.rows(args.seconds)]
        return show("alexnet", markdown(alexnet.HEAD, rows), args.write)
    found = run_race(args.families, args.methods, args.seconds)
    for line in contradictions(found):
        print(f"CONTRADICTION {line}", file=sys.stderr)
    name = f"race_{args.seconds:g}s"
    if args.write:
        write_rows(HERE / f"{name}.csv", found)
        (HERE / f"{name}.md").write_text(times(found, args.methods), encoding="utf-8")
    print(times(found, args.methods))
    show(name, largest(found, args.methods), args.write)
    return int(bool(contradictions(found)))


def show(name: str, table: str, write: bool) -> int:
    """Print a table, and put it into the README if asked to."""
    print(table, end="")
    if write:
        replace_table(HERE / "README.md", name, table)
    return 0


def run_race(families: Sequence[str], methods: Sequence[str], seconds: float) -> list[Row]:
    """Let all methods climb all ladders, with progress on standard error."""
    rows = []
    for row in race({name: FAMILIES[name] for name in families}, list(methods), seconds):
        rows.append(row)
        how = "proved" if row.proved else row.why
        print(f"{row.method}: {row.graph} {how}, {row.seconds:.2f} s", file=sys.stderr, flush=True)
    return rows


def largest(rows: Sequence[Row], methods: Sequence[str]) -> str:
    """Table: the largest number of ops that each method proved, by family."""
    lines = []
    for family in dict.fromkeys(row.family for row in rows):
        line = [family]
        for method in methods:
            mine = [row for row in rows if row.family == family and row.method == method]
            proved = max((row.ops for row in mine if row.proved), default=0)
            whole = bool(mine) and all(row.proved for row in mine)
            line.append(f"{proved:,}{' (all)' if whole else ''}")
        lines.append(line)
    return markdown(["family", *methods], lines)


def times(rows: Sequence[Row], methods: Sequence[str]) -> str:
    """Table: seconds to proof by graph; a blank was not tried after a failure on a smaller one."""
    lines = []
    for graph in dict.fromkeys(row.graph for row in rows):
        by_method = {row.method: row for row in rows if row.graph == graph}
        ops = next(iter(by_method.values())).ops
        peak = next((str(row.peak) for row in by_method.values() if row.proved), "open")
        lines.append([graph, str(ops), peak, *(_cell(by_method.get(m)) for m in methods)])
    return markdown(["graph", "ops", "least peak", *methods], lines)


def _cell(row: Row | None) -> str:
    if row is None:
        return ""
    return f"{row.seconds:.2f}" if row.proved else row.why


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
