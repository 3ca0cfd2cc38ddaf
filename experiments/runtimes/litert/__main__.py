"""LiteRT's own packing of the project's models: `python -m experiments.runtimes.litert`."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from experiments.tables import markdown, replace_table, write_rows
from optsched import pack
from optsched.check.packing import check_packing
from optsched.formats import write_packing
from tests.support.litert import record

HERE = Path(__file__).parent
INSTANCES = Path(__file__).parents[3] / "instances" / "tflite"


@dataclass(frozen=True)
class Row:
    """One model; bytes.

    Parameters
    ----------
    model, tensors
        The model, and how many tensors lie in the arena.
    in_place
        Outputs that LiteRT wrote into an input.
    recorded
        Slab of LiteRT's own offsets, of the file's tensors alone.
    bound, slab
        Lower bound on every packing of these live ranges, and slab of our packing.
    arena
        The arena with the temporaries of the kernels.
    """

    model: str
    tensors: int
    in_place: int
    recorded: int
    bound: int
    slab: int
    arena: int


def measure(path: Path, folder: Path | None) -> Row:
    found = record(path)
    check_packing(found.problem, found.offsets.tolist())
    if folder is not None:
        write_packing(found.problem, folder / f"{path.stem}.litert.csv", found.offsets)
    best = pack(found.problem, time_limit=20)
    if best.slab is None:
        raise RuntimeError(f"{path}: no packing in twenty seconds")
    return Row(
        path.stem,
        len(found.problem),
        len(found.shared),
        found.slab,
        best.slab_bound,
        best.slab,
        found.arena,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, help="write the packings (CSV) here")
    parser.add_argument("models", nargs="*", type=Path, help="instead of the project's own")
    args = parser.parse_args()
    rows = [measure(x, args.output) for x in args.models or sorted(INSTANCES.glob("*.tflite"))]
    head = [
        "model",
        "tensors",
        "in place",
        "LiteRT's slab",
        "bound",
        "least slab",
        "with temporaries",
    ]
    lines = []
    for x in rows:
        numbers = (x.tensors, x.in_place, x.recorded, x.bound, x.slab, x.arena)
        lines.append([x.model, *(f"{n:,}" for n in numbers)])
    table = markdown(head, lines)
    if not args.models:
        write_rows(HERE / "results.csv", rows)
        used = f"ai-edge-litert {version('ai-edge-litert')}"
        replace_table(HERE / "README.md", "litert", f"{table}\nWith {used}.\n")
    print(table)


if __name__ == "__main__":
    main()
