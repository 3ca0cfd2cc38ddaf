"""Time to proof on generated graphs: training steps, checkpointed ones, random wiring.

python -m experiments.ordering_families [--seconds 60] [--largest] [--workers 2]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

from experiments.ordering_families.generate import checkpointed, random_wiring, training
from experiments.ordering_table.__main__ import HEAD, line, solve_row, warm_up
from optsched.graph import Graph
from optsched.ordering import Rules

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
    lambda: random_wiring(256, 0, unit=False),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="limit per graph")
    parser.add_argument("--largest", action="store_true", help="the largest graphs instead")
    parser.add_argument("--workers", type=int, default=1, help="of the exact part")
    args = parser.parse_args()
    warm_up()
    print("the bound is the closure bound where the peak is proved, else the best bound")
    print(line(HEAD), flush=True)
    for make in LARGEST if args.largest else USUAL:
        print(line(solve_row(make(), Rules(), args.seconds, args.workers)), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
