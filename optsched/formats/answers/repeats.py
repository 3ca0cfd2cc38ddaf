"""Plan files with repeats: an order in which ops run again, so that a step fits a peak.

Which ops may run again, and within how many bytes, is the question of the caller: forward ops of
the loss that the options or the tangents of the graph name, and the bytes of `--peak`, or those
that the plan needs. The file and its certificate state a loss and a peak of their own. If these
differ, they are shown, and a bound is a fact about that other question.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from optsched.check.claims import Unverified, check_claims, claimed_restriction, unverified
from optsched.check.recompute import check_recompute
from optsched.check.runs import CheckedRuns, check_cost, check_runs, outside
from optsched.errors import PlanError, UsageError
from optsched.formats.answers.answer import MODEL, READING, REPEATS, Proved
from optsched.formats.answers.plain import GraphAnswer
from optsched.formats.format import Content, Format, Source
from optsched.formats.layout import PlanLayout, layout_of
from optsched.formats.recompute import read_recompute_document
from optsched.formats.runs import read_repeats
from optsched.model.question import Question
from optsched.model.training import find_loss
from optsched.runtime.limits import Objective
from optsched.runtime.text import counted

if TYPE_CHECKING:
    from optsched.check.recompute import RecomputeCertificate
    from optsched.model.runs import Unrolled


class RepeatsAnswer(GraphAnswer):
    """A plan with an op per run; offsets are those of the unrolled graph."""

    # Nothing is written in place where ops run again.
    takes = (READING | MODEL | REPEATS | {"--replay"}) - {"--inplace"}
    certificate = Content.REPEATS_CERTIFICATE
    unrolled: Unrolled
    stated: dict[str, Any]
    apart: str
    """Why the plan is not among those that the question asks for; empty if it is."""

    def subject(self) -> None:
        """Read the graph with its costs; nothing is written in place where ops run again."""
        self.planned = self.asked.price(self.asked.one_graph().without_inplace())

    def read(self) -> None:
        """Read the plan, run its sequence, and check its offsets and claims."""
        self.check_name()
        read = read_repeats(self.planned, self.source.document)
        self.unrolled, self.plan, self.stated = read.unrolled, read.plan, read.stated
        # The name and the contents are those of the graph before it was unrolled.
        elsewhere = ("graph", "contents")
        self.claims = {key: x for key, x in read.claims.items() if key not in elsewhere}
        self.parts = {"": (self.unrolled.graph, self.plan)}
        found = self._run()
        self.question = self._asked(found.peak if self.asked.peak is None else self.asked.peak)
        self.apart = outside(self.question, self.unrolled.source)
        if self.asked.loss and self.apart:
            raise PlanError(f"not among {self.question.restriction}: {self.apart}")
        self.record = self._figures(found)
        self.lines = self._words(found)

    def _run(self) -> CheckedRuns:
        """Return the peak and cost of the sequence; claims that are wrong are refused."""
        found, asked = check_runs(self.planned, self.unrolled.source), self.asked
        runs = Question(self.unrolled.graph)
        self.checked = check_claims(runs, self.plan, self.claims)
        # Two independent counts of the same bytes.
        if found.peak != self.checked.peak:
            other = self.checked.peak
            raise PlanError(f"its runs need {found.peak} bytes, its unrolled graph {other}")
        if asked.peak is not None and found.peak > asked.peak:
            raise PlanError(f"the plan needs {found.peak} bytes, more than the {asked.peak} asked")
        check_cost(self._own_question, self.unrolled.source, found, self.stated)
        return found

    def _figures(self, found: CheckedRuns) -> dict[str, Any]:
        return {
            "graph": self.planned.name,
            "peak": found.peak,
            "slab": self.checked.slab,
            "memory_model": self.planned.model_name,
            "extra": found.extra,
            "repeats": found.repeats,
            "cost_unit": self.planned.cost_unit,
            "loss": list(self.question.loss),
            "budget": self.question.budget,
            "made_for": {key: self.stated[key] for key in ("loss", "peak")},
        }

    def _words(self, found: CheckedRuns) -> list[str]:
        peak, slab = counted(found.peak, "byte"), counted(self.checked.slab, "byte")
        repeats, unit = counted(found.repeats, "repeat"), self.planned.cost_unit
        own = self._own_question
        made = [f"made for {own.restriction}"] if own.loss != self.question.loss else []
        return [f"peak {peak}, slab {slab}, {repeats} of cost {found.extra:,} ({unit})", *made]

    def _asked(self, budget: int) -> Question:
        """Return the question of the caller, without a loss if nothing names one."""
        graph, ends = self.planned, tuple[int, ...]()
        # Only a loss that is not given may be missing.
        with suppress(*(() if self.asked.loss else (UsageError,))):
            ends = find_loss(graph, self.asked.loss)
        names = tuple(graph.ops[v].name for v in ends)
        return Question(graph, objective=Objective.COST, budget=budget, loss=names)

    @property
    def _own_question(self) -> Question:
        """The question that the file states; an unknown loss is refuted."""
        return self._of(self.stated["loss"], self.stated["peak"])

    def _of(self, loss: list[str] | tuple[str, ...], budget: int) -> Question:
        """Return the question of a file, which names the ops of its loss in any sequence."""
        graph = self.planned
        try:
            names = tuple(graph.ops[v].name for v in find_loss(graph, loss)) if loss else ()
        except UsageError as error:
            raise PlanError(str(error)) from None
        return Question(graph, objective=Objective.COST, budget=budget, loss=names)

    def unverified(self, proved: Proved | None) -> list[Unverified]:
        """Return bounds that the file claims, on the peak of these repeats and on their cost."""
        among = claimed_restriction(self.unrolled.graph, self.plan, self.claims)
        found = [
            replace(claim, words=f"{claim} among {among}")
            if claim.what in ("peak", "slab")
            else claim
            for claim in unverified(self.claims, 0, self.planned)
        ]
        stated, own = self.stated, self._own_question
        if stated["cost_unit"] != self.planned.cost_unit:
            words = f"repeats of cost {stated['extra']:,} ({stated['cost_unit']})"
            found.append(Unverified("cost", stated["extra"], words=words))
        if (stated["bound"] or 0) > (0 if proved is None else proved.of_file):
            words = f"no cost below {stated['bound']:,} among {own.restriction}"
            found.append(Unverified("extra", stated["bound"], words=words))
        return found

    def read_proof(self, row: Format, source: Source) -> RecomputeCertificate:
        """Return the certificate of a file."""
        return read_recompute_document(self.planned, source.document)

    def proved(self, certificate: RecomputeCertificate) -> Proved:
        """Check a certificate for the loss of the question, or else for its own."""
        asked, extra = self.question, self.record["extra"]
        bound, about = self._about(certificate)
        covers = about.covers(asked)
        least = "no plan fits" if bound is None else f"a plan costs at least {bound} more"
        if about.loss == asked.loss and not covers:
            raise PlanError(f"is about a peak of {certificate.peak} bytes")
        # The proof is right, so a plan that contradicts it is one of other repeats.
        if covers and (bound is None or bound > extra):
            text = f"proves that {least} where only forward ops run again"
            raise PlanError(f"{text}, and this plan costs {extra} more: {self.apart}")
        names = ", ".join(map(repr, about.loss))
        words = f"proved: if only forward ops of loss {names} run again, no plan within "
        words += counted(certificate.peak, "byte")
        words += " exists" if bound is None else f" costs less than {bound:,}"
        if not covers:
            words += ", which says nothing about other repeats"
        elif bound == extra and not self.apart:
            words += ": the plan is optimal"
        of_file = (bound or 0) if about.covers(self._own_question) else 0
        return Proved(bound, words, covers, "", about.restriction, of_file, Objective.COST)

    def _about(self, certificate: RecomputeCertificate) -> tuple[int | None, Question]:
        """Return the bound of a certificate, and the question that it proves it of."""
        graph, refused = self.planned, None
        for loss in dict.fromkeys((self.question.loss, certificate.loss)):
            if not loss:
                continue
            try:
                bound = check_recompute(graph, certificate, loss)
                return bound, self._of(loss, certificate.peak)
            except PlanError as error:
                # The refusal of its own loss is reported, if it is not proved for the one asked.
                refused = error
        raise refused or PlanError("names no loss, and neither does the graph")

    def layout(self, name: str) -> PlanLayout:
        """Return the layout of the runs, with the names that their ops and buffers have."""
        runs, graph = self.unrolled, self.planned
        copies = {
            runs.graph.buffers[copy].name: graph.buffers[b].name
            for op, v in zip(runs.graph.ops, runs.source, strict=True)
            for copy, b in zip(op.writes, graph.ops[v].writes, strict=True)
        }
        return layout_of(*self.parts[name], copies, [graph.ops[v].name for v in runs.source])
