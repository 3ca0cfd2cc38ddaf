"""Random training steps: what is planned of each call, beside what the allocator counts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from experiments.tables import markdown
from tests.support.planned_calls import PlannedCall, StockFailsError, plan_and_measure
from tests.support.random_steps import KINDS, RandomStep

RANDOM_STEPS = 64
"""Stock torch 2.13.0 cannot compile three of them."""


@dataclass(frozen=True)
class CallRow:
    """One call of a compiled graph; bytes.

    Parameters
    ----------
    planned_inductor, planned_ours
        Peaks of Inductor's own order and of the one that runs.
    measured_inductor, measured_ours
        Inputs that go within the call, and by how much the allocator's live bytes rise over those
        before it.
    difference
        Largest difference of a measurement from its plan, at the peak or after the call.
    left_alone
        The reason why nothing was planned.
    """

    seed: int
    kind: str
    loss: str
    graph: str
    nodes: int
    planned_inductor: int
    measured_inductor: int
    planned_ours: int
    measured_ours: int
    difference: int
    left_alone: str
    note: str


def measure_random_calls(seeds: Sequence[int], seconds: float) -> Iterator[CallRow]:
    """Compile random steps without the plugin and with it, and count their calls."""
    for seed in seeds:
        step = RandomStep(seed)
        try:
            calls = plan_and_measure(step.make, seed=seed, time_limit=seconds)
        except StockFailsError as error:
            reason = f"stock torch fails: {error}"
            yield CallRow(seed, step.kind, step.loss, "-", 0, 0, 0, 0, 0, 0, reason, "")
        else:
            yield from (_row(step, call) for call in calls)


def _row(step: RandomStep, call: PlannedCall) -> CallRow:
    measured = [call.stock.rise, call.ours.rise]
    difference = 0
    if call.plan is not None:
        for said, seen in zip(call.plan, (call.stock, call.ours), strict=True):
            at_peak, after = said.peak - said.start - seen.rise, said.end - said.start - seen.change
            difference = max(difference, abs(at_peak), abs(after))
        measured = [own.start + rise for own, rise in zip(call.plan, measured, strict=True)]
    return CallRow(
        seed=step.seed,
        kind=step.kind,
        loss=step.loss,
        graph=call.record.name,
        nodes=call.record.ops,
        planned_inductor=call.record.before or 0,
        measured_inductor=measured[0],
        planned_ours=call.record.after or 0,
        measured_ours=measured[1],
        difference=difference,
        left_alone=call.record.reason if call.is_left_alone else "",
        note=call.record.note,
    )


def calls_table(rows: Sequence[CallRow]) -> str:
    """Return a line for each kind of step and each place of the loss."""
    head = ["step", "loss", "steps", "calls", "planned by Inductor's order", "measured"]
    head += ["planned in ours", "measured", "calls that differ", "left alone"]
    found = sorted(rows, key=lambda row: (KINDS.index(row.kind), row.loss))
    groups = groupby(found, lambda row: (row.kind, row.loss))
    return markdown(head, (_line(list(group)) for _, group in groups))


def _line(rows: Sequence[CallRow]) -> list[str]:
    columns = ("planned_inductor", "measured_inductor", "planned_ours", "measured_ours")
    planned = [row for row in rows if not row.left_alone]
    reasons = sorted({row.left_alone for row in rows} - {""})
    return [
        rows[0].kind,
        rows[0].loss,
        str(len({row.seed for row in rows})),
        str(len(rows)),
        *(f"{sum(getattr(row, column) for row in planned):,}" for column in columns),
        str(sum(bool(row.difference) for row in planned)),
        ", ".join(reasons) or "none",
    ]
