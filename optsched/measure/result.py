"""Bytes that a runtime held, bytes that were planned, and the causes of the difference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from optsched.model.saving import change

CLOSE: Final = 0.02
"""Part of the planned bytes by which a runtime may hold more or less without an explanation."""


@dataclass(frozen=True, slots=True)
class Held:
    """Bytes of one run."""

    planned: int | None
    """Bytes of the order that was to run, None if unknown."""
    held: int
    """Bytes that the runtime held."""
    causes: Mapping[str, int] = field(default_factory=dict)
    """Parts of `held - planned` by cause, in words."""

    @classmethod
    def beyond(cls, planned: int | None, held: int, cause: str, most: int) -> Held:
        """Return the bytes of a run with a cause that adds at most some bytes to those planned."""
        # A cause explains what it can add up to, and not any difference.
        more = 0 if planned is None else held - planned
        return cls(planned, held, {cause: more} if 0 < more <= most else {})

    @property
    def unexplained(self) -> int:
        """Bytes of the difference without a cause."""
        return 0 if self.planned is None else self.held - self.planned - sum(self.causes.values())

    @property
    def is_close(self) -> bool:
        """True if the held bytes are within 2 % of the planned ones."""
        return self.planned is not None and abs(self.held - self.planned) <= CLOSE * self.planned

    @property
    def is_explained(self) -> bool:
        """True if causes are known for the difference, up to 2 % of the planned bytes."""
        return self.planned is None or abs(self.unexplained) <= CLOSE * self.planned

    def __str__(self) -> str:
        if self.planned is None:
            return f"held {self.held:,} bytes; a plan of what ran is unknown"
        same = "exactly" if self.held == self.planned else change(self.planned, self.held)
        text = f"planned {self.planned:,}, held {self.held:,} bytes ({same})"
        causes = {**self.causes}
        # Within 2 % no cause is asked for.
        if self.unexplained and not self.is_close:
            causes["unexplained"] = self.unexplained
        parts = [f"{what} {value:+,}" for what, value in causes.items() if value]
        return f"{text}: {', '.join(parts)}" if parts else text

    def to_dict(self) -> dict[str, Any]:
        """Return the fields and the derived figures as JSON values."""
        derived = {"difference": None if self.planned is None else self.held - self.planned}
        return {**asdict(self), "causes": dict(self.causes), **derived, "close": self.is_close}


@dataclass(frozen=True, slots=True)
class Measurement:
    """A model as its runtime runs it, before and after a plan."""

    model: str
    runtime: str
    """`model` and `runtime`: name of the graph; name and version of the runtime."""
    before: Held
    after: Held | None = None
    """`before` and `after`: bytes with the runtime's own plan, and with ours; `after` is None
    without a plan."""
    same_outputs: bool | None = None
    """True if the outputs before and after are equal bit for bit; None without a plan."""
    weights: int | None = None
    """Bytes of weights, which no plan counts; None if they are unknown."""
    fused: int | None = None
    """Bytes held if the runtime fuses ops of the planned model; None if it does not."""
    notes: tuple[str, ...] = ()
    """Further lines for readers."""

    @property
    def is_explained(self) -> bool:
        """Return True if held equals planned within 2 %, or the difference has causes."""
        return self.before.is_explained and (self.after is None or self.after.is_explained)

    def __str__(self) -> str:
        lines = [self._headline(), f"  before  {self.before}"]
        if self.after is not None:
            lines.append(f"  after   {self.after}")
            same = "equal bit for bit" if self.same_outputs else "NOT equal"
            lines.append(f"  outputs {same}")
        if self.fused is not None:
            lines.append(f"  fused   held {self.fused:,} bytes if loaded with all optimizations")
        if self.weights:
            lines.append(f"  weights {self.weights:,} bytes, not counted in a plan")
        return "\n".join([*lines, *(f"  {note}" for note in self.notes)])

    def _headline(self) -> str:
        runtime = f"in {self.runtime}"
        if self.after is None:
            return f"{self.model}: held {self.before.held:,} bytes {runtime}"
        # With fusion after planning the smaller of both counts.
        before, after = self.before.held, min(self.after.held, self.fused or self.after.held)
        saved = change(before, after)
        how = ", with all optimizations" if after < self.after.held else ""
        return f"{self.model}: held {before:,} -> {after:,} bytes ({saved}) {runtime}{how}"

    def to_dict(self) -> dict[str, Any]:
        """Return all figures as JSON values."""
        return {
            "graph": self.model,
            "runtime": self.runtime,
            "before": self.before.to_dict(),
            "after": None if self.after is None else self.after.to_dict(),
            "same_outputs": self.same_outputs,
            "weights": self.weights,
            "fused": self.fused,
            "notes": list(self.notes),
        }
