"""Write the small graphs to a folder: `python -m experiments.small_graphs [FOLDER]`."""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

from optsched.formats import write_graph
from tests.support.families.small import SMALL_GRAPHS


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default=Path("instances/small"))
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "best_known.csv").open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["instance", "ops", "buffers", "peak", "slab"])
        for make, (peak, slab) in SMALL_GRAPHS.items():
            graph = make()
            write_graph(graph, folder / f"{graph.name}.json")
            table.writerow([graph.name, len(graph.ops), len(graph.buffers), peak, slab])


if __name__ == "__main__":
    main()
