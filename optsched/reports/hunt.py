"""Reports of hunts: text, JSON record, picture and files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from optsched.counterexamples import Counterexample, Hunt, LossObjective
from optsched.counterexamples.target import kind_of
from optsched.formats import packing_of, write_bytes, write_graph, write_packing, write_plan
from optsched.model.graph import Graph
from optsched.model.packing_problem import PackingProblem
from optsched.model.saving import Saving
from optsched.reports.page import short_page
from optsched.reports.step_diff import order_diff, packing_diff
from optsched.reports.svg import contrast_picture, order_panel, slab_panel
from optsched.reports.tables import safe
from optsched.reports.view import packing_view, plan_view
from optsched.runtime.facts import versions
from optsched.runtime.limits import Objective
from optsched.runtime.text import counted


def paragraph(example: Counterexample) -> str:
    """Return a paragraph about the step at which the method loses, and why."""
    item, method, rival = example.item, example.target.method, example.rival
    mine, better = example.plans[method], example.plans[rival]
    if isinstance(item, PackingProblem):
        return packing_diff(item, method, mine, rival, better)
    # A pair may lose by its packing alone; then the orders have nothing to tell.
    text = ""
    if mine.peak(item) > better.peak(item):
        text = order_diff(item, method, mine, rival, better)
    if kind_of(method) == "pair":
        lost = mine.slab(item) - mine.peak(item)
        text += f" Packing the order of {method} wastes {lost:,} bytes above its peak."
    return text.strip()


def picture(example: Counterexample, *, stacked: bool = False) -> str:
    """Return an SVG of the method's plan beside the better one, or above it if `stacked`."""
    panels = []
    for name, value in (
        (example.target.method, example.loss.value),
        (example.rival, example.loss.rival),
    ):
        item, plan, title = example.item, example.plans[name], f"{name}: {value:,} bytes"
        if isinstance(item, PackingProblem):
            panels.append(slab_panel(title, packing_view(item, plan, title)))
        elif kind_of(example.target.method) == "pair":
            panels.append(slab_panel(title, plan_view(item, plan, title)))
        else:
            panels.append(order_panel(title, item, plan))
    return contrast_picture(panels, example.loss.rival, stacked=stacked)


def hunt_page(example: Counterexample) -> str:
    """Return an HTML page: saving, picture and paragraph."""
    title = f"{example.target.method} on {example.item.name}"
    # The colors of the picture are for white, so it keeps its own ground at night.
    body = f"<figure class=paper>{picture(example, stacked=True)}</figure>"
    body += f"<p>{safe(paragraph(example), 4000)}</p>"
    return short_page(title, title, str(saving_of(example)), body)


def hunt_record(hunt: Hunt, files: dict[str, str]) -> dict[str, Any]:
    """Return the record that `optsched hunt --json` prints."""
    target = hunt.target
    record: dict[str, Any] = {
        "method": target.method,
        "versus": target.versus,
        "objective": target.objective,
        "seed": target.seed,
        "found": hunt.counterexample is not None,
        "exhausted": list(hunt.exhausted),
        "exhausted_scope": hunt.scope,
        "tried": hunt.tried,
        "seconds": round(hunt.seconds, 3),
        "interrupted": hunt.interrupted,
    }
    if hunt.counterexample is not None:
        example = hunt.counterexample
        record |= {
            "graph": example.item.name,
            **_counts(example.item),
            "value": example.loss.value,
            "rival_value": example.loss.rival,
            "score": round(example.loss.score, 6),
            "optimum": example.optimum.value,
            "proved": example.optimum.proved,
            "proof": example.optimum.proof,
            "minimal": example.minimal,
            "plans": {name: _placed(example.item, plan) for name, plan in example.plans.items()},
            "story": paragraph(example),
            "files": files,
        }
        record["saving"] = saving_of(example).to_dict()
    return record | {"versions": versions()}


def saving_of(example: Counterexample) -> Saving:
    """Return the saving of the better plan against the method that was hunted."""
    kind, value, rival = kind_of(example.target.method), example.loss.value, example.loss.rival
    quantity = Objective.PEAK if kind == "ordering" else Objective.SLAB
    # Only a proved optimum is a bound.
    bound = example.optimum.value if example.optimum.proved else None
    method = example.target.method
    return Saving(quantity, quantity.value, value, rival, bound, method, method)


