"""Relaxations: questions that are simpler than a given one, whose bounds hold for it as well.

A relaxation drops restrictions: each plan that the question allows is, seen in part, a plan that
the simpler questions allow. So the minima of the simpler questions give a lower bound. Their orders
are permutations of the same ops with the same dependencies, and can be packed for the question
itself.

:func:`relaxed` makes a stage of a relaxation. It is the only place where a stage solves questions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from optsched.model.question import Question
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Proof
from optsched.solver.driver import Run
from optsched.solver.finding import Bound, Finding, slab_bound
from optsched.solver.known import Known
from optsched.solver.order_packing import Findings, found_orders
from optsched.solver.result import Result
from optsched.solver.resume import Resume


class Answer(Protocol):
    """A function that answers a question within limits: :func:`optsched.answer`."""

    def __call__(self, question: Question, *, limits: Clock) -> Result:
        """Return the answer."""


class Relaxation(Protocol):
    """A way to bound a question by the answers to simpler questions."""

    name: str
    """Name in the trace of a search."""

    def reduce(self, question: Question) -> tuple[Question, ...]:
        """Return the simpler questions; their graphs have the ops of the question's graph."""

    def bounds(self, answers: Sequence[Result]) -> tuple[Bound, ...]:
        """Return the bounds on the question that follow from all answers."""


def relaxed(relaxation: Relaxation, answer: Answer) -> Run[Known]:
    """Return a stage that answers the questions of a relaxation in equal shares of the time.

    `answer`: function that answers each simpler question.
    """

    def run(known: Known, resume: Resume, clock: Clock) -> Findings:
        asked, answers = relaxation.reduce(known.question), list[Result]()
        for number, question in enumerate(asked):
            found = answer(question, limits=clock.share(1 / (len(asked) - number)))
            answers.append(found)
            if found.plan is not None:
                # An order found on the way is one of the question's graph, so it is packed right
                # away.
                yield from found_orders(known, f"{relaxation.name} {number}", found.plan.order)
            found.stop_reason.raise_if_interrupted()
        yield Finding(relaxation.name, bounds=relaxation.bounds(answers))

    return run


class PoolsApart:
    """Each pool on its own, as if every pool could have an order of its own.

    *Proof.* A plan without the offsets of all other pools is a plan of the graph in which only one
    pool's buffers have bytes. So its slab in that pool is at least the minimum of that question,
    and the sum of its slabs at least the sum of the minima. Each minimum is at least the minimum
    peak of the pool's question, so that the sum of these is a bound too.
    """

    name = "pools apart"

    def reduce(self, question: Question) -> tuple[Question, ...]:
        """Return the question about each pool; empty if there is only one."""
        return tuple(Question(graph) for graph in question.pool_graphs)

    def bounds(self, answers: Sequence[Result]) -> tuple[Bound, ...]:
        """Return the sums of the bounds on slab and peak, as bounds on the slab."""
        slabs = sum(found.slab_bound for found in answers)
        # The sum of the peaks is never larger, but where both are equal it is the simpler proof.
        peaks = sum(found.peak_bound for found in answers)
        return (*slab_bound(slabs), *slab_bound(peaks, Proof.JOINT))
