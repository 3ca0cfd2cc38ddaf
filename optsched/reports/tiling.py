"""Tilings: records, text for a terminal, and an HTML page with the front and the slab."""

from __future__ import annotations

from typing import Any

from optsched.model.liveness import timeline
from optsched.model.saving import change
from optsched.model.tiled import Stage, TiledKind
from optsched.reports.page import short_page
from optsched.reports.scatter import Axis, Mark, Shape, scatter
from optsched.reports.slab_figure import STYLE, slab_figure
from optsched.reports.tables import Table, as_html, make_table, safe
from optsched.reports.view import plan_view
from optsched.runtime.bytes import unit_of
from optsched.runtime.text import counted, percent, percent_down
from optsched.solver.status import Status
from optsched.solver.tiling.result import TilingPoint, TilingResult

_LEGEND = "A dot is a plan, a dash the proved least of its cost; the first dot is not tiled."


def tiling_record(result: TilingResult, own_head: int) -> dict[str, Any]:
    """Return a result as plain numbers and names, ready for JSON.

    `own_head` are the bytes of the slab as planned by the file's runtime.
    """
    best = result.best
    point = None if best is None else point_record(result, best)
    return {
        "graph": result.rows.graph.name,
        "status": result.status.value,
        "objective": result.objective,
        "capacity": result.capacity,
        "most_extra": None if result.extra is None else result.share(result.extra),
        "head_before": own_head,
        "arena_before": own_head + result.untiled.tail,
        "tail_model": result.tail.name,
        **(point or dict.fromkeys(("head", "tail", "arena", "extra", "ops", "proved"))),
        "bound": result.bound,
        "bound_about": f"{'head' if result.objective == 'head' else 'arena'}, {result.family}",
        "obstacle": result.obstacle,
        "stages": [] if best is None else stage_records(result, best),
        "front": [point_record(result, x) for x in result.front],
        "untiled": point_record(result, result.untiled),
        "left_whole": {
            op.name: why
            for op, why in zip(result.rows.graph.ops, result.rows.ops, strict=True)
            if isinstance(why, str)
        },
        "stop_reason": str(result.stop_reason),
        "seconds": round(result.seconds, 3),
    }


def point_record(result: TilingResult, point: TilingPoint) -> dict[str, Any]:
    """Return the figures of a plan."""
    return {
        "head": point.head,
        "tail": point.tail,
        "arena": point.arena,
        "extra": result.share(point.extra),
        "extra_bound": None if point.bound is None else result.share(point.bound),
        "ops": len(point.tiled.ops),
        "proved": point.proved,
    }


def stage_records(result: TilingResult, point: TilingPoint) -> list[dict[str, Any]]:
    """Return what each stage of a plan is, saves and costs, in the order in which they run."""
    tiled, rows = point.tiled, result.rows
    running = timeline(tiled.graph, point.plan.order).running.tolist()
    ops = [tiled.ops[v] for v in point.plan.order]
    untiled = result.untiled
    usual = timeline(untiled.tiled.graph, untiled.plan.order).running.tolist()
    whole = {untiled.tiled.ops[v].op: usual[k] for k, v in enumerate(untiled.plan.order)}
    found = []
    for number, stage in enumerate(tiled.tiling.stages):
        mine = [k for k, op in enumerate(ops) if op.stage == number]
        load = max(running[k] for k in mine)
        found.append(
            {
                "ops": [rows.graph.ops[v].name for v in stage.ops],
                "bands": stage.bands,
                "direction": "upwards" if stage.upwards else "downwards",
                "live": load,
                "live_untiled": max(whole[v] for v in stage.ops),
                "extra": result.share(_extra(result, point, number, stage)),
            }
        )
    return found


def _extra(result: TilingResult, point: TilingPoint, number: int, stage: Stage) -> int:
    """Return the multiplications that a stage adds."""
    tiled = point.tiled
    runs = [x for x in tiled.ops if x.stage == number and x.kind is TiledKind.BAND]
    cost = {v: op.cost for v, op in enumerate(result.rows.ops) if not isinstance(op, str)}
    made = sum(cost[v] * tiled.tensors[x.writes[0]].rows for x in runs if (v := x.op) is not None)
    heights = result.rows.heights
    usual = [op for v in stage.ops if not isinstance(op := result.rows.ops[v], str)]
    return made - sum(op.cost * heights[op.output] for op in usual)


def tiling_line(result: TilingResult, own_head: int) -> str:
    """Return the first line: bytes before and after, and what is proved."""
    is_head = result.objective == "head"
    noun, before = ("head", own_head) if is_head else ("arena", own_head + result.untiled.tail)
    against = "TFLite Micro's own planner"
    if result.best is None:
        return f"{noun} {before:,} bytes with {against}; {verdict(result)}"
    after = result.size(result.best)
    more = percent(result.share(result.best.extra), 1)
    return (
        f"{noun} {before:,} -> {after:,} bytes ({change(before, after)}) at {more} more "
        f"multiplications against {against}; {verdict(result)}"
    )


