"""Exact ordering against brute force over all downsets, with the rules on and off.

    python -m tests.fuzz ordering.search --count 5000 --seed 0

Each random graph (up to 12 ops; births at other ops, unread products, kept and freed inputs, views,
mutation, control edges, zero sizes, workspace, several outputs) is solved with all rules and with
random subsets of them, from random warm starts, by the Python twins and by the compiled kernels,
with the usual effort in the first round and with next to none, so that the later stages come in.
Half of the graphs are in-place, with most pairs of an output and an input as candidates. A third
have all sizes multiplied, so that peaks lie on plateaus. Every fifth is made of identical blocks.
Of each graph a certificate of its optimum is written and checked, and the same certificate with a
higher bound must be refused.
A line is printed for each difference; the last line counts the runs.
"""

from __future__ import annotations

from dataclasses import fields, replace
from random import Random

import numpy as np

from optsched.certificate import certify_peak
from optsched.check.certificate import check_certificate
from optsched.check.plan import check_order
from optsched.errors import PlanError
from optsched.formats.native import read_graph_document
from optsched.model.graph import Graph
from optsched.ordering import ALL_RULES, OrderingRules, OrderOutcome, solve_order
from optsched.ordering.effort import OrderingEffort
from optsched.runtime import kernel as kernels
from tests.model.test_inplace import more_candidates
from tests.support.block_graphs import block_document
from tests.support.brute import least_peak
from tests.support.generators import PLANNABLE, random_graph, random_order

NAMES = [field.name for field in fields(OrderingRules)]
SIZES = (2, 4, 16, 1000, 2**40, 2**55)
FACTORS = (4096, 1_000_003, 2**40)
"""All sizes are multiplied by one of them; not those that are large already."""


def main(count: int = 5_000, seed: int = 0, *, ops: int = 12, subsets: int = 4) -> int:
    rng = np.random.default_rng(seed)
    runs = searched = relations = windows = wrong = in_place = scaled = certified = blocks = 0
    for number in range(count):
        graph = some_graph(rng, ops, number)
        in_place += graph.in_place
        scaled += graph.name == "scaled"
        optimum = least_peak(graph)
        chosen = [
            OrderingRules(**{name: bool(rng.integers(2)) for name in NAMES}) for _ in range(subsets)
        ]
        # All rules twice: with different efforts and starts.
        for rules in [ALL_RULES, ALL_RULES, *chosen]:
            # Nearly no flows in half the runs, so that the search has something left to do.
            first_flows, flow_work = [(96, 1 << 23), (1, 0)][rng.integers(2)]
            effort = OrderingEffort(
                first_states=int(rng.choice([1, 4, 8_192])),
                first_turn=int(rng.choice([1, 2_048])),
                local_ops=int(rng.choice([0, 1_000])),
                local_states=0,
                first_flows=first_flows,
                flow_work=flow_work,
            )
            kernels.policy.force = rng.choice([None, kernels.compiled_form])
            start = random_order(rng, graph)
            outcome = solve_order(graph, warm_start=start, rules=rules, effort=effort)
            runs += 1
            searched += outcome.statistics.stored > 0
            relations += outcome.statistics.relations
            windows += outcome.statistics.improved
            blocks += outcome.statistics.blocks > 0
            wrong += differs(graph, outcome, optimum, number, rules)
        kept = certificate_holds(graph, outcome.order, optimum)
        certified += kept
        if not kept:
            print(f"graph {number}: certificate of {optimum} is wrong or missing")
    print(
        f"{count} graphs ({in_place} in-place, {scaled} with factors), {runs} runs, "
        f"{searched} of them searched, {relations} implied precedences, "
        f"{windows} windows improved, {blocks} runs with identical blocks: "
        f"{wrong} wrong; {certified} certificates hold"
    )
    return 1 if wrong or certified < count else 0


def some_graph(rng: np.random.Generator, ops: int, number: int) -> Graph:
    """A random graph; every second one is in-place, every third one has multiplied sizes."""
    size = int(rng.choice(SIZES))
    features = PLANNABLE | {"shuffled"}
    graph = random_graph(rng, int(rng.integers(0, ops + 1)), max_size=size, features=features)
    if number % 5 == 4:
        document = block_document(Random(int(rng.integers(2**32))), max(2, ops))
        graph = read_graph_document(document)
        size = max((buffer.size for buffer in graph.buffers), default=0)
    if number % 2:
        graph = more_candidates(rng, graph).with_inplace()
    if number % 3 == 0 and size <= 1000:
        factor = int(rng.choice(FACTORS))
        buffers = (replace(buffer, size=factor * buffer.size) for buffer in graph.buffers)
        graph = replace(graph, name="scaled", buffers=tuple(buffers))
    return graph


def certificate_holds(graph: Graph, order: tuple[int, ...], optimum: int) -> bool:
    """Return True if a certificate of the optimum is found and accepted, and one of more is not."""
    written = certify_peak(graph, order, optimum)
    check_certificate(graph, written.certificate)
    # One byte more is false, so the checker must refuse it.
    higher = replace(written.certificate, bound=optimum + 1)
    try:
        check_certificate(graph, higher)
    except PlanError:
        return written.certificate.bound == optimum
    return False


def differs(
    graph: Graph, outcome: OrderOutcome, optimum: int, number: int, rules: OrderingRules
) -> bool:
    """Print and return True if an outcome is wrong."""
    replayed = check_order(graph, outcome.order)
    if replayed == outcome.peak == outcome.bound == optimum and outcome.proof is not None:
        return False
    print(f"graph {number}: optimum {optimum}, replayed {replayed}, {outcome}, {rules}")
    return True
