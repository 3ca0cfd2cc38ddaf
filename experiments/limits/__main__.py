"""By how much limits are passed: every engine and option on large graphs and live ranges.

    python -m experiments.limits [--shape star] [--case pools] [--ops 3000] [--limit 2]

Each case has a process of its own. Kernels are compiled before; loading them is part of the time.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence

from experiments.limits.cases import PACKS, RANGES, SOLVES
from experiments.limits.commands import COMMANDS, FILES, reading_seconds
from experiments.limits.shapes import SHAPES
from experiments.limits.watch import watched
from optsched.runtime.kernel import compile_seconds

HEAD = ("case", "shape", "ops", "allowed", "seconds", "ratio", "silence", "MiB", "found", "where")
WIDTHS = (18, 12, 7, 6, 8, 6, 8, 6, 36, 0)
ALLOWED = 1.2, 1.0
"""A limit may be passed by this factor, and by as many seconds besides."""
LARGE = 30_000
"""Ops beyond which a command may take as many seconds besides as reading the file does."""
PATIENCE = 30
"""A case is ended after this many times what it is allowed."""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="experiments.limits", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--ops", type=int, nargs="+", default=[3_000, 30_000])
    parser.add_argument("--limit", type=float, default=2.0)
    parser.add_argument("--shape", choices=[*SHAPES, *RANGES, *FILES], nargs="+")
    parser.add_argument("--case", choices=[*SOLVES, *PACKS, *COMMANDS], nargs="+")
    parser.add_argument("--late", action="store_true", help="show only cases that take too long")
    parser.add_argument("--one", action="store_true", help="in this process, as JSON")
    args = parser.parse_args(argv)
    if args.one:
        print(json.dumps(measure(args.case[0], args.shape[0], args.ops[0], args.limit)))
        return 0
    print(line(HEAD), flush=True)
    late = 0
    for ops in args.ops:
        for case, shape in chosen(args.case, args.shape):
            row, is_late = measured(case, shape, ops, args.limit)
            late += is_late
            if is_late or not args.late:
                print(line(row), flush=True)
    print(f"{late} late")
    return int(late > 0)


def chosen(cases: Sequence[str] | None, shapes: Sequence[str] | None) -> Iterator[tuple[str, str]]:
    """Yield the cases, each with the shapes that it is for."""
    for known, made in ((SOLVES, SHAPES), (PACKS, RANGES)):
        for shape in made:
            for case in known:
                if case in (cases or known) and shape in (shapes or made):
                    yield case, shape
    for case, (shape, _) in COMMANDS.items():
        if case in (cases or COMMANDS) and shape in (shapes or FILES):
            yield case, shape


def allowed(limit: float) -> float:
    """Return the seconds that a case with a limit may take."""
    return ALLOWED[0] * limit + ALLOWED[1]


def measured(case: str, shape: str, ops: int, limit: float) -> tuple[tuple[object, ...], bool]:
    """Measure one case in a process of its own; return its row, and whether it is too late."""
    command = [sys.executable, "-m", "experiments.limits", "--one", "--shape", shape]
    command += ["--case", case, "--ops", str(ops), "--limit", str(limit)]
    patience = PATIENCE * allowed(limit) * max(1, ops // LARGE)
    try:
        done = subprocess.run(
            command, check=False, capture_output=True, text=True, timeout=patience
        )
    except subprocess.TimeoutExpired:
        return (case, shape, ops, limit, f"> {patience:.0f} by the clock"), True
    if done.returncode:
        return (case, shape, ops, limit, done.stderr.strip().splitlines()[-1]), True
    found = json.loads(done.stdout)
    row = tuple(found[key] for key in HEAD)
    return row, found["seconds"] > found["allowed"]


def measure(case: str, shape: str, ops: int, limit: float) -> dict[str, object]:
    """Run one case; all times are the processor's."""
    may_take = allowed(limit)
    if case in COMMANDS:
        file = FILES[shape](ops)
        run = COMMANDS[case][1](file)
        if ops > LARGE:
            may_take = ALLOWED[0] * limit + reading_seconds(file)
    elif case in SOLVES:
        run = SOLVES[case](SHAPES[shape](ops))
    else:
        run = PACKS[case](RANGES[shape](ops))
    started, compiled = time.process_time(), compile_seconds()
    with watched() as watch:
        found = run(limit)
    # Compiling happens once, and no limit counts it.
    spent = time.process_time() - started - (compile_seconds() - compiled)
    return {
        "case": case,
        "shape": shape,
        "ops": ops,
        "limit": limit,
        "allowed": round(may_take, 2),
        "seconds": round(spent, 2),
        "ratio": round(spent / limit, 2),
        "silence": round(watch.silence, 2),
        "MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "found": found,
        "where": watch.place,
    }


def line(cells: Sequence[object]) -> str:
    """One line of the table."""
    return "  ".join(
        str(cell).ljust(width) if i in (0, 1, 8, 9) else str(cell).rjust(width)
        for i, (cell, width) in enumerate(zip(cells, WIDTHS, strict=False))
    )


if __name__ == "__main__":
    sys.exit(main())
