"""Modules solved as a whole against enumeration of all orders of all computations.

    python -m tests.fuzz modules --count 2000 --seed 0

Each random module (up to three computations of up to four ops; every feature of graphs but pools
and pins) is solved for its least peak, half of them in-place, and a third with results inside of
what is called; every fifth one for its least slab as well, and every tenth gets certificates. The
last line counts what differs.
"""

from __future__ import annotations

import numpy as np

from optsched.certificate import certify_module
from optsched.check.module import check_module_certificate
from optsched.runtime.limits import Limits
from optsched.solver.module import solve_module
from tests.support.generators import PLANNABLE
from tests.support.module_oracle import FEATURES, least_of, peak_of, random_module, slab_of

SMALL = FEATURES - {"multi"}


def main(count: int = 2_000, seed: int = 0) -> int:
    counts, wrong = compare(count, seed)
    print(f"{counts}; {wrong} wrong")
    return 1 if wrong else 0


def compare(modules: int, seed: int) -> tuple[dict[str, int], int]:
    """Return the numbers of modules solved, by kind, and the number that differ."""
    rng = np.random.default_rng(seed)
    counts = {"peaks": 0, "in-place": 0, "inside": 0, "slabs": 0, "certificates": 0, "calls": 0}
    wrong = 0
    for number in range(modules):
        inside, in_place = number % 3 == 2, number % 2 == 1
        module = random_module(rng, features=PLANNABLE | {"shuffled"}, inside=inside)
        if in_place:
            module = module.with_graphs(lambda graph: graph.with_inplace())
        found = solve_module(module, objective="peak", time_limit=60)
        optimum = least_of(module, peak_of)
        entry = found.entry
        right = (entry.peak, entry.peak_bound, found.status) == (optimum, optimum, "optimal")
        wrong += differs(number, "peak", right, f"{optimum}, {found}")
        counts["peaks"] += 1
        counts["in-place"] += in_place
        counts["inside"] += inside
        counts["calls"] += len(module.calls)
        if number % 10 == 0:
            bounds, limits = found.peak_bounds, Limits(seconds=60)
            written = certify_module(module, found.orders, bounds, limits=limits)
            shown = {name: row.certificate for name, row in written.items()}
            right = check_module_certificate(module, shown)[module.entry] == optimum
            wrong += differs(number, "certificate", right, str(written[module.entry].missing))
            counts["certificates"] += 1
        if number % 5 == 0:
            module = random_module(rng, ops=3, max_size=6, features=SMALL)
            found = solve_module(module, time_limit=60)
            optimum = least_of(module, slab_of)
            right = (found.entry.slab, found.entry.slab_bound) == (optimum, optimum)
            least = least_of(module, peak_of)
            right = right and found.entry.peak_bound <= least <= (found.entry.peak or 0)
            if found.covers_interleaving:
                right = right and least == optimum
            wrong += differs(number, "slab", right, f"{optimum}, {found}")
            counts["slabs"] += 1
    return counts, wrong


def differs(number: int, what: str, right: bool, text: str) -> bool:
    """Print a difference."""
    if not right:
        print(f"module {number}: {what}: {text}")
    return not right
