"""Plan files of unfused kernels: groups of the parts of fused nodes, in the order they run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from optsched.check.claims import Unverified, check_graph
from optsched.check.fused import CheckedSplit, check_fusion, check_split
from optsched.errors import PlanError, UsageError
from optsched.formats.answers.answer import Answer, Proved
from optsched.formats.format import Content, Format, Source
from optsched.formats.fused import (
    StatedSplit,
    read_fused,
    read_fusion_document,
    read_split_document,
)
from optsched.runtime.limits import Proof
from optsched.runtime.text import counted

if TYPE_CHECKING:
    from optsched.check.fused import FusionCertificate
    from optsched.model.fused import FusedGraph, Split

Groups = list[list[int]]


class UnfusedAnswer(Answer):
    """A split of fused nodes with an order of its groups."""

    # Sizes and in-place pairs of the parts are those of the capture.
    takes = frozenset()
    certificate = Content.UNFUSED_CERTIFICATE
    planned: FusedGraph
    whole: Groups
    """The groups of whole nodes that the file compares its split with; empty without any."""
    groups: Groups
    stated: StatedSplit
    checks: dict[Split, CheckedSplit]
    """Figures of the checker, by groups in their order."""

    def subject(self) -> None:
        """Read the parts of the fused nodes."""
        if not isinstance(self.asked.graph, str | Path):
            raise UsageError(f"{self.path}: a plan of unfused kernels needs the captured file")
        self.planned = read_fused(self.asked.graph)

    def read(self) -> None:
        """Read the groups, and check them and what the file states of them."""
        stated = self.stated = read_split_document(self.source.document)
        self.checks = {}
        if stated.graph:
            check_graph(self.planned.graph, stated.graph, None)
        if stated.model not in ("", self.planned.graph.model_name):
            model = self.planned.graph.model_name
            raise PlanError(f"plan has the memory model {stated.model!r}, the graph {model!r}")
        self.groups, self.whole = self._ids(stated.best.groups), self._ids(stated.whole.groups)
        checked = self._check("", self.groups, stated.best.figures)
        if self.whole:
            self._check(" with all nodes fused", self.whole, stated.whole.figures)
            self._require_whole()
        self._check_claims(checked)
        self.record = {"graph": self.planned.graph.name, **asdict(checked)}
        self.record["memory_model"] = self.planned.graph.model_name
        self.lines = [f"peak {counted(checked.peak, 'byte')}, {counted(checked.kernels, 'kernel')}"]

    def _ids(self, groups: Sequence[Sequence[str]]) -> Groups:
        ids = self.planned.graph.op_ids
        for name in (name for group in groups for name in group):
            if name not in ids:
                raise PlanError(f"part {name!r} is not in the graph")
        return [[ids[name] for name in group] for group in groups]

    def _check(self, of: str, groups: Groups, figures: Mapping[str, int]) -> CheckedSplit:
        """Return the figures of groups, which must be those that the file states."""
        checked = self._checked(groups)
        for what, value in figures.items():
            found = getattr(checked, what)
            if value != found:
                raise PlanError(f"states {what} {value:,}{of}, it is {found:,}")
        return checked

    def _checked(self, groups: Groups) -> CheckedSplit:
        """Return the figures of groups; those of a split that cuts nothing are the whole nodes'."""
        key = tuple(map(tuple, groups))
        if key not in self.checks:
            self.checks[key] = check_split(self.planned, groups)
        return self.checks[key]

    def _require_whole(self) -> None:
        """Refuse a split in the place of the whole nodes."""
        groups = set(map(frozenset, self.whole))
        for node in self.planned.nodes:
            if frozenset(node) not in groups:
                name = self.planned.graph.ops[node[0]].name
                raise PlanError(f"states all nodes fused, but the node of part {name!r} is cut")

    def _check_claims(self, checked: CheckedSplit) -> None:
        """Refuse a bound above a known peak, a proof without it, and a wrong saving."""
        stated = self.stated
        bound, peak = stated.bound, checked.peak
        if bound is not None and bound > peak:
            raise PlanError(f"plan claims that no split is below {bound} bytes, its own is {peak}")
        if stated.proved and bound != peak:
            text = "no bound" if bound is None else f"a bound of {bound}"
            raise PlanError(f"plan claims to be proved at {peak} bytes, with {text}")
        before = stated.whole.figures.get("peak")
        known = {"before": before, "after": peak, "bound": bound}
        for what, value in known.items():
            if value is not None and stated.saving.get(what, value) != value:
                raise PlanError(f"states a saving {what} {stated.saving[what]}, it is {value}")
        low = min((point["peak"] for point in stated.front), default=peak)
        if low < (bound or 0):
            raise PlanError(f"states a split of {low} bytes, below its bound of {bound}")

    def unverified(self, proved: Proved | None) -> list[Unverified]:
        """Return the bound, and splits of the front, whose groups the file does not have."""
        found, stated = [], self.stated
        if (stated.bound or 0) > (0 if proved is None else proved.of_file):
            words = f"no split below {stated.bound:,} bytes"
            found.append(Unverified("peak", stated.bound or 0, words=words))
        known = {
            tuple(self._point(groups).values()) for groups in (self.groups, self.whole) if groups
        }
        if rest := {tuple(point.values()) for point in stated.front} - known:
            low = min(peak for peak, *_ in rest)
            words = f"{counted(len(rest), 'split')} of at least {low:,} bytes, without their groups"
            found.append(Unverified("front", low, words=words))
        return found

    def _point(self, groups: Groups) -> dict[str, int]:
        checked = self._checked(groups)
        return {"peak": checked.peak, "kernels": checked.kernels, "traffic": checked.traffic}

    @property
    def orders(self) -> list[Groups]:
        """The orders of the split and of the whole nodes."""
        return [groups for groups in (self.groups, self.whole) if groups]

    def read_proof(self, row: Format, source: Source) -> FusionCertificate:
        """Return the certificate of a file."""
        return read_fusion_document(self.planned, source.document)

    def proved(self, certificate: FusionCertificate) -> Proved:
        """Check the certificate of a bound on all splits."""
        rung, bound = check_fusion(self.planned, certificate), certificate.bound
        if bound > self.record["peak"]:
            raise PlanError(f"bound {bound} is above the peak {self.record['peak']} of a split")
        words = f"no split below {bound:,} bytes: {Proof(rung).with_code}, verified"
        among = "splits of the fused nodes"
        return Proved(bound, words, covers=True, proof=rung, among=among, of_file=bound)
