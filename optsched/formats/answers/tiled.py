"""Plan files of models in row bands: checked against the untiled model's file, row by row."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from optsched.check.claims import Unverified, check_claims, claimed_restriction, unverified
from optsched.check.tiling import check_tiled
from optsched.check.tiling_bound import TilingCertificate, check_tiling_bound
from optsched.errors import PlanError, UsageError
from optsched.formats.answers.answer import Proved
from optsched.formats.answers.plain import GraphAnswer
from optsched.formats.format import Content, Format, Source
from optsched.formats.tiling import read_certificate, read_tilable, read_tiled
from optsched.model.question import Question
from optsched.model.tiled import family
from optsched.runtime.limits import Objective
from optsched.runtime.text import counted

if TYPE_CHECKING:
    from optsched.model.rows import Rows
    from optsched.model.tiled import TiledGraph


class TiledAnswer(GraphAnswer):
    """A plan of a tiled graph, which the file's stages make of the untiled model."""

    takes = frozenset({"--replay"})
    certificate = Content.TILED_CERTIFICATE
    rows: Rows
    tiled: TiledGraph

    def subject(self) -> None:
        """Read the row maps of the untiled model; its graph alone does not have them."""
        file = self.asked.file or self.asked.graph
        if not isinstance(file, str | Path):
            text = f"{self.path}: {self.holds} needs the untiled model's file (.tflite)"
            raise UsageError(
                f"{text}, got graph {file.name!r}; optsched check takes both files, and "
                "optsched tile -o writes the tiled model"
            )
        self.rows = read_tilable(file).rows
        self.planned = self.rows.graph

    def read(self) -> None:
        """Read the plan, and run it on the rows of the untiled graph."""
        self.check_name()
        self.tiled, self.plan, claims = read_tiled(self.rows, self.source.document)
        # The name and the contents are those of the untiled graph.
        self.claims = {key: x for key, x in claims.items() if key not in ("graph", "contents")}
        checked = self.checked = check_claims(Question(self.tiled.graph), self.plan, self.claims)
        found = check_tiled(self.tiled, self.plan)
        self.parts = {"": (self.tiled.graph, self.plan)}
        self.record = {"graph": self.planned.name, "peak": checked.peak, "slab": checked.slab}
        stages, extra = len(self.tiled.tiling.stages), found.extra / max(1, self.rows.cost)
        self.record |= {"head": found.head, "extra": extra, "stages": stages}
        self.record["memory_model"] = self.planned.model_name
        self.lines = [
            f"head {counted(found.head, 'byte')} in {counted(stages, 'stage')}, every row made of "
            f"the rows that it needs, {100 * extra:.2f} % more multiplications"
        ]

    @property
    def restriction(self) -> str:
        """The plans that bounds in the file are about: orders with this tiling."""
        return claimed_restriction(self.tiled.graph, self.plan, self.claims)

    def unverified(self, proved: Proved | None) -> list[Unverified]:
        """Return bounds that the file claims of the orders of its tiled graph."""
        return list(unverified(self.claims, 0, self.tiled.graph))

    def read_proof(self, row: Format, source: Source) -> TilingCertificate:
        """Return the certificate of a file."""
        return read_certificate(source, self.rows)

    def proved(self, certificate: TilingCertificate) -> Proved:
        """Check a certificate of a bound on the head of all tilings."""
        check_tiling_bound(self.rows, certificate)
        head, bound = self.record["head"], certificate.bound
        is_among = self.tiled.is_among(self.plan.order, certificate.bands)
        if bound > head and is_among:
            raise PlanError(f"proves that no head is below {bound:,}, and the plan's is {head:,}")
        among = f"tilings {family(certificate.bands)}"
        words = f"proved: no head below {bound:,} bytes among {among}"
        words += ": the head is minimal among them" if bound == head and is_among else ""
        return Proved(bound, words, True, "", among, quantity=Objective.SLAB)
