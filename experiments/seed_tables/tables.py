"""The tables of the study as Markdown, from its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from experiments.seed_tables.measure import METHODS, SeedRow
from experiments.seed_tables.setups import BUDGET, PUBLISHED
from experiments.tables import markdown

Table = Callable[[Sequence[SeedRow]], str]

_PEAKS = ["baseline", "LPMF", "BFS", "DFS", "Inductor's choice"]


def peaks_cpu(rows: Sequence[SeedRow]) -> str:
    """Peaks of the graphs lowered for the CPU, MB."""
    return _peaks([row for row in rows if row.device == "cpu"])


def peaks_gpu(rows: Sequence[SeedRow]) -> str:
    """Peaks of the graphs lowered for the imagined GPU, MB."""
    return _peaks([row for row in rows if row.device != "cpu"])


def published(rows: Sequence[SeedRow]) -> str:
    """Each row of the notes, and the estimates for a training step of that model, GB."""
    head = ["model", "batch", "AC", "published: baseline", "new", "ratio", "lowering", "baseline"]
    head += ["Inductor's choice", "least", "baseline / choice", "baseline / least"]
    lines = []
    for model, row in PUBLISHED.items():
        budget = str(BUDGET) if row.checkpointed else ""
        ratio = float(row.baseline) / float(row.new)
        left = [row.title, str(row.batch), budget or "no", row.baseline, row.new, f"{ratio:.2f}"]
        for device in ("cpu", "cuda"):
            graphs = {
                r.phase: r for r in rows if (r.model, r.budget, r.device) == (model, budget, device)
            }
            if {"fwd", "bwd"} <= set(graphs):
                lines.append([*left, device, *_step(graphs["fwd"], graphs["bwd"])])
    return markdown(head, lines)


def estimators(rows: Sequence[SeedRow]) -> str:
    """Table of three estimators: the peak of the chosen order in MB, and their own choice."""
    head = ["graph", "today: choice", "MB", "2025-09: choice", "MB", "first: choice", "MB"]
    head += ["the first's order today, MB"]
    lines = []
    for row in rows:
        old = getattr(row, f"old_{row.old_chosen}")
        first = getattr(row, f"first_{row.first_chosen}")
        cells = [row.chosen, _mb(row.choice), row.old_chosen, _mb(old), row.first_chosen]
        lines.append([row.graph, *cells, _mb(first), _mb(row.first_choice)])
    return markdown(head, lines)


def changed(rows: Sequence[SeedRow]) -> str:
    """The graphs in which a historical estimator chose otherwise than today's, bytes."""
    head = ["graph", "estimator", *_PEAKS[:4], "choice", "today's choice", "its choice today"]
    head += ["today's choice today", "excess %"]
    lines = []
    for row in rows:
        for name in ("old", "first"):
            chosen = getattr(row, f"{name}_chosen")
            today = row.first_choice if name == "first" else getattr(row, chosen)
            if chosen == row.chosen and today == row.choice:
                continue
            estimates = [f"{getattr(row, f'{name}_{method}'):,}" for method in METHODS]
            title = "2025-09" if name == "old" else "first"
            cells = [row.graph, title, *estimates, chosen, row.chosen, f"{today:,}"]
            lines.append([*cells, f"{row.choice:,}", _percent(today, row.choice)])
    return markdown(head, lines) if lines else "None.\n"


def summary(rows: Sequence[SeedRow]) -> str:
    """Table of methods: the number of graphs with the least peak, and the worst excess."""
    head = [
        "graphs",
        "number",
        *(f"{name}: least, worst %" for name in _PEAKS),
        "peak proved",
        "slab = least peak",
    ]
    groups: dict[str, Callable[[SeedRow], bool]] = {
        "forward": lambda r: r.phase == "fwd" and not r.budget,
        "forward, AC": lambda r: r.phase == "fwd" and bool(r.budget),
        "backward": lambda r: r.phase == "bwd" and not r.budget,
        "backward, AC": lambda r: r.phase == "bwd" and bool(r.budget),
        "inference": lambda r: r.phase == "infer",
        "all": lambda r: True,
    }
    lines = []
    for name, is_in in groups.items():
        group = [row for row in rows if is_in(row)]
        if not group:
            continue
        cells = [name, str(len(group))]
        for method in (*METHODS, "choice"):
            values = [(getattr(row, method), row.least) for row in group]
            least = sum(value == best for value, best in values)
            worst = max(100 * (value / best - 1) for value, best in values)
            cells.append(f"{least}, {worst:.1f}")
        cells.append(str(sum(row.least == row.bound for row in group)))
        lines.append([*cells, str(sum(row.slab == row.bound for row in group))])
    return markdown(head, lines)


TABLES: dict[str, Table] = {
    "summary": summary,
    "published": published,
    "peaks-cpu": peaks_cpu,
    "peaks-gpu": peaks_gpu,
    "changed": changed,
    "estimators": estimators,
}
"""Tables by name, in the sequence of the README."""


def _peaks(rows: Iterable[SeedRow]) -> str:
    head = ["graph", "ops", *_PEAKS, "least peak", "proof", "slab", "proof", "choice above least %"]
    lines = []
    for row in rows:
        peaks = [_mb(getattr(row, method)) for method in METHODS]
        choice = f"{row.chosen} {_mb(row.choice)}"
        least = [_mb(row.least), row.proof or f"above {_mb(row.bound)}"]
        slab = [_mb(row.slab), row.slab_proof or f"above {_mb(row.slab_bound)}"]
        above = _percent(row.choice, row.least)
        lines.append([row.graph, str(row.ops), *peaks, choice, *least, *slab, above])
    return markdown(head, lines)


def _step(forward: SeedRow, backward: SeedRow) -> list[str]:
    """Parameters and inputs, and on top the higher of the peaks of both graphs, GB."""
    values = [
        forward.uncounted + max(getattr(forward, name), getattr(backward, name))
        for name in ("baseline", "choice", "least")
    ]
    baseline, choice, least = values
    return [
        *(f"{v / 1e9:.2f}" for v in values),
        f"{baseline / choice:.2f}",
        f"{baseline / least:.2f}",
    ]


def _percent(value: int, least: int) -> str:
    """Return the excess in percent; what is not nothing never reads 0."""
    excess = 100 * (value / least - 1)
    return "0" if value == least else f"{excess:.2f}" if abs(excess) >= 0.005 else "<0.01"


def _mb(count: int) -> str:
    return f"{count / 1e6:,.1f}"
