"""Reports of hunts: text, JSON record, picture and files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from optsched.counterexamples import Find, Hunt, LossObjective
from optsched.counterexamples.target import kind_of
from optsched.formats import packing_of, write_bytes, write_graph, write_packing, write_plan
from optsched.model.graph import Graph
from optsched.model.packing_problem import PackingProblem
from optsched.reports.step_diff import order_diff, packing_diff
from optsched.reports.svg import contrast_picture, order_panel, slab_panel
from optsched.reports.view import packing_view, plan_view
from optsched.runtime.facts import versions
from optsched.runtime.text import counted


def paragraph(find: Find) -> str:
    """Return a paragraph that tells at which step the method loses, and why."""
    item, method, rival = find.item, find.target.method, find.rival
    mine, better = find.plans[method], find.plans[rival]
    if isinstance(item, PackingProblem):
        return packing_diff(item, method, mine, rival, better)
    text = ""
    if mine.peak(item) > better.peak(item):
        text = order_diff(item, method, mine, rival, better)
    if kind_of(method) == "pair":
        lost = mine.slab(item) - mine.peak(item)
        text += f" Packing the order of {method} wastes {lost:,} bytes above its peak."
    return text.strip()


def picture(find: Find) -> str:
    """Return an SVG of the method's plan beside the better one."""
    panels = []
    for name, value in ((find.target.method, find.loss.value), (find.rival, find.loss.rival)):
        item, plan, title = find.item, find.plans[name], f"{name}: {value:,} bytes"
        if isinstance(item, PackingProblem):
            panels.append(slab_panel(title, packing_view(item, plan, title)))
        elif kind_of(find.target.method) == "pair":
            panels.append(slab_panel(title, plan_view(item, plan, title)))
        else:
            panels.append(order_panel(title, item, plan))
    return contrast_picture(panels, find.loss.rival)


def hunt_record(hunt: Hunt, files: dict[str, str]) -> dict[str, Any]:
    """Return the record that `optsched hunt --json` prints."""
    target = hunt.target
    record: dict[str, Any] = {
        "method": target.method,
        "versus": target.versus,
        "objective": target.objective,
        "seed": target.seed,
        "found": hunt.find is not None,
        "exhausted": list(hunt.exhausted),
        "exhausted_scope": hunt.scope,
        "tried": hunt.tried,
        "seconds": round(hunt.seconds, 3),
        "interrupted": hunt.interrupted,
    }
    if hunt.find is not None:
        find = hunt.find
        record |= {
            "instance": find.item.name,
            **_counts(find.item),
            "value": find.loss.value,
            "rival_value": find.loss.rival,
            "score": round(find.loss.score, 6),
            "optimum": find.optimum.value,
            "proved": find.optimum.proved,
            "proof": find.optimum.proof,
            "minimal": find.minimal,
            "plans": {name: _placed(find.item, plan) for name, plan in find.plans.items()},
            "story": paragraph(find),
            "files": files,
        }
    return record | {"versions": versions()}


def _counts(item: Graph | PackingProblem) -> dict[str, int]:
    if isinstance(item, PackingProblem):
        return {"buffers": len(item)}
    edges = sum(len(set(op.reads) | set(op.uses)) + len(set(op.control)) for op in item.ops)
    return {"ops": len(item.ops), "edges": edges, "buffers": len(item.buffers)}


def _placed(item: Graph | PackingProblem, plan: Any) -> Any:
    """Return the offsets of a packing by buffer name, or an order as op names."""
    if isinstance(item, PackingProblem):
        return dict(zip(item.names, plan.tolist(), strict=True))
    return [item.ops[v].name for v in plan.order]


def hunt_text(hunt: Hunt, files: dict[str, str]) -> str:
    """Return the text that `optsched hunt` prints."""
    target, find, lines = hunt.target, hunt.find, []
    if find is None:
        rival = f"worse than {target.versus}" if target.versus else "above the optimum"
        lines.append(f"{target.method} was never found {rival}")
    else:
        is_ratio = target.objective is LossObjective.RATIO
        score = f"{find.loss.score:,.4g}" if is_ratio else f"{find.loss.score:,.0f}"
        counts = ", ".join(f"{n} {what}" for what, n in _counts(find.item).items())
        proved = "proved" if find.optimum.proved else "not proved"
        lines += [
            f"{target.method} {find.loss.value:,} bytes, {find.rival} {find.loss.rival:,}: "
            f"{target.objective} {score} on {counts}",
            f"  optimum {find.optimum.value:,} bytes, {proved}: {find.optimum.proof}",
            _minimal_line(find, interrupted=hunt.interrupted),
            f"  {paragraph(find)}",
            *(f"  {what}: {path}" for what, path in files.items()),
        ]
    if hunt.exhausted:
        lines.append(f"  tried exhaustively, {hunt.scope}: {', '.join(hunt.exhausted)}")
    lines.append(f"  {counted(hunt.tried, 'instance')} tried in {hunt.seconds:.1f} s")
    return "\n".join(lines)


def _minimal_line(find: Find, *, interrupted: bool) -> str:
    """Return the line that tells if the instance is minimal, and what a removal would cost."""
    if not find.minimal:
        why = "interrupted" if interrupted else "the time for shrinking or for a proof ran out"
        return f"  possibly not minimal: {why}"
    part = "buffer" if isinstance(find.item, PackingProblem) else "op, edge or buffer"
    least = find.target.at_least
    if least is None:
        less = "smaller"
    else:
        less = f"below {least.numerator:,}" if least.denominator == 1 else f"below {float(least):g}"
    return f"  minimal: without any one {part} the {find.target.objective} is {less}"


def write_find(path: Path, find: Find) -> dict[str, str]:
    """Write the instance, its plans, the picture and the paragraph; return the path of each.

    The files are next to `path` and share its stem: `core.json` comes with `core.lpmf.plan.json`,
    `core.optimum.plan.json`, `core.svg` and `core.txt`.
    """
    stem = Path(path.name.removesuffix(".gz")).stem
    item = find.item
    if isinstance(item, PackingProblem):
        files = {"packing": path}
        write_packing(packing_of(item), path)
        for name, offsets in find.plans.items():
            files[f"packing of {name}"] = path.with_name(f"{stem}.{name}.csv")
            write_packing(packing_of(item), files[f"packing of {name}"], offsets)
    else:
        files = {"graph": path}
        write_graph(item, path)
        for name, plan in find.plans.items():
            files[f"plan of {name}"] = path.with_name(f"{stem}.{name}.plan.json")
            write_plan(plan, files[f"plan of {name}"], item)
    files["picture"], files["story"] = path.with_name(f"{stem}.svg"), path.with_name(f"{stem}.txt")
    write_bytes(files["picture"], picture(find).encode())
    write_bytes(files["story"], (paragraph(find) + "\n").encode())
    return {what: str(file) for what, file in files.items()}
