"""Plans, bounds and certificates of recompute on graphs with views, births and mutation.

Question: does any plan need more than it says, is any bound above the least extra compute, and is
any certificate refused, where views point to older copies of storages that are made again? The
oracle (`tests/support/recompute_views.py`) enumerates all states of all copies.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator

import numpy as np

from optsched.certificate.recompute import certify_recompute
from optsched.check.recompute import check_recompute
from optsched.check.runs import check_runs
from optsched.errors import GraphError, UsageError
from optsched.formats.recompute import read_recompute_document, recompute_document
from optsched.model.graph import Graph
from optsched.model.training import forward_ops
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits
from optsched.solver.recompute.result import RecomputeResult
from optsched.solver.recompute.solve import Planner
from tests.support.recompute_views import least_extra_of_copies, viewed_graph


def main(count: int = 300, seed: int = 1, *, time_limit: float = 10.0) -> int:
    found, started = Counter[str](), time.process_time()
    for i in range(count):
        for problem in compare(seed + i, time_limit, found):
            found["wrong"] += 1
            print(f"seed {seed + i}: {problem}", flush=True)
    counts = ", ".join(f"{number} {what}" for what, number in sorted(found.items()))
    print(f"{count} draws: {counts}; {time.process_time() - started:.0f} s")
    print(f"{found['wrong']} wrong.")
    return 1 if found["wrong"] else 0


def compare(seed: int, seconds: float, found: Counter[str]) -> Iterator[str]:
    """Plan the budgets of one graph; yield what contradicts the oracle."""
    try:
        graph = viewed_graph(np.random.default_rng(seed))
        # Half of the graphs name another loss, before which views belong to no part.
        makers = [v for v, op in enumerate(graph.ops) if op.name.startswith("f")]
        named = () if seed % 2 else (graph.ops[makers[seed // 2 % len(makers)]].name,)
        planner = Planner(graph, named)
    except (GraphError, UsageError):
        found["refused"] += 1
        return
    base = planner.find_base(Clock.of(Limits(seconds=seconds))).peak
    problem = planner.problem
    # Views run again as well, if they belong to the forward part.
    inside = forward_ops(problem.graph, problem.loss)
    again = {problem.ops[u] for u in problem.again} | (inside & set(problem.views))
    for peak in sorted({base, base - 1, base - 2, base * 4 // 5, base * 3 // 5}, reverse=True):
        truth = least_extra_of_copies(problem.graph, peak, again) if peak >= 0 else -1
        if truth == -1:
            continue
        try:
            result = planner.plan(peak, Clock.of(Limits(seconds=seconds)))
            wrong = contradiction(graph, result, truth)
        except Exception as error:
            wrong = repr(error)
        else:
            found[result.status] += 1
        if wrong:
            yield f"peak {peak}: {wrong}"


def contradiction(graph: Graph, result: RecomputeResult, truth: int | None) -> str | None:
    """Return what is wrong with a result, or None; `truth` is the least extra cost, if any."""
    written = recompute_document(graph, certify_recompute(result))
    if check_recompute(graph, read_recompute_document(graph, written)) != result.bound:
        return "bound differs from that of the certificate's file"
    if truth is not None and (result.bound is None or result.bound > truth):
        return f"bound {result.bound} above {truth}"
    if result.sequence is None:
        return None
    checked = check_runs(result.graph, result.sequence)
    inside = forward_ops(result.graph, [result.graph.op_ids[name] for name in result.loss])
    again = [v for v in {*result.sequence} if result.sequence.count(v) > 1 and v not in inside]
    if again:
        return f"op {graph.ops[again[0]].name!r} runs again and is not a forward op"
    if truth is None or checked.peak > result.budget or checked.extra < truth:
        return f"plan of peak {checked.peak} and cost {checked.extra}, least {truth}"
    return None if checked.extra == result.extra else f"cost {checked.extra}, said {result.extra}"
