"""Time to proof on generated graphs: training steps, checkpointed ones, random wiring.

python -m experiments.reach families [--seconds 60] [--largest | --blocks] [--workers 2]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from itertools import product

from experiments.reach.table import HEAD, line, solve_row, warm_up
from optsched.model.graph import Graph
from optsched.ordering import OrderingRules
from tests.support.families.copies import accumulated, branches, microbatches
from tests.support.families.wiring import checkpointed, random_wiring, training

USUAL: tuple[Callable[[], Graph], ...] = (
    lambda: training(28, 1),
    lambda: training(280, 1),
    lambda: training(1400, 1),
    lambda: training(1400, 2),
    lambda: checkpointed(12),
    lambda: checkpointed(24),
    lambda: checkpointed(48),
    lambda: random_wiring(64, 0),
    lambda: random_wiring(64, 1),
    lambda: random_wiring(64, 2),
    lambda: random_wiring(64, 0, unit=False),
    lambda: random_wiring(64, 1, unit=False),
    lambda: random_wiring(128, 0),
    lambda: random_wiring(128, 1),
    lambda: random_wiring(128, 2),
    lambda: random_wiring(128, 0, unit=False),
    lambda: random_wiring(128, 1, unit=False),
    lambda: random_wiring(128, 2, unit=False),
)
LARGEST: tuple[Callable[[], Graph], ...] = (
    lambda: training(14_000, 1),
    lambda: random_wiring(256, 0),
    lambda: random_wiring(256, 1),
    lambda: random_wiring(256, 2),
    lambda: random_wiring(256, 0, unit=False),
    lambda: random_wiring(256, 1, unit=False),
    lambda: random_wiring(256, 2, unit=False),
)
BLOCKS: tuple[Callable[[], Graph], ...] = (
    lambda: microbatches(4, 8),
    lambda: microbatches(8, 8),
    lambda: microbatches(4, 32),
    lambda: microbatches(8, 32),
    lambda: microbatches(8, 16),
    lambda: microbatches(16, 16),
    lambda: microbatches(32, 16),
    lambda: accumulated(8, 4),
    lambda: accumulated(8, 12),
    lambda: branches(6, 20, 1),
    lambda: branches(8, 20, 1),
    lambda: branches(64, 20, 1),
)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="experiments.reach families", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--seconds", type=float, default=60.0, help="limit per graph")
    parser.add_argument("--largest", action="store_true", help="the largest graphs instead")
    parser.add_argument(
        "--blocks",
        action="store_true",
        help="graphs of identical blocks instead, each without the rule for these as well",
    )
    parser.add_argument("--workers", type=int, default=1, help="of the exact part")
    args = parser.parse_args(argv)
    warm_up()
    print("the bound is the closure bound where the peak is proved, else the best bound")
    print(line(HEAD), flush=True)
    graphs = LARGEST if args.largest else BLOCKS if args.blocks else USUAL
    for make, symmetry in product(graphs, (True, False) if args.blocks else (True,)):
        rules = OrderingRules(symmetry=symmetry)
        print(line(solve_row(make(), rules, args.seconds, args.workers).values()), flush=True)
    return 0
