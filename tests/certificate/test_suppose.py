"""Suppositions on a graph small enough to do the proof by hand: no part of it can be changed.

Three ops write 2 bytes each that are kept, with 10 more while they run, so that whichever is last
has 6 + 10 bytes; and what frees the 2 bytes of the input waits for 2 others that are kept: 18.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

import pytest

from optsched.certificate.states import list_states
from optsched.check.certificate import Certificate, Step, check_certificate
from optsched.check.network import Flow, Network
from optsched.check.steps import OpStep, OrderStep, SetStep, SupposeStep
from optsched.errors import PlanError
from optsched.model.builder import GraphBuilder
from optsched.model.graph import Graph
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits
from tests.support.brute import least_peak

LEAST = 18
A, B, C, MAKE, FREE = range(5)
X = 0
HELD = Flow(releases=((X, FREE, 2),), passes=((FREE, MAKE, 2),))
"""The input is freed by `free`, which waits for what `make` keeps."""


def three(scratch: Sequence[int] = (10, 10, 10)) -> Graph:
    """The graph; of other scratch bytes, another one."""
    builder = GraphBuilder("three")
    builder.input("x", 2)
    for name, size in zip("abc", scratch, strict=True):
        builder.op(name, writes={f"out_{name}": 2}, workspace=size)
    builder.op("make", writes={"out_make": 2})
    builder.op("free", reads=["x", "out_make"])
    builder.output("out_a", "out_b", "out_c", "out_make")
    return builder.build()


def waits(first: int, second: int) -> OrderStep:
    """The first op would not fit after the second."""
    return OrderStep(first, second, first, HELD)


def unfit(op: int) -> OpStep:
    return OpStep(op, HELD)


NESTED: tuple[Step, ...] = (
    SupposeStep(A, B),
    SupposeStep(B, C),
    unfit(C),
    unfit(B),
    SupposeStep(A, C),
    unfit(C),
    unfit(A),
)
"""Some op is last: c after a and b, or b after a and c; or, if b is before a, c or a."""

DERIVED: tuple[Step, ...] = (
    SupposeStep(A, B),
    waits(C, B),
    unfit(B),
    waits(C, A),
    unfit(A),
)
"""Return the proof with implied steps in place of inner cases."""

PROOFS = {"nested": NESTED, "derived": DERIVED}


def refused(steps: Sequence[Step], fault: str | None = None) -> None:
    with pytest.raises(PlanError, match=fault):
        check_certificate(three(), Certificate("three", LEAST, tuple(steps)))


@pytest.mark.parametrize("steps", PROOFS.values(), ids=PROOFS)
def test_proofs_hold_and_prove_no_more(steps: tuple[Step, ...]) -> None:
    assert least_peak(three()) == LEAST
    assert check_certificate(three(), Certificate("three", LEAST, steps)) == "L3"
    with pytest.raises(PlanError, match=f"need {LEAST} bytes, not {LEAST + 1}"):
        check_certificate(three(), Certificate("three", LEAST + 1, steps))


@pytest.mark.parametrize("steps", PROOFS.values(), ids=PROOFS)
def test_no_step_is_left_out_moved_or_said_twice(steps: tuple[Step, ...]) -> None:
    count = len(steps)
    for number, step in enumerate(steps):
        before, after = steps[:number], steps[number + 1 :]
        refused(before + after)
        refused(before, "no step that refutes")
        if not isinstance(step, OrderStep):
            refused((*before, step, step, *after))
        for place in range(len(after)):
            refused((*before, *after[: place + 1], step, *after[place + 1 :]))
    for start in range(count):
        for end in range(start + 2, count):
            refused(steps[:start] + steps[end:])
    refused((*steps, steps[-1]), "refuted before this step")
    refused((*steps, *steps), "refuted before this step")


@pytest.mark.parametrize("steps", PROOFS.values(), ids=PROOFS)
def test_no_step_is_of_other_ops(steps: tuple[Step, ...]) -> None:
    ops = range(len(three().ops))
    for number, step in enumerate(steps):
        others: list[Step] = []
        if isinstance(step, SupposeStep):
            # Either order of a pair is one of the two cases, but what follows is of this one.
            others += [SupposeStep(u, v) for u, v in permutations(ops, 2)]
        elif isinstance(step, OrderStep):
            others += [waits(u, v) for u, v in permutations(ops, 2)]
            others.append(OrderStep(step.second, step.first, step.at, step.flow))
            others += [OrderStep(step.first, step.second, v, HELD) for v in ops if v != step.first]
            others.append(SupposeStep(step.first, step.second))
        else:
            others += [unfit(v) for v in ops]
        for other in others:
            if other != step:
                refused((*steps[:number], other, *steps[number + 1 :]))


@pytest.mark.parametrize("steps", PROOFS.values(), ids=PROOFS)
@pytest.mark.parametrize(
    ("flow", "fault"),
    [
        (Flow(), "need 16 bytes, not 18"),
        (Flow(((X, FREE, 1),), ((FREE, MAKE, 1),)), "need 17 bytes"),
        (Flow(((X, FREE, 3),), ((FREE, MAKE, 3),)), "'x' sends 3 bytes, has fewer"),
        (Flow(((X, FREE, 1),) * 3, ((FREE, MAKE, 3),)), "'x' sends 3 bytes, has fewer"),
        (Flow(((X, FREE, 2),)), "'free' cannot absorb 2 bytes"),
        (Flow(((X, FREE, 2),), ((FREE, MAKE, 1),)), "'free' cannot absorb 1 bytes"),
        (Flow(((X, FREE, 1),), ((FREE, MAKE, 2),)), "'free' cannot absorb -1 bytes"),
        (Flow(((X, MAKE, 2),)), "'x' can send no bytes to 'make'"),
        (Flow(((X, FREE, 2),), ((FREE, B, 2),)), "'free' can pass no bytes on to 'b'"),
        (Flow(((X, FREE, 2),), ((MAKE, FREE, 2),)), "'make' can pass no bytes on to 'free'"),
        (Flow(((X, FREE, -2),)), "'x' can send no bytes to 'free'"),
        (Flow(((X, FREE, 2),), ((FREE, MAKE, 3), (FREE, MAKE, -1))), "'free' can pass no bytes"),
        (Flow(((X, FREE, 2), (1, A, 2)), ((FREE, MAKE, 2),)), "'out_a' can send no bytes to 'a'"),
        (Flow(((X, FREE, 2),), ((FREE, MAKE, 2), (-1, MAKE, 2))), "-1 can pass no bytes on"),
    ],
)
def test_no_flow_is_changed(steps: tuple[Step, ...], flow: Flow, fault: str) -> None:
    for number, step in enumerate(steps):
        if isinstance(step, OpStep):
            changed: Step = OpStep(step.op, flow)
        elif isinstance(step, OrderStep):
            changed = OrderStep(step.first, step.second, step.at, flow)
        else:
            continue
        refused((*steps[:number], changed, *steps[number + 1 :]), f"step {number}: .*{fault}")


def test_what_a_case_knows_ends_with_it() -> None:
    case = DERIVED[:3]
    # With the precedences implied there, a would be last.
    refused((*case, unfit(A)), "step 3: op 'a' is shown to need 16 bytes")
    # With the supposition made there, b would be.
    refused((*case, unfit(B)), "step 3: op 'b' is shown to need 14 bytes")
    # Cases within a case are forgotten with it: that c is before b, and the contrary of another.
    refused((*NESTED[:4], unfit(A)), "step 4: op 'a' is shown to need 16 bytes")
    refused((*NESTED[:4], unfit(C)), "step 4: op 'c' is shown to need 14 bytes")
    # Nothing flows to what has ended there.
    refused((SupposeStep(MAKE, C), unfit(C)), "step 1: flow: op 'make' cannot absorb 2 bytes")
    # What a case says again stays known if it was known before, to the last of all cases.
    twice = (SupposeStep(A, B), SupposeStep(A, B), *DERIVED[1:3], unfit(A), *DERIVED[3:])
    assert check_certificate(three(), Certificate("three", LEAST, twice)) == "L3"


def test_a_contrary_is_of_the_last_supposition_alone() -> None:
    start = (SupposeStep(A, B), SupposeStep(B, C), unfit(C))
    # Learnt is that c is before b, not that b is before a.
    refused((*start, unfit(A)), "step 3: op 'a' is shown to need 14 bytes")
    refused((*start, waits(C, A), unfit(A)), "step 3: op 'c' is shown to need 16 bytes")
    # Ended twice: no case is left to end, and its contrary is not refuted.
    refused((*start, unfit(C)), "step 3: op 'c' is shown to need 14 bytes")
    refused((*start, unfit(B), unfit(B)), "step 4: op 'b' is shown to need 14 bytes")
    refused((*start, unfit(B)), "no step that refutes")
    refused((*NESTED[:-1], SupposeStep(A, B), unfit(A)), "no step that refutes")


def test_sets_and_states_know_what_is_supposed() -> None:
    tail = (SupposeStep(A, C), unfit(C), unfit(A))
    last = SetStep(True, (B, C), ((B, HELD), (C, HELD)))
    known = Network(three())
    known.add(A, B)
    states = list_states(known, LEAST - 1, 100, Clock.of(Limits()), backward=False)
    assert states is not None
    for step in (last, states):
        proof = Certificate("three", LEAST, (SupposeStep(A, B), step, *tail))
        assert check_certificate(three(), proof) == "L3"
        refused((step, *tail), "step 0: ")
        refused((SupposeStep(B, A), step, *tail), "step 1: ")
        refused((SupposeStep(A, B), unfit(A), step, *tail), "step 1: ")
        refused((SupposeStep(A, B), step, step), "step 2: ")


def test_no_list_of_steps_proves_what_is_not_so() -> None:
    # With less for c, 17 bytes are enough where c is last; so of 18 no step at c can speak.
    graph = three((10, 10, 9))
    assert least_peak(graph) == LEAST - 1
    pairs = list(permutations((A, B, C), 2))
    alphabet: list[Step] = [unfit(A), unfit(B), unfit(C)]
    alphabet += [SupposeStep(u, v) for u, v in pairs]
    alphabet += [OrderStep(u, v, at, HELD) for u, v in pairs for at in (u, v)]
    grown: list[tuple[Step, ...]] = [()]
    held = 0
    for _ in range(4):
        longer = [(*steps, step) for steps in grown for step in alphabet]
        grown = []
        for steps in longer:
            with pytest.raises(PlanError) as refusal:
                check_certificate(graph, Certificate("three", LEAST, steps))
            if "no step that refutes" in str(refusal.value):
                grown.append(steps)
        held += len(grown)
    assert held > 1_000


@pytest.mark.parametrize(
    ("ops", "flows", "fault"),
    [
        ((), (), "a set needs ops"),
        ((), (A, B, C), "at most one flow for each"),
        ((A, B), (A, B, C), "at most one flow for each"),
        ((A, B, C), (A, B, C, C), "at most one flow for each"),
        ((A, B, C), (A, B), "op 'c' of the set has no flow"),
        ((A, B, C), (B, C), "op 'a' of the set has no flow"),
        ((A, B, C), (), "of the set has no flow"),
        ((A,), (), "op 'a' of the set has no flow"),
        ((A, B), (A, B), "is shown to need 16 bytes"),
    ],
)
def test_a_set_is_complete(ops: tuple[int, ...], flows: tuple[int, ...], fault: str) -> None:
    rows = tuple((v, HELD) for v in flows)
    refused([SetStep(True, ops, rows)], fault)
    whole = SetStep(True, (A, B, C), tuple((v, HELD) for v in (A, B, C)))
    assert check_certificate(three(), Certificate("three", LEAST, (whole,))) == "L2"
    refused([SetStep(False, whole.ops, whole.flows)], "is shown to need 14 bytes")
    # An op that runs before another of the set needs no flow to be not the last of it.
    less = SetStep(True, (A, B, C), tuple((v, HELD) for v in (B, C)))
    tail = (SupposeStep(A, C), unfit(C), unfit(A))
    assert check_certificate(three(), Certificate("three", LEAST, (SupposeStep(A, B), less, *tail)))
    refused((SupposeStep(B, A), less, *tail), "op 'a' of the set has no flow")
