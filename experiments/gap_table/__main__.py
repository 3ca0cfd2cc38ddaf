"""Compare on real graphs and write what the README shows: `python -m experiments.gap_table`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from optsched.compare import Comparison, compare_methods
from optsched.formats import read_graph
from optsched.report.bytes import format_bytes
from optsched.report.svg import slab_picture
from optsched.result import Limits, optimality_gap

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
SHOWN = (
    "alexnet_bs128.bwd",
    "vgg16_bs64.bwd",
    "resnet50_bs32.bwd",
    "unet_bs4.bwd",
    "lstm_t35_bs20.bwd",
    "llama_2l_bs1.bwd",
    "gpt2_bs4_ac0.5.bwd",
    "debertav2_qa_bs1.bwd",
    "albert_mlm_bs4_ac0.5.bwd",
    "albert_qa_bs4_ac0.5_cuda.bwd",
    "mobilebert_qa_bs128_ac0.5.bwd",
    "mobilebert_qa_bs128.infer",
)
METHODS = ("program", "lpmf", "bfs", "dfs", "inductor", "xla_default")
PACKER = "greedy_by_size"
PICTURE = "alexnet_bs128.bwd"


def main(names: Sequence[str]) -> None:
    found = []
    for name in names:
        graph = read_graph(ROOT / "instances" / "inductor" / f"{name}.json.gz")
        found.append(compare_methods(graph, limits=Limits(seconds=60.0)))
        print(f"{name} done", file=sys.stderr)
        plan = found[-1].result.plan
        if name == PICTURE and plan is not None:
            svg = slab_picture(graph, plan).replace("<svg ", _SVG_HEAD, 1)
            (HERE / "packed_slab.svg").write_text(svg)
    table = markdown(found)
    (HERE / "table.md").write_text(table)
    print(table, end="")


_SVG_HEAD = '<svg xmlns="http://www.w3.org/2000/svg" width="960" height="360" '


def markdown(found: Sequence[Comparison]) -> str:
    """One line a graph: what each order has above the proven least peak, in percent of it."""
    heads = ["graph", "ops", *METHODS, "greedy packer", "least peak = slab", "proof", "seconds"]
    lines = ["| " + " | ".join(heads) + " |", "|---" + "|---:" * (len(heads) - 1) + "|"]
    for c in found:
        rows = {row.method: row for row in c.rows}
        result = c.result
        cells = [c.graph.name, str(len(c.graph.ops))]
        cells += [_percent(rows[m].peak_gap) for m in METHODS]
        cells.append(_percent(rows[PACKER].slab_gap))
        cells.append(format_bytes(result.slab) if result.slab == result.peak else "-")
        gap = optimality_gap(result.slab or 0, result.slab_bound)
        proof = f"{result.peak_proof} {result.slab_proof}"
        cells.append(proof if gap == 0 else f"gap {_percent(gap)}")
        cells.append(f"{result.runtime:.2f}")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _percent(gap: float) -> str:
    return "0" if gap == 0 else f"{100 * gap:.1f}" if gap >= 0.0005 else "<0.1"


if __name__ == "__main__":
    main(sys.argv[1:] or SHOWN)
