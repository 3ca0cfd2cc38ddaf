"""Random ways to undo fusions of captured graphs: no order of any of them is below the bound.

    python -m experiments.fusion.choices FOLDER [NAME ..] [--count N]

For each graph of the folder that cuts can change, splits are drawn: each local buffer stays with a
random probability, and nodes are then made whole again at random. The order engine orders each
split. A line has the bound on all splits, the number of splits, the least peak among them, and how
many are below the bound, which would refute it.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from optsched.check.fused import check_split
from optsched.formats.fused import read_fused
from optsched.model.fused import FusedGraph, Split
from optsched.model.fusion import arranged, finest_split
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits
from optsched.solver.fusion.oracle import Oracle
from optsched.solver.fusion.search import search_fusion

WORK = 1_000_000
"""Units of work for the bound; each random split gets a tenth."""


def random_split(fused: FusedGraph, random: np.random.Generator) -> Split:
    """Return a split that keeps a random part of the local buffers and of the nodes whole."""
    stays, whole = random.random(2)
    split = finest_split(fused, {b for b in sorted(fused.local) if random.random() < stays})
    kept = {k for k in range(len(fused.nodes)) if random.random() < whole}
    groups = [g for g in split if fused.node_of.get(g[0]) not in kept]
    return arranged(fused, [*groups, *(fused.nodes[k] for k in sorted(kept))])


def peaks(fused: FusedGraph, count: int, seed: int) -> Iterator[int]:
    """Yield the checked peaks of random splits, each in the best order found."""
    random = np.random.default_rng(seed)
    for _ in range(count):
        oracle = Oracle(fused, Clock.of(Limits(work=WORK // 10)))
        yield check_split(fused, oracle.solve(random_split(fused, random)).groups).peak


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m experiments.fusion.choices")
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--count", type=int, default=50)
    given = parser.parse_args()
    files = sorted(given.folder.glob("*.json.gz"))
    for path in files:
        name = path.name.removesuffix(".json.gz")
        if given.names and name not in given.names:
            continue
        fused = read_fused(path)
        bound = search_fusion(fused, Clock.of(Limits(work=WORK))).bound
        found = list(peaks(fused, given.count, seed=1))
        below = sum(peak < bound for peak in found)
        print(f"{name}: bound {bound:,}, {len(found)} splits, least {min(found):,}, {below} below")


if __name__ == "__main__":
    main()
