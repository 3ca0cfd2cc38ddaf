"""Odd graphs, searches cut short at random, two workers, and certificates with random mistakes.

    python -m tests.fuzz ordering.odd --count 1000 --seed 0

Each graph (up to 12 ops, see `odd_graphs`; every third one of identical blocks, or nearly so, see
`block_graphs`; every tenth one a random wiring of 26 to 40 ops) is solved a few times: rules off at
random, one worker or two, from random orders, with time limits from none at all to a moment. The
optimum is that of `definition`, which shares no code with this package and reads the same JSON.
If a search is stopped its bound must not exceed the optimum, and its peak not be below. For half
the graphs a certificate is written, and copies of it with something dropped, changed, swapped or
raised are checked: none may be accepted with a bound above the optimum.
A line is printed for each mistake, and one at the end.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

from optsched.certificate import CertificateEffort, certify_peak
from optsched.check.certificate import check_certificate
from optsched.errors import GraphError, OptschedError
from optsched.formats.certificate import certificate_document, read_certificate_document
from optsched.formats.native import read_graph_document
from optsched.model.graph import Graph
from optsched.ordering import ALL_RULES, OrderingRules, OrderOutcome, solve_order
from optsched.ordering.effort import OrderingEffort
from optsched.runtime import kernel as kernels
from optsched.runtime.limits import Limits
from tests.support.block_graphs import block_document
from tests.support.definition import Document, Model
from tests.support.odd_graphs import odd_document, wired_document

RUNS, MUTANTS = 4, 12
MOST_DOWNSETS = 60_000
MOMENTS = (0.0, 1e-4, 1e-3, 1e-2)
"""Seconds after which a search is cut short."""
PATIENCE = 10.0
"""Seconds after which a search of a large graph is left open."""


def main(count: int = 1_000, seed: int = 0) -> int:
    counts: Counter[str] = Counter(wrong=0)
    number = 0
    while counts["graphs"] < count:
        rng = random.Random(f"{seed}-{number}")
        number += 1
        large = number % 10 == 0
        make = odd_document if number % 3 else block_document
        document = wired_document(rng, rng.randint(26, 40)) if large else make(rng, 12)
        try:
            graph = read_graph_document(document)
        except GraphError:
            # Contents were to be read after they were overwritten.
            continue
        if rng.random() < 0.5:
            graph = graph.with_inplace()
            counts["in-place"] += 1
        counts["graphs"] += 1
        for mistake in examine(rng, graph, document, counts):
            counts["wrong"] += 1
            print(f"seed {seed}, graph {number - 1}: {mistake}", flush=True)
    print(", ".join(f"{count} {what}" for what, count in sorted(counts.items())))
    return 1 if counts["wrong"] else 0


def examine(
    rng: random.Random, graph: Graph, document: Document, counts: Counter[str]
) -> Iterator[str]:
    """Solve a graph a few times and say what is wrong."""
    model = Model(document, in_place=graph.in_place)
    optimum = model.least_peak(MOST_DOWNSETS)
    known = [] if optimum is None else [optimum]
    for _ in range(RUNS):
        first_flows, flow_work = rng.choice([(96, 1 << 23), (1, 0)])
        effort = OrderingEffort(
            first_states=rng.choice([1, 4, 64, 2_048]),
            first_turn=rng.choice([1, 2_048]),
            first_flows=first_flows,
            flow_work=flow_work,
        )
        kernels.policy.force = rng.choice([None, kernels.compiled_form])
        limits = some_limits(rng, large=model.n > 12)
        rules = some_rules(rng)
        start = some_order(rng, model) if rng.random() < 0.6 else None
        outcome = solve_order(graph, warm_start=start, rules=rules, limits=limits, effort=effort)
        counts["runs"] += 1
        counts["runs with two workers"] += limits.workers == 2
        counts["runs with identical blocks"] += outcome.statistics.blocks > 0
        counts["runs left open"] += outcome.proof is None
        if outcome.proof is not None:
            known.append(outcome.peak)
        if is_wrong(outcome, model, known, limits):
            yield f"{outcome}, of {known}, {rules}, {limits}, from {start}"
    if known and rng.random() < 0.5:
        yield from examine_certificate(rng, graph, outcome.order, known[0], counts)


def is_wrong(outcome: OrderOutcome, model: Model, known: list[int], limits: Limits) -> bool:
    """Return True if an outcome contradicts itself or the optimum, if that is known."""
    replayed = model.peak(outcome.order) == outcome.peak >= outcome.bound
    proved = (outcome.proof is not None) == (outcome.peak == outcome.bound)
    within = all(outcome.bound <= value <= outcome.peak for value in known)
    ended = outcome.proof is not None or limits.seconds is not None
    return not (replayed and proved and within and ended)


def examine_certificate(
    rng: random.Random, graph: Graph, order: tuple[int, ...], optimum: int, counts: Counter[str]
) -> Iterator[str]:
    """Write a certificate, and check it and copies with mistakes."""
    few = {"most_states": rng.choice([0, 5])} if rng.random() < 0.3 else {}
    written = certify_peak(graph, order, optimum, effort=CertificateEffort(**few))
    counts["certificates"] += 1
    if written.certificate.bound > optimum:
        yield f"certificate of {written.certificate.bound}, the optimum is {optimum}"
    text = json.dumps(certificate_document(graph, written.certificate))
    check_certificate(graph, read_certificate_document(graph, json.loads(text)))
    for _ in range(MUTANTS):
        mutant = json.loads(text)
        for _ in range(rng.randint(1, 2)):
            mutate(rng, mutant)
        counts["mutants"] += 1
        try:
            check_certificate(graph, read_certificate_document(graph, mutant))
        except OptschedError:
            counts["mutants refused"] += 1
            continue
        if mutant["bound"] > optimum:
            yield f"accepted, the optimum is {optimum}: {json.dumps(mutant)}"


def mutate(rng: random.Random, document: Document) -> None:
    """Change something: it may be for the worse, or make no difference."""
    if rng.random() < 0.3 or not document["steps"]:
        document["bound"] += rng.choice([1, 1, 5, 4096])
        return
    steps: list[Document] = document["steps"]
    i, j = rng.randrange(len(steps)), rng.randrange(len(steps))
    kind = rng.choice(["drop", "copy", "swap", *4 * ["change"]])
    if kind == "drop":
        del steps[i]
    elif kind == "copy":
        steps.insert(i, json.loads(json.dumps(steps[j])))
    elif kind == "swap":
        steps[i], steps[j] = steps[j], steps[i]
    else:
        mutate_step(rng, steps[i], len(document["ops"]))


def mutate_step(rng: random.Random, step: Document, ops: int) -> None:
    """Drop or change a number or row of a step, let it name other ops, or turn it round."""
    rows = [x for x in values_in(step) if isinstance(x, list) and x]
    row = rng.choice(rows) if rows else [0]
    at = rng.randrange(len(row))
    kind = rng.choice(["drop", "number", "names", "turn"])
    if kind == "drop":
        del row[at]
    elif kind == "number" and isinstance(row[at], int):
        row[at] = max(0, row[at] + rng.choice([-1, 1, 2, row[at]]))
    elif kind == "names":
        for key in ("op", "first", "second", "at", "input"):
            if key in step and step["kind"] != key and rng.random() < 0.5:
                step[key] = rng.randrange(ops)
    elif kind == "turn":
        ends = {"last": "first", "first": "last", "start": "end", "end": "start"}
        step["kind"] = ends.get(step["kind"], step["kind"])
        if "backward" in step:
            step["backward"] = not step["backward"]
        if "free" in step:
            step["free"], step["held"] = step["held"], step["free"]


def values_in(value: Any) -> Iterator[Any]:
    """A JSON value and all that is in it."""
    yield value
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from values_in(inner)


def some_rules(rng: random.Random) -> OrderingRules:
    """All rules, all but a few, or half of them."""
    names = [field.name for field in fields(OrderingRules)]
    count = rng.choice([0, 0, 1, 2, len(names) // 2])
    return replace(ALL_RULES, **dict.fromkeys(rng.sample(names, count), False))


def some_limits(rng: random.Random, *, large: bool) -> Limits:
    """One worker or two, with all the time or next to none."""
    seconds = rng.choice(MOMENTS) if rng.random() < 0.3 else PATIENCE if large else None
    return Limits(seconds=seconds, workers=rng.choice([1, 1, 2]), seed=rng.randrange(5))


def some_order(rng: random.Random, model: Model) -> list[int]:
    """A random order."""
    order: list[int] = []
    done = 0
    while len(order) < model.n:
        order.append(rng.choice(model.ready(done)))
        done |= 1 << order[-1]
    return order
