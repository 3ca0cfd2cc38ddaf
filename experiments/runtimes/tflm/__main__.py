"""Arena of TFLite Micro before and after a plan: `python -m experiments.runtimes.tflm`.

With `--packages` the models inside installed packages are run instead of the project's own.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path

from experiments.tables import markdown, replace_table, write_rows
from heuristics import PACKINGS
from optsched import peak_memory, solve
from optsched.formats.tflite.apply import apply_tflite
from optsched.formats.tflite.graph import read_tflite
from optsched.measure.tflm import run_model
from optsched.model.packing_problem import packing_problem
from optsched.model.plan import make_plan
from optsched.reports.svg import contrast_picture, slab_panel
from optsched.reports.view import plan_view
from tests.support.tflm_packages import packaged_models

HERE = Path(__file__).parent
INSTANCES = Path(__file__).parents[3] / "instances" / "tflite"


ARENA = 64 << 20


@dataclass(frozen=True)
class Row:
    """One model; bytes, the arena's heads as the interpreter prints them.

    Parameters
    ----------
    model, ops
        The model, and how many operators it has.
    scratch
        Scratch of the operator that needs most.
    file_peak
        Live bytes of the file's order.
    before, tail_before
        Head and tail of the arena with TFLite Micro's own plan.
    bound, slab, proof
        Lower bound on every plan, our slab, and its proof.
    moved
        Operators that run at another step.
    after, tail_after
        Head and tail with our plan.
    same
        True if all outputs are equal bit for bit.
    """

    model: str
    ops: int
    scratch: int
    file_peak: int
    before: int
    bound: int
    slab: int
    proof: str
    moved: int
    after: int
    tail_before: int
    tail_after: int
    same: str


def measure(path: Path) -> Row:
    """Plan one model, put the plan in, and run it before and after."""
    data = path.read_bytes()
    made = read_tflite(data, path.stem)
    graph = made.graph
    result = solve(graph, time_limit=60)
    if result.plan is None or result.slab is None:
        raise RuntimeError(f"{path}: no plan was found in a minute")
    before = run_model(data, ARENA)
    after = run_model(apply_tflite(data, made, result.plan), ARENA)
    scratch = [graph.buffers[op.workspace].size for op in graph.ops if op.workspace is not None]
    return Row(
        path.stem,
        len(graph.ops),
        max(scratch, default=0),
        peak_memory(graph, range(len(graph.ops))),
        before.head,
        result.slab_bound,
        result.slab,
        str(result.slab_proof or ""),
        sum(step != v for step, v in enumerate(result.plan.order)),
        after.head,
        before.tail,
        after.tail,
        "yes" if after.same_outputs(before) else "NO",
    )


def table(rows: list[Row]) -> str:
    """Return the table of the README."""
    head = ["model", "ops", "largest scratch", "file's order", "TFLM's arena", "bound"]
    head += ["our slab", "proof", "arena with our plan", "less", "outputs the same"]
    lines = []
    for x in rows:
        numbers = (x.ops, x.scratch, x.file_peak, x.before, x.bound, x.slab)
        less = f"{100 * (1 - x.after / x.before):.1f} %"
        shown = [f"{n:,}" for n in numbers]
        lines.append([x.model, *shown, x.proof, f"{x.after:,}", less, x.same])
    return markdown(head, lines)


def write_picture(path: Path) -> None:
    """Draw a model's arena as TFLite Micro packs it and as we do, in one scale."""
    graph = read_tflite(path.read_bytes(), path.stem).graph
    result = solve(graph)
    order = range(len(graph.ops))
    problem, _ = packing_problem(graph, order)
    greedy = make_plan(graph, order, PACKINGS["greedy_by_size"](problem))
    panels = []
    for title, plan in (("the file as it is", greedy), ("after apply", result.plan)):
        assert plan is not None
        panel = slab_panel(f"{title}: {plan.slab(graph):,} bytes", plan_view(graph, plan, title))
        panels.append(replace(panel, labels=()))
    (HERE / "arena.svg").write_text(contrast_picture(panels, result.slab_bound))


def run_packaged() -> None:
    """Write the table of models inside installed packages; those that do not run are named."""
    rows, failed = [], []
    for path in packaged_models():
        try:
            rows.append(measure(path))
        except RuntimeError as error:
            reasons = [line for line in str(error).splitlines() if "ailed" in line]
            failed.append(f"`{path.stem}` ({reasons[0] if reasons else 'it aborts'})")
    text = table(rows)
    if failed:
        text += f"\nTFLite Micro itself does not run {', '.join(failed)}.\n"
    replace_table(HERE / "README.md", "packages", text)
    print(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--packages", action="store_true", help="models inside installed packages")
    if parser.parse_args().packages:
        run_packaged()
        return
    write_picture(INSTANCES / "inception.tflite")
    rows = [measure(path) for path in sorted(INSTANCES.glob("*.tflite"))]
    write_rows(HERE / "results.csv", rows)
    write_rows(INSTANCES / "best_known.csv", [Known(x.model, x.bound, x.slab) for x in rows])
    used = ", ".join(f"{name} {version(name)}" for name in ("tflite-micro", "tflite", "numpy"))
    replace_table(HERE / "README.md", "arena", f"{table(rows)}\nWith {used}.\n")
    print(table(rows))


@dataclass(frozen=True)
class Known:
    """A row of the instances' list of known values."""

    instance: str
    bound: int
    slab: int


if __name__ == "__main__":
    main()
