"""Plans, bounds and proofs of recompute on random tiny training graphs.

Question: does any plan, bound, proof of impossibility or certificate of the planner contradict
Dijkstra's algorithm over (ops done, storages live), with any number of repeats? Each graph is
planned for budgets from its least peak without repeats down to 3/5 of it. The oracle
(`tests/support/brute_recompute.py`) shares no code with the planner. Certificates with one field
changed must not prove more than the truth.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np

from optsched.certificate.recompute import certify_recompute
from optsched.check.recompute import check_recompute
from optsched.check.runs import check_runs
from optsched.errors import OptschedError
from optsched.formats.recompute import read_recompute_document, recompute_document
from optsched.model.graph import Graph
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits
from optsched.solver.recompute.result import RecomputeResult
from optsched.solver.recompute.solve import Planner
from tests.support.brute_recompute import least_extra, training_graph
from tests.support.corrupt_recompute import corruptions

SHOWN = ("optimal", "feasible", "infeasible", "unknown")
CORRUPTED = 20
"""Changed certificates that are checked for each budget."""


def main(count: int = 300, seed: int = 1, *, time_limit: float = 10.0, progress: int = 0) -> int:
    found, wrong = Counter[str](), list[str]()
    started = time.process_time()
    for i in range(count):
        for problem in compare(seed + i, time_limit, found):
            wrong.append(f"seed {seed + i}: {problem}")
            print(wrong[-1], flush=True)
        if progress and (i + 1) % progress == 0:
            print(summary(i + 1, found, wrong, started), flush=True)
    print(summary(count, found, wrong, started))
    return 1 if wrong else 0


def summary(graphs: int, found: Counter[str], wrong: list[str], started: float) -> str:
    """Return one line of counts."""
    counts = ", ".join(f"{found[x]} {x}" for x in SHOWN)
    exact = f"{found['least plan']} of {found['possible']} least plans found"
    refused = f"{found['impossible proved']} of {found['impossible']} impossible budgets proved"
    spent = f"{time.process_time() - started:.0f} s"
    budgets = sum(found[x] for x in SHOWN)
    return f"{graphs} graphs, {budgets} budgets ({counts}), {exact}, {refused}, {spent}, " + (
        f"{len(wrong)} wrong."
    )


def compare(seed: int, seconds: float, found: Counter[str]) -> Iterator[str]:
    """Plan the budgets of one graph; yield what contradicts the oracle."""
    graph = training_graph(np.random.default_rng(seed))
    planner = Planner(graph)
    again = [planner.problem.ops[u] for u in planner.problem.again]
    base = planner.find_base(Clock.of(Limits(seconds=seconds))).peak
    # At the least peak without repeats nothing costs; just below it the first repeat is needed.
    for peak in sorted({base, base - 1, base - 2, base * 4 // 5, base * 3 // 5}, reverse=True):
        if peak > 0:
            truth = least_extra(planner.problem.graph, peak, again)
            try:
                result = planner.plan(peak, Clock.of(Limits(seconds=seconds)))
                problem = contradiction(graph, peak, result, truth)
            except Exception as error:
                yield f"peak {peak}: {error!r}"
                continue
            count(result, truth, found)
            if problem:
                yield f"peak {peak}: {problem}"


def count(result: RecomputeResult, truth: int | None, found: Counter[str]) -> None:
    found[result.status] += 1
    found["impossible" if truth is None else "possible"] += 1
    found["impossible proved"] += result.status == "infeasible"
    found["least plan"] += truth is not None and result.extra == truth


def contradiction(
    graph: Graph, peak: int, result: RecomputeResult, truth: int | None
) -> str | None:
    """Return what is wrong with a result, or None; `truth` is the least extra cost, if any."""
    certificate = certify_recompute(result)
    written = recompute_document(graph, certificate)
    if check_recompute(graph, read_recompute_document(graph, written)) != result.bound:
        return "bound differs from that of the certificate's file"
    if truth is None:
        return None if result.sequence is None else "plan of an impossible budget"
    if result.bound is None or result.bound > truth:
        return f"bound {result.bound} above {truth}"
    if certificate.peak == peak and (field := _accepted(graph, written, truth)):
        return f"bound {truth + 1} certified with another {field}"
    return _wrong_plan(peak, result, truth)


def _wrong_plan(peak: int, result: RecomputeResult, truth: int) -> str | None:
    if result.sequence is None:
        return None
    checked = check_runs(result.graph, result.sequence)
    if checked.peak > peak or checked.extra != result.extra or checked.extra < truth:
        return f"plan of peak {checked.peak} and cost {checked.extra}, stated {result.extra}"
    return None


def _accepted(graph: Graph, document: dict[str, Any], truth: int) -> str | None:
    """Return a changed field of a certificate that then proves more than the truth, or None."""
    claims = [("bound", document), *corruptions(graph, document)]
    # Spread over all fields: each takes a full check.
    for field, changed in claims[:: 1 + len(claims) // CORRUPTED]:
        with suppress(OptschedError):
            claimed = read_recompute_document(graph, changed | {"bound": truth + 1})
            check_recompute(graph, claimed)
            return field
    return None
