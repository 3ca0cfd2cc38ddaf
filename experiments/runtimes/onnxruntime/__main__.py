"""`python -m experiments.runtimes.onnxruntime models|inplace|random|trip [MODEL...]`."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from experiments.runtimes.onnxruntime import inplace, random_models
from experiments.tables import markdown, replace_table
from optsched.runtime.heap import Heap, restart_with_counter
from tests.support import onnx_models as models


def main() -> None:
    """Do what the command line asks for."""
    parser = argparse.ArgumentParser(prog="experiments.runtimes.onnxruntime", description=__doc__)
    parser.add_argument("what", choices=("models", "inplace", "random", "trip"))
    parser.add_argument("models", nargs="*", help="of trip, perhaps PATH@LEVEL of optimization")
    parser.add_argument("--dim", action="append", default=["batch=2"], metavar="NAME=N")
    parser.add_argument("--seconds", type=float, default=10.0, help="of solving, a model")
    parser.add_argument("--count", type=int, default=150, help="of random models")
    parser.add_argument("--json", action="store_true", help="rows as JSON")
    parser.add_argument("--readme", action="store_true", help="put the table into README.md")
    args = parser.parse_args()
    if args.what == "models":
        models.main()
        return
    restart_with_counter()
    if args.what == "inplace":
        inplace.main()
        return
    if args.what == "random":
        random_models.main(args.count)
        return
    from experiments.runtimes.onnxruntime.trip import round_trip

    dims = {name: int(size) for name, size in (text.split("=") for text in args.dim)}
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for given in args.models or map(str, sorted(models.FOLDER.glob("*.onnx"))):
            path, _, level = given.partition("@")
            where, level = Path(folder), level or "ORT_ENABLE_BASIC"
            rows += round_trip(Path(path), Heap(), where, dims, level, args.seconds)
    if args.json:
        json.dump([asdict(row) for row in rows], sys.stdout)
        return
    lines = [list(map(_cell, asdict(row).values())) for row in rows]
    table = markdown([name.replace("_", " ") for name in asdict(rows[0])], lines)
    if args.readme:
        replace_table(Path(__file__).with_name("README.md"), "trips", table)
    print(table)


def _cell(value: str | int | bool) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}" if value else ""
    return value


if __name__ == "__main__":
    main()
