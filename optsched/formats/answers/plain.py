"""Plan files of one graph: an order and offsets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from optsched.check.certificate import check_certificate
from optsched.check.claims import (
    Unverified,
    check_claims,
    check_graph,
    claimed_restriction,
    unverified,
)
from optsched.errors import PlanError
from optsched.formats.answers.answer import MODEL, READING, RULES, Answer, Proved
from optsched.formats.format import Content, Format, Source
from optsched.formats.opening import read_as, read_file
from optsched.model.graph import Graph
from optsched.model.order_rules import Baseline
from optsched.model.question import Question, rules_of_record
from optsched.runtime.limits import Proof
from optsched.runtime.text import counted

if TYPE_CHECKING:
    from optsched.check.certificate import Certificate
    from optsched.check.plan import Checked
    from optsched.check.replay import Replayed
    from optsched.model.plan import Plan


class GraphAnswer(Answer):
    """A plan of one graph, or of its runs."""

    planned: Graph
    question: Question
    plan: Plan
    checked: Checked

    def check_name(self) -> None:
        """Check that the file is of the graph, before any name is looked up."""
        name, contents = (self.source.document.get(key) for key in ("graph", "contents"))
        if isinstance(name, str):
            check_graph(self.planned, name, contents)

    def replay(self) -> Replayed:
        """Execute the plan."""
        from optsched.check.executions import replay_executions
        from optsched.check.replay import replay_plan

        graph, plan = self.parts[""]
        return (replay_executions if graph.on_streams else replay_plan)(graph, plan)


class PlainAnswer(GraphAnswer):
    """A plan in which each op runs once."""

    takes = READING | MODEL | RULES | {"--replay"}
    certificate = Content.CERTIFICATE

    def subject(self) -> None:
        """Read the graph, without order rules."""
        self.planned = self.asked.one_graph()

    def read(self) -> None:
        """Read the plan, and check it and its claims."""
        self.check_name()
        self.plan, self.claims = read_as(self.row, self.source, {"graph": self.planned})
        self.planned = self.in_model(self.claims["inplace"])
        self.question = self._question()
        checked = self.checked = check_claims(self.question, self.plan, self.claims)
        self.parts = {"": (self.planned, self.plan)}
        self.record = {"graph": self.planned.name, "peak": checked.peak, "slab": checked.slab}
        self.record["memory_model"] = self.planned.model_name
        peak, slab = counted(checked.peak, "byte"), counted(checked.slab, "byte")
        text = f"peak {peak}, slab {slab}{' (in-place)' if self.planned.in_place else ''}"
        if len(checked.slabs) > 1 or self.plan.pools:
            self.record["slabs"] = checked.slabs
            text += " in " + ", ".join(f"{pool!r} {slab:,}" for pool, slab in checked.slabs.items())
        self.lines = [text]
        if self.planned.on_streams:
            self.record["streams"] = list(self.planned.streams)
            on = counted(len(self.planned.streams), "stream")
            self.lines.append(f"{on}: no slab of these orders is below the peak, verified")

    def in_model(self, planned: bool) -> Graph:
        """Return the graph in which ops write in place or not."""
        graph = self.planned
        writes = self.asked.writes_in_place(self.path, planned=planned, allowed=graph.in_place)
        return graph.with_inplace() if writes else graph.without_inplace()

    def _question(self) -> Question:
        """Return the question: order rules and baseline of the options, not of the plan's file."""
        graph, asked = self.planned, self.asked
        near: Sequence[int] = range(len(graph.ops))
        if asked.near is not None:
            near = read_file(asked.near, Content.PLAN, graph=graph)[0].order
        rules = asked.how.order_rules(graph, near)
        return Question(graph, rules, Baseline(tuple(near), asked.max_moved))

    @property
    def restriction(self) -> str:
        """The plans that the file's own bounds are about."""
        return claimed_restriction(self.planned, self.plan, self.claims)

    def unverified(self, proved: Proved | None) -> list[Unverified]:
        """Return bounds that the file claims above those that are proved."""
        bound = 0 if proved is None else proved.of_file
        return unverified(self.claims, bound, self.planned)

    def read_proof(self, row: Format, source: Source) -> Certificate:
        """Return the certificate of a file."""
        found: Certificate = read_as(row, source, {"graph": self.planned})
        return found

    def proved(self, certificate: Certificate) -> Proved:
        """Check a certificate: for the question asked, or else for the rules that the files state.

        Certificates of older versions do not state rules. One made under rules may hold without
        them, and is then about all orders.
        """
        about, rung = self._about(certificate)
        covers, bound, peak = about.covers(self.question), certificate.bound, self.record["peak"]
        # Either the checker or a file is wrong, so this is never passed over.
        if bound > peak and covers:
            raise PlanError(f"bound {bound} is above the peak {peak} of an order")
        among = about.restriction if about.rules else ""
        words = f"proved by {Proof(rung).with_code}: no order below {bound:,} bytes"
        words += f" among {among}, " if among else ", "
        words += minimal(self.record, bound) if covers else "which says nothing about other orders"
        words += " among them" if covers and among else ""
        of_file = bound if about.covers(self._own_question) else 0
        return Proved(bound, words, covers, rung, about.restriction, of_file)

    @cached_property
    def _own_question(self) -> Question:
        """The question that the file's own claims are about."""
        return replace(self.question, rules=rules_of_record(self.claims.get("order_rules", {})))

    def _about(self, certificate: Certificate) -> tuple[Question, str]:
        """Return the question that a certificate proves its bound of, and the kind of proof."""
        refused = None
        # The question asked comes first: if it is proved, weaker statements do not matter.
        stated = (self.question.rules, certificate.rules, self._own_question.rules)
        for rules in dict.fromkeys(stated):
            about = replace(self.question, rules=rules, near=None)
            try:
                return about, check_certificate(about.planned, certificate)
            except PlanError as error:
                # The first refusal is reported: it is about the question asked.
                refused = refused or error
        assert refused is not None
        raise refused


def minimal(record: dict[str, Any], bound: int) -> str:
    """Return words for the numbers of a plan that equal a proved bound on the peak."""
    met = [f"the {what} is minimal" for what in ("peak", "slab") if record[what] == bound]
    return ", ".join(met) or "which leaves the peak of this plan open"