def _counts(item: Graph | PackingProblem) -> dict[str, int]:
    if isinstance(item, PackingProblem):
        return {"buffers": len(item)}
    # Edges are those that a hunt may remove: an op's operands and its control dependencies.
    edges = sum(len(set(op.reads) | set(op.uses)) + len(set(op.control)) for op in item.ops)
    return {"ops": len(item.ops), "edges": edges, "buffers": len(item.buffers)}


def _placed(item: Graph | PackingProblem, plan: Any) -> Any:
    """Return the offsets of a packing by buffer name, or an order as op names."""
    if isinstance(item, PackingProblem):
        return dict(zip(item.names, plan.tolist(), strict=True))
    return [item.ops[v].name for v in plan.order]


def hunt_text(hunt: Hunt, files: dict[str, str]) -> str:
    """Return the text that `optsched hunt` prints."""
    target, example, lines = hunt.target, hunt.counterexample, []
    if example is None:
        rival = f"worse than {target.versus}" if target.versus else "above the optimum"
        lines.append(f"{target.method} was never found {rival}")
    else:
        is_ratio = target.objective is LossObjective.RATIO
        score = f"{example.loss.score:,.4g}" if is_ratio else f"{example.loss.score:,.0f}"
        counts = ", ".join(counted(n, what[:-1]) for what, n in _counts(example.item).items())
        proved = "proved" if example.optimum.proved else "not proved"
        lines += [
            str(saving_of(example)),
            f"{target.method} {example.loss.value:,} bytes, "
            f"{example.rival} {example.loss.rival:,}: "
            f"{target.objective} {score} on {counts}",
            f"  optimum {example.optimum.value:,} bytes, {proved}: {example.optimum.proof}",
            _minimal_line(example, interrupted=hunt.interrupted),
            f"  {paragraph(example)}",
            *(f"  {what}: {path}" for what, path in files.items()),
        ]
    if hunt.exhausted:
        lines.append(f"  tried exhaustively, {hunt.scope}: {', '.join(hunt.exhausted)}")
    lines.append(f"  {counted(hunt.tried, 'instance')} tried in {hunt.seconds:.1f} s")
    return "\n".join(lines)


def _minimal_line(example: Counterexample, *, interrupted: bool) -> str:
    """Return the line on minimality: the objective after any single removal."""
    if not example.minimal:
        why = "interrupted" if interrupted else "the time for shrinking or for a proof ran out"
        return f"  possibly not minimal: {why}"
    part = "buffer" if isinstance(example.item, PackingProblem) else "op, edge or buffer"
    least = example.target.at_least
    if least is None:
        less = "smaller"
    else:
        less = f"below {least.numerator:,}" if least.denominator == 1 else f"below {float(least):g}"
    return f"  minimal: without any one {part} the {example.target.objective} is {less}"


def write_counterexample(path: Path, example: Counterexample) -> dict[str, str]:
    """Write the instance, its plans, picture, paragraph and page; return the path of each.

    The files are next to `path` and share its stem: `core.json` comes with `core.lpmf.plan.json`,
    `core.optimum.plan.json`, `core.svg`, `core.txt` and `core.html`.
    """
    # The stem without .json or .csv names all files beside it.
    stem = Path(path.name.removesuffix(".gz")).stem
    item = example.item
    if isinstance(item, PackingProblem):
        files = {"packing": path}
        write_packing(packing_of(item), path)
        for name, offsets in example.plans.items():
            files[f"packing of {name}"] = path.with_name(f"{stem}.{name}.csv")
            write_packing(packing_of(item), files[f"packing of {name}"], offsets)
    else:
        files = {"graph": path}
        write_graph(item, path)
        for name, plan in example.plans.items():
            files[f"plan of {name}"] = path.with_name(f"{stem}.{name}.plan.json")
            write_plan(plan, files[f"plan of {name}"], item)
    files["picture"], files["story"] = path.with_name(f"{stem}.svg"), path.with_name(f"{stem}.txt")
    write_bytes(files["picture"], picture(example).encode())
    write_bytes(files["story"], (paragraph(example) + "\n").encode())
    files["page"] = path.with_name(f"{stem}.html")
    write_bytes(files["page"], hunt_page(example).encode())
    return {what: str(file) for what, file in files.items()}
