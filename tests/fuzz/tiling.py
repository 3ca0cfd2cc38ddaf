"""Tilings of random tiny graphs against all tilings: plans, costs, bounds, and the checkers.

Question: does the planner ever miss a tiling that is proved not to exist, state a cost or a bound
above one that exists, write a certificate that does not hold, or do the checkers accept a program
with one corrupted row, place or offset?
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from optsched.certificate.tiling import certify_tiling
from optsched.check.plan import check_plan
from optsched.check.tiling import check_tiled
from optsched.check.tiling_bound import check_tiling_bound
from optsched.errors import OptschedError, PlanError, UsageError
from optsched.model.plan import Plan
from optsched.model.rows import Rows
from optsched.model.tiled import TiledGraph, TiledKind
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits
from optsched.solver.status import Status
from optsched.solver.tiling.solve import tile
from tests.support.row_maps import all_tilings, least_slab, random_rows

MOST_TILINGS = 600
"""Graphs with more tilings are passed over."""


def main(
    count: int = 100, seed: int = 1, *, bands: int = 3, ops: int = 3, progress: int = 50
) -> int:
    found, wrong = Counter[str](), 0
    for k in range(seed, seed + count):
        for problem in compare(random_rows(k, ops), bands, found, random.Random(k)):
            wrong += 1
            print(f"seed {k}: {problem}", flush=True)
        if (k - seed + 1) % progress == 0:
            print(f"{k - seed + 1}: {dict(found)}, {wrong} wrong", flush=True)
    print(f"{dict(found)}, {wrong} wrong.")
    return 1 if wrong else 0


def compare(rows: Rows, bands: int, found: Counter[str], rng: random.Random) -> Iterator[str]:
    """Yield what is wrong with the answers about a graph; count the comparisons."""
    plans: list[tuple[int, int, int]] = []
    samples: list[tuple[TiledGraph, Plan]] = []
    for number, (tiled, order) in enumerate(all_tilings(rows, bands)):
        if number >= MOST_TILINGS:
            return
        slab, plan = least_slab(tiled, order)
        checked = check_tiled(tiled, plan)
        if checked.head != tiled.head(plan) or check_plan(tiled.graph, plan).slab != slab:
            yield f"{tiled.tiling}: heads differ"
        plans.append((slab, checked.head, checked.extra))
        if rng.random() < 0.05:
            samples.append((tiled, plan))
    if all(isinstance(op, str) for op in rows.ops):
        return
    found["graphs"] += 1
    found["tilings"] += len(plans)
    heads = sorted({head for _, head, _ in plans})
    for capacity in rng.sample([*heads, heads[0] - 16], min(4, len(heads) + 1)):
        yield from _compare_capacity(rows, bands, plans, capacity, found)
    extras = sorted({extra for *_, extra in plans if extra >= 0})
    for extra in rng.sample(extras, min(2, len(extras))):
        yield from _compare_extra(rows, bands, plans, extra, found)
    yield from _compare_certificate(rows, bands, min(plans)[0], found)
    for tiled, plan in samples[:3]:
        yield from refused(tiled, plan, rng, found)


def _compare_capacity(
    rows: Rows, bands: int, plans: list[tuple[int, int, int]], capacity: int, found: Counter[str]
) -> Iterator[str]:
    result = tile(rows, capacity=capacity, bands=bands, objective="head", limits=Limits(seconds=20))
    fits = [extra for _, head, extra in plans if head <= capacity]
    packs = [extra for slab, _, extra in plans if slab <= capacity]
    if result.bound > max(capacity + 1, min(slab for slab, *_ in plans)):
        yield f"capacity {capacity}: no tiling is said to be below {result.bound}"
    if result.best is None:
        found[str(result.status)] += 1
        # A plan that is not found in time is not a false statement.
        if fits and result.status is Status.INFEASIBLE:
            yield f"capacity {capacity}: {min(fits)} was missed, {result}"
        return
    best = result.best
    # Of packings with one slab, the rounded ends of views decide the head: only a slab is a bound.
    if result.size(best) > capacity or best.extra < min(packs):
        yield f"capacity {capacity}: {best.head} at {best.extra}, least {min(packs)}"
    if best.bound is not None and best.bound > min(packs):
        yield f"capacity {capacity}: bound {best.bound} above {min(packs)}"
    found["cheapest proved" if best.proved else "cheapest not proved"] += 1


def _compare_extra(
    rows: Rows, bands: int, plans: list[tuple[int, int, int]], extra: int, found: Counter[str]
) -> Iterator[str]:
    cost = sum(op.cost * rows.heights[op.output] for op in rows.ops if not isinstance(op, str))
    if not cost:
        return
    share = (extra + 0.5) / cost
    result = tile(rows, extra=share, bands=bands, objective="head", limits=Limits(seconds=20))
    slab = min(slab for slab, _, cost in plans if cost <= extra)
    assert result.best is not None
    if result.best.head < slab or result.bound > slab:
        yield f"extra {extra}: {result}, least {slab}"
    found["smallest proved" if result.status is Status.OPTIMAL else "smallest not proved"] += 1


def _compare_certificate(rows: Rows, bands: int, least: int, found: Counter[str]) -> Iterator[str]:
    try:
        certificate = certify_tiling(rows, bands, Clock.of(Limits(seconds=20)))
    except UsageError:
        return
    except PlanError as error:
        yield f"the certificate does not hold: {error}"
        return
    found["certificates tight"] += certificate.bound == least
    found["certificates"] += 1
    if certificate.bound > least:
        yield f"certificate {certificate.bound} above {least}"
    try:
        check_tiling_bound(rows, replace(certificate, bound=least + 1))
    except PlanError:
        return
    yield f"a certificate of {least + 1} was accepted, {least} exists"


def refused(
    tiled: TiledGraph, plan: Plan, rng: random.Random, found: Counter[str]
) -> Iterator[str]:
    """Yield each corruption of a program that the checker accepts although it changes results."""
    for kind, (other, changed) in corrupted(tiled, plan, rng).items():
        try:
            check_tiled(other, changed)
        except (PlanError, OptschedError):
            found[f"refused: {kind}"] += 1
        else:
            yield f"{tiled.tiling}: a program with {kind} was accepted"


def corrupted(
    tiled: TiledGraph, plan: Plan, rng: random.Random
) -> dict[str, tuple[TiledGraph, Plan]]:
    """Return a program with one corruption of each kind that it has room for."""
    made: dict[str, tuple[TiledGraph, Plan]] = {}
    views = [t for t, x in enumerate(tiled.tensors) if x.shift]
    if views:
        t = rng.choice(views)
        tensor = tiled.tensors[t]
        width = tensor.size // tensor.rows
        made["a view one row off"] = _with_tensor(tiled, t, shift=tensor.shift - width), plan
        made["a wrong first row"] = _with_tensor(tiled, t, first=tensor.first + 1), plan
    split = [place for place in tiled.places if len(place.pieces) > 1]
    if split:
        piece = rng.choice(rng.choice(split).pieces[1:])[0]
        offsets = [at if b != piece or at is None else at + 4 for b, at in enumerate(plan.offsets)]
        made["a piece apart"] = tiled, replace(plan, offsets=tuple(offsets))
    # A view may be taken early, but a join has nothing to join then.
    joins = [v for v, op in enumerate(tiled.ops) if op.kind is TiledKind.JOIN]
    if joins:
        v = rng.choice(joins)
        order = [u for u in plan.order if u != v]
        made["an op left out"] = tiled, replace(plan, order=tuple(order))
        made["an op too early"] = tiled, replace(plan, order=(v, *order))
    return {kind: x for kind, x in made.items() if x != (tiled, plan)}


def _with_tensor(tiled: TiledGraph, t: int, **changed: int) -> TiledGraph:
    tensors = list(tiled.tensors)
    tensors[t] = replace(tensors[t], **changed)
    return replace(tiled, tensors=tuple(tensors))
