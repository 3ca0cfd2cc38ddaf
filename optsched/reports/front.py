"""Fronts of extra compute against peak: records, text for a terminal, and an HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from optsched.reports.scatter import Axis, Mark, Shape, scatter
from optsched.reports.tables import Table, as_html, make_table, safe
from optsched.runtime.bytes import format_bytes, unit_of
from optsched.runtime.text import counted, listed, percent, percent_down
from optsched.solver.recompute.result import RecomputeResult

SHOWN = 12
"""Repeated ops that are listed."""
_LEGEND = (
    "A dot is a plan within a budget, a dash the proved bound on its extra compute; &#215; is a "
    "budget that is proved impossible."
)


def recompute_record(result: RecomputeResult) -> dict[str, Any]:
    """Return a result as plain numbers and names, ready for JSON."""
    return {
        "graph": result.graph.name,
        "loss": list(result.loss),
        "among": result.question.restriction,
        "budget": result.budget,
        "status": result.status,
        "peak": result.peak,
        "extra": result.extra,
        "bound": result.bound,
        "cost_unit": result.graph.cost_unit,
        "cost_of_one_step": result.total,
        "gap": result.gap,
        "stop_reason": str(result.stop_reason),
        "seconds": round(result.seconds, 3),
        "why_impossible": result.blocker,
        "checkpoints": None if result.checkpoints is None else asdict(result.checkpoints),
        "not_counted": "outputs written over inputs (in place)",
        "repeats": [
            {
                "op": repeat.op,
                "count": repeat.count,
                "cost": repeat.cost,
                "saves": repeat.size,
                "readers": list(repeat.readers),
            }
            for repeat in result.repeats
        ],
    }


def family_text(result: RecomputeResult) -> str:
    """Return the plans that bounds are about, in words: those that repeat forward ops alone."""
    loss = listed([repr(name) for name in result.loss], SHOWN)
    return f"bounds hold if only forward ops of loss {loss} run again"


def recompute_text(result: RecomputeResult) -> str:
    """Return a result in words."""
    head = f"{result.graph.name}: peak of at most {counted(result.budget, 'byte')}"
    loss = f"forward ops are those of loss {listed([repr(name) for name in result.loss], SHOWN)}"
    if result.status == "infeasible":
        return (
            f"{head} is impossible, however often forward ops run again, proved: {result.blocker}"
            f"; {loss}"
        )
    bound = "-" if result.bound is None else percent_down(result.bound, result.total, 2)
    if result.extra is None:
        text = f"{head}: no plan found; any with forward repeats has at least {bound} extra compute"
        return f"{text}; {loss}"
    # Plans that repeat other ops may cost less.
    forward = f"if only forward ops run again; {loss}"
    proof = "proved least" if result.status == "optimal" else f"bound {bound}"
    runs = sum(repeat.count for repeat in result.repeats)
    lines = [
        f"{head}: {_share(result, result.extra)} extra compute, {proof} {forward}",
        f"  planned peak {result.peak:,} bytes; {counted(runs, 'repeat')}; "
        f"costs in {result.graph.cost_unit}",
    ]
    for repeat in result.repeats[:SHOWN]:
        readers = ", ".join(repeat.readers[:3]) + (" ..." if len(repeat.readers) > 3 else "")
        times = "" if repeat.count == 1 else f" {repeat.count} times"
        cost = _share(result, repeat.cost)
        saved = f"{repeat.size:,} bytes are not kept for {readers or 'its readers'}"
        lines.append(f"  {repeat.op} runs again{times} ({cost}): {saved}")
    if len(result.repeats) > SHOWN:
        lines.append(f"  and {len(result.repeats) - SHOWN} more")
    return "\n".join([*lines, *_checkpoint_lines(result)])


def _checkpoint_lines(result: RecomputeResult) -> list[str]:
    """Return the nearest plan that PyTorch's eager mode has, and what is lost."""
    found = result.checkpoints
    if found is None:
        return []
    cost = _share(result, found.extra)
    lines = [
        f"  as torch.utils.checkpoint of {listed([*found.modules], SHOWN)}: "
        f"peak {found.peak:,} bytes, {cost} extra compute"
    ]
    if found.lost or found.added:
        lines.append(
            f"    unlike the plan, {counted(len(found.lost), 'op')} outside of them not repeated, "
            f"{counted(len(found.added), 'op')} inside repeated as well; all of a module at once"
        )
    return lines


def _share(result: RecomputeResult, cost: int | None) -> str:
    if cost is None:
        return "-"
    return percent(cost / max(1, result.total), 2)


def front_table(results: Sequence[RecomputeResult]) -> Table:
    """Return one row per budget; shares are of the cost of one step."""
    heads = ("budget", "peak", "extra", "bound", "proof", "repeats", "seconds")
    rows = [
        [
            format_bytes(x.budget),
            "-" if x.peak is None else format_bytes(x.peak),
            _share(x, x.extra),
            _share(x, x.bound),
            x.status if x.status != "infeasible" else "impossible",
            str(sum(repeat.count for repeat in x.repeats)),
            f"{x.seconds:.1f}",
        ]
        for x in results
    ]
    return make_table(heads, "nnnnsnn", rows)


def front_page(results: Sequence[RecomputeResult], saved: str = "") -> str:
    """Return an HTML page of a front: picture, table, and why each op runs again.

    `saved` is the saving of the smallest peak in words, with which the page starts.
    """
    # Late: a table needs no page.
    from optsched.reports.page import short_page

    name, unit = (results[0].graph.name, results[0].graph.cost_unit) if results else ("", "")
    table = as_html(front_table(results), "Points of the front")
    body = [front_picture(results), f"<p class=soft>{_LEGEND}</p>", table]
    body.append(f"<p>Costs in {safe(unit)}, in % of one step. Writing in place is not counted.</p>")
    for result in results:
        lines = recompute_text(result).splitlines()
        body.append("<p>" + "<br>".join(safe(line, 2000) for line in lines) + "</p>")
    return short_page(f"front of {name}", f"Extra compute of {name}", saved, "".join(body))


def front_picture(results: Sequence[RecomputeResult]) -> str:
    """Return an SVG: budgets to the right, extra compute up; dots are plans, ticks are bounds."""
    known = [x for x in results if x.status != "infeasible"]
    most = max((x.budget for x in results), default=1) or 1
    # The highest known share of compute is the top of the picture.
    top = max((x.extra or x.bound or 0 for x in known), default=0) or 1

    marks = []
    for result in results:
        # Proved impossible: a cross on the axis.
        if result.bound is None:
            marks.append(Mark(Shape.CROSS, result.budget))
            continue
        # A tick for the bound, then a dot for the plan: they coincide if the plan is proved least.
        marks.append(Mark(Shape.TICK, result.budget, result.bound))
        if result.extra is not None:
            marks.append(Mark(Shape.DOT, result.budget, result.extra))
    total = max(1, results[0].total) if results else 1
    unit, scale = unit_of(most)
    compute = Axis(top, "extra compute (% of a step)", total / 100)
    return scatter(marks, Axis(most, f"budget for the peak ({unit})", scale), compute)
