"""Splits, orders, bounds and certificates of random tiny fused graphs against enumeration.

Question: does the search of fused graphs ever miss the least peak over all splits of all nodes and
all orders, prove a bound above it, or write a certificate that the checker refuses, or accepts for
one byte more? Splits are all set partitions (`tests/support/brute_fusion.py`), so the claim that
only choices matter is tested too.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

import numpy as np

from optsched.certificate.fusion import certify_fusion
from optsched.check.fused import check_fusion, check_split
from optsched.errors import PlanError
from optsched.model.fused import FusedGraph
from optsched.model.fusion import arranged, finest_split, merge
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits
from optsched.solver.fusion.price import shrink
from optsched.solver.fusion.search import search_fusion
from optsched.solver.pipeline import solve
from tests.support.brute_fusion import (
    all_splits,
    brute_force,
    least_peak,
    random_fused,
    random_stages,
)


def main(count: int = 300, seed: int = 1, *, time_limit: float = 20.0, progress: int = 0) -> int:
    wrong, started, lower, branched = 0, time.process_time(), 0, 0
    for i in range(count):
        fused = _draw(seed + i)
        for problem in compare(fused, seed + i, time_limit):
            wrong += 1
            print(f"seed {seed + i}: {problem}", flush=True)
        found = search_fusion(fused, _clock(time_limit))
        lower, branched = lower + (found.saved > 0), branched + (found.branches > 0)
        if progress and (i + 1) % progress == 0:
            print(f"{i + 1} graphs, {wrong} wrong", flush=True)
    spent = time.process_time() - started
    print(
        f"{count} graphs, {lower} with a lower peak once cut, {branched} with branches, "
        f"{spent:.0f} s, {wrong} wrong."
    )
    return 1 if wrong else 0


def _draw(seed: int) -> FusedGraph:
    """Return a graph: in two of seven, other ops wait between the parts of nodes."""
    rng = np.random.default_rng(seed)
    return random_stages(rng) if seed % 7 < 2 else random_fused(rng, inplace=bool(seed % 3))


def _clock(seconds: float) -> Clock:
    return Clock.of(Limits(seconds=seconds))


def compare(fused: FusedGraph, seed: int, seconds: float) -> Iterator[str]:
    """Search a graph; yield what contradicts the enumeration."""
    truth = brute_force(fused)
    found = search_fusion(fused, _clock(seconds))
    if not found.bound <= truth <= found.best.peak:
        yield f"least peak {truth}, found {found.best.peak}, bound {found.bound}"
    elif not found.proved:
        yield f"not proved: {found.best.peak}, bound {found.bound}"
    if found.whole.peak < found.best.peak:
        yield f"whole {found.whole.peak} is below the best {found.best.peak}"
    cheap = shrink(found, found.best.peak, _clock(seconds))
    again = check_split(fused, cheap.groups)
    if again.peak > found.best.peak or again.kernels > found.best.kernels:
        yield f"shrunk to {again}, from {found.best}"
    written = certify_fusion(found, _clock(seconds))
    if written.certificate.bound != found.bound:
        yield f"certified {written.certificate.bound} of {found.bound}: {written.missing}"
    with suppress(PlanError):
        check_fusion(fused, replace(written.certificate, bound=found.bound + 1))
        yield f"a certificate of {found.bound} is accepted for one byte more"
    yield from _compare_splits(fused, seed)


def _compare_splits(fused: FusedGraph, seed: int) -> Iterator[str]:
    """Compare merged graphs of a few splits with the enumeration, and with finest splits."""
    splits = list(all_splits(fused))
    rng = np.random.default_rng(seed)
    for i in rng.permutation(len(splits))[:4].tolist():
        truth = least_peak(fused, splits[i])
        split = arranged(fused, splits[i])
        if (len(split) < len(splits[i])) != (truth is None):
            yield f"split {splits[i]}: cycle seen by one only"
        if truth is None:
            continue
        result = solve(merge(fused, split), objective="peak", time_limit=20)
        assert result.plan is not None
        checked = check_split(fused, [split[v] for v in result.plan.order]).peak
        if not truth == result.peak == checked:
            yield f"split {split}: least {truth}, solved {result.peak}, checked {checked}"
        kept = {b for b in fused.local if any(fused.users[b] <= set(g) for g in split)}
        finer = least_peak(fused, finest_split(fused, kept))
        if finer is None or finer > truth:
            yield f"split {split}: the finest split of its choice needs {finer}, not {truth}"
