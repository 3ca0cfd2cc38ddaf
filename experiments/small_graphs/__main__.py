"""Write the small graphs to a folder: `python -m experiments.small_graphs [FOLDER]`."""

from __future__ import annotations

import csv
import sys
from pathlib import Path

from experiments.small_graphs.graphs import SMALL_GRAPHS
from optsched.formats import write_graph


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "best_known.csv").open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["instance", "ops", "buffers", "peak", "slab"])
        for make, (peak, slab) in SMALL_GRAPHS.items():
            graph = make()
            write_graph(folder / f"{graph.name}.json", graph)
            table.writerow([graph.name, len(graph.ops), len(graph.buffers), peak, slab])


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "instances/small"))
