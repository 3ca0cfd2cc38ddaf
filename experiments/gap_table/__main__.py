"""Compare on real graphs and write what the README shows: `python -m experiments.gap_table`."""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import replace
from pathlib import Path

from optsched.compare import Study, StudySettings, compare_files, parse_methods
from optsched.reports.study_files import study_markdown
from optsched.reports.study_tables import graph_table
from optsched.reports.svg import slab_picture
from optsched.reports.tables import as_markdown
from optsched.reports.view import plan_view
from optsched.runtime.limits import Limits

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
COLUMNS = ("program", "lpmf", "bfs", "dfs", "inductor", "xla_default", "greedy_by_size")
README = ROOT / "README.md"
BEGIN, END = "<!-- gap table: begin -->", "<!-- gap table: end -->"
PICTURE = "alexnet_bs128.bwd"
_SVG_HEAD = '<svg xmlns="http://www.w3.org/2000/svg" width="960" height="360" '


def main() -> None:
    argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0]).parse_args()
    os.chdir(ROOT)
    paths = [str(path) for path in sorted(Path("instances/inductor").glob("*.json.gz"))]
    settings = StudySettings(parse_methods(["all", "recorded"]), Limits(seconds=60.0))
    study = compare_files(paths, settings)
    by_name = {c.graph.name: c for c in study.comparisons}
    write_picture(study)
    shown = replace(study, comparisons=tuple(by_name[name] for name in SHOWN))
    table = as_markdown(graph_table(shown, COLUMNS)) + "\n"
    (HERE / "all_graphs.md").write_text(study_markdown(study))
    write_table(table)
    print(table, end="")
    sys.exit(1 if study.skipped else 0)


def write_table(table: str) -> None:
    """Put the table where the project's README shows it."""
    text = README.read_text()
    before, rest = text.split(BEGIN)
    README.write_text(f"{before}{BEGIN}\n{table}{END}{rest.split(END)[1]}")


def write_picture(study: Study) -> None:
    for c in study.comparisons:
        if c.graph.name == PICTURE and c.result.plan is not None:
            shown = plan_view(c.graph, c.result.plan, "plan")
            svg = slab_picture(shown, c.result.slab_bound).replace("<svg ", _SVG_HEAD, 1)
            (HERE / "packed_slab.svg").write_text(svg)


if __name__ == "__main__":
    main()