def verdict(result: TilingResult) -> str:
    """Return what is proved about an answer, in words."""
    family, best = f"no {result.family}", result.best
    if result.status is Status.INFEASIBLE:
        stands = f": op {result.obstacle!r} stands in the way" if result.obstacle else ""
        return f"{family} has less than {result.bound:,} bytes, proved{stands}"
    if best is None:
        return f"no plan found within {result.capacity:,} bytes; {_at_least(result)}"
    if result.capacity is not None:
        return _cost_verdict(result, best)
    if result.size(best) <= result.bound:
        return f"{family} has less" + ("" if result.extra is None else " for it") + ", proved"
    less = result.size(best) - result.bound
    if less <= result.slack:
        by = f"over {less} bytes less" + ("" if result.extra is None else " for it")
        return f"{family} has {by}, proved"
    return _at_least(result)


def _cost_verdict(result: TilingResult, best: TilingPoint) -> str:
    """Return what is proved about the cost of an answer within a capacity."""
    family = f"no {result.family} that fits costs less"
    if best.bound is None:
        return _at_least(result)
    least = percent_down(best.bound, result.rows.cost)
    return f"{family}, proved" if best.proved else f"{family} than {least}"


def _at_least(result: TilingResult) -> str:
    if result.bound <= 0:
        return "no bound is proved"
    return f"no {result.family} has less than {result.bound:,} bytes"


def tiling_text(result: TilingResult) -> str:
    """Return the stages of the answer in words, one per line."""
    best, graph = result.best, result.rows.graph
    whole = [(op.name, why) for op, why in zip(graph.ops, result.rows.ops, strict=True)
             if isinstance(why, str)]  # fmt: skip
    lines = []
    if best is not None:
        stages = stage_records(result, best)
        parts = f"{counted(len(stages), 'stage')}, {counted(len(best.tiled.ops), 'op')}"
        lines.append(f"{graph.name}: head {best.head:,}, {result.tail.name} {best.tail:,}; {parts}")
        lines += [f"  {stage_line(x)}" for x in stages]
    if whole:
        lines.append(f"  {counted(len(whole), 'op')} cannot run in bands:")
        lines += [f"    {name}: {why}" for name, why in whole[:5]]
        lines += [f"    and {len(whole) - 5} more"] if len(whole) > 5 else []
    return "\n".join(lines)


def stage_line(stage: dict[str, Any]) -> str:
    """Return a stage in words."""
    ops = stage["ops"]
    name = ops[0] if len(ops) == 1 else f"{ops[0]} to {ops[-1]} ({len(ops)} ops)"
    return (
        f"{name} in {stage['bands']} bands {stage['direction']}: {stage['live']:,} bytes live "
        f"instead of {stage['live_untiled']:,}, {percent(stage['extra'], 2)} more multiplications"
    )


def front_table(result: TilingResult) -> Table:
    """Return one row per plan of the front."""
    rows = [
        [
            f"{x.arena:,}",
            f"{x.head:,}",
            f"{x.tail:,}",
            percent(result.share(x.extra), 2),
            "-" if x.bound is None else percent(result.share(x.bound), 2),
            str(len(x.tiled.tiling.stages)),
            str(len(x.tiled.ops)),
        ]
        for x in result.front
    ]
    heads = ("arena", "head", "tail", "extra", "bound", "stages", "ops")
    return make_table(heads, "nnnnnnn", rows)


def tiling_page(result: TilingResult, own_head: int) -> str:
    """Return an HTML page: the front, the stages, and the slab before and after."""
    table = as_html(front_table(result), "Points of the front")
    body = [front_picture(result), f"<p class=soft>{_LEGEND}</p>", table]
    body += [f"<p>{safe(line, 2000)}</p>" for line in tiling_text(result).splitlines()]
    body.append(f"<style>{STYLE}</style>")
    points = [("The slab before", result.untiled)]
    points += [("The slab after", result.best)] if result.best is not None else []
    for title, point in points:
        shown = plan_view(point.tiled.graph, point.plan, title)
        body += [f"<h2>{title}</h2>", slab_figure(shown, 0)]
    name = result.rows.graph.name
    line = tiling_line(result, own_head)
    return short_page(f"tiling of {name}", f"Tiling in rows of {name}", line, "".join(body))


def front_picture(result: TilingResult) -> str:
    """Return an SVG: bytes to the right, extra multiplications up."""
    marks = [Mark(Shape.WALL, result.bound)] if result.bound else []
    for point in result.front:
        size = result.size(point)
        if point.bound is not None:
            marks.append(Mark(Shape.TICK, size, max(0, point.bound)))
        marks.append(Mark(Shape.DOT, size, max(0, point.extra)))
    most = max((result.size(x) for x in (*result.front, result.untiled)), default=1)
    top = max((x.extra for x in result.front), default=0)
    unit, scale = unit_of(most)
    up = Axis(max(1, top), "more multiplications (%)", max(1, result.rows.cost) / 100)
    noun = "head" if result.objective == "head" else "arena"
    return scatter(marks, Axis(max(1, most), f"{noun} ({unit})", scale), up)
