"""Published results done again: `python -m experiments.prior_art cells|alexnet|race [--write]`."""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Iterable, Sequence
from dataclasses import astuple, fields
from pathlib import Path

from experiments.prior_art import alexnet, cells
from experiments.prior_art.race import (
    FAMILIES,
    METHODS,
    RIVAL_THREADS,
    Row,
    contradictions,
    race,
)

HERE = Path(__file__).parent


def main(argv: Sequence[str]) -> int:
    """Run one part of the study; exit with 1 if two methods contradict each other."""
    parser = argparse.ArgumentParser(prog="python -m experiments.prior_art", description=__doc__)
    parser.add_argument("part", choices=("cells", "alexnet", "race"))
    parser.add_argument("--seconds", type=float, default=10.0, help="limit of each solve")
    parser.add_argument("--swiftnet", type=Path, help="the published file of SwiftNet")
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--families", nargs="+", default=list(FAMILIES), choices=FAMILIES)
    parser.add_argument("--write", action="store_true", help="write the table beside this file")
    args = parser.parse_args(argv)
    name = args.part
    if args.part == "cells":
        text = markdown(
            cells.HEAD, (cells.row(g, args.seconds) for g in cells.cells(args.swiftnet))
        )
    elif args.part == "alexnet":
        text = markdown(alexnet.HEAD, alexnet.rows(args.seconds))
    else:
        rows = run_race(args.families, args.methods, args.seconds)
        wrong = contradictions(rows)
        name = f"race_{args.seconds:g}s"
        text = report(rows, args.methods, args.seconds)
        if args.write:
            write_rows(HERE / f"{name}.csv", rows)
        for line in wrong:
            print(f"CONTRADICTION {line}", file=sys.stderr)
        if wrong:
            return 1
    print(text, end="")
    if args.write:
        (HERE / f"{name}.md").write_text(text, encoding="utf-8")
    return 0


def run_race(families: Sequence[str], methods: Sequence[str], seconds: float) -> list[Row]:
    """Let all methods climb all ladders, with progress on standard error."""
    rows = []
    for row in race({name: FAMILIES[name] for name in families}, list(methods), seconds):
        rows.append(row)
        how = "proved" if row.proved else row.why
        print(f"{row.method}: {row.graph} {how}, {row.seconds:.2f} s", file=sys.stderr, flush=True)
    return rows


def report(rows: Sequence[Row], methods: Sequence[str], seconds: float) -> str:
    """Two tables: the largest graph each method proved by family, and time to proof by graph."""
    families = list(dict.fromkeys(row.family for row in rows))
    largest = []
    for family in families:
        line: list[object] = [family]
        for method in methods:
            mine = [row for row in rows if row.family == family and row.method == method]
            proved = max((row.ops for row in mine if row.proved), default=0)
            whole = all(row.proved for row in mine)
            line.append(f"{proved:,}{' (all)' if whole else ''}")
        largest.append(line)
    times = []
    for graph in dict.fromkeys(row.graph for row in rows):
        by_method = {row.method: row for row in rows if row.graph == graph}
        ops = next(iter(by_method.values())).ops
        peak = next((row.peak for row in by_method.values() if row.proved), "open")
        times.append([graph, ops, peak, *(_cell(by_method.get(method)) for method in methods)])
    return (
        f"Largest number of ops proved within {seconds:g} s, by family:\n\n"
        + markdown(["family", *methods], largest)
        + f"\nSeconds to proof. Ours has one thread, the others {RIVAL_THREADS}; a blank was not "
        "tried, since the method had failed on a smaller graph of the family:\n\n"
        + markdown(["graph", "ops", "least peak", *methods], times)
    )


def _cell(row: Row | None) -> str:
    if row is None:
        return ""
    return f"{row.seconds:.2f}" if row.proved else row.why


def markdown(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table."""
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    lines += ["| " + " | ".join(map(str, row)) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def write_rows(path: Path, rows: Sequence[Row]) -> None:
    """Write one row per method and graph."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([field.name for field in fields(Row)])
        writer.writerows(
            [round(value, 3) if isinstance(value, float) else value for value in astuple(row)]
            for row in rows
        )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
