"""Compare on real graphs; the README's table is part of it: `python -m experiments.gap_table`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable
from pathlib import Path

from experiments.tables import markdown, replace_table
from optsched.compare import Comparison, Study, StudySettings, compare_files, parse_methods
from optsched.reports.study_files import study_markdown
from optsched.runtime.bytes import format_bytes
from optsched.runtime.limits import Limits

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
SHOWN = (
    "alexnet_bs128.bwd",
    "resnet50_bs32.bwd",
    "lstm_t35_bs20.bwd",
    "llama_2l_bs1.bwd",
    "albert_mlm_bs4_ac0.5.bwd",
    "albert_qa_bs4_ac0.5_cuda.bwd",
    "mobilebert_qa_bs128_ac0.5.bwd",
)
"""Graphs in the README, from small gains to large ones."""
README = ROOT / "README.md"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split(";")[0])
    parser.add_argument("--readme", action="store_true", help="make only the table of the README")
    only_readme = parser.parse_args().readme
    os.chdir(ROOT)
    study = compare_all(["recorded"] if only_readme else ["all", "recorded"])
    table = readme_table(c for c in study.comparisons if c.graph.name in SHOWN)
    if not only_readme:
        (HERE / "all_graphs.md").write_text(study_markdown(study))
    replace_table(README, "gap table", table)
    print(table, end="")
    sys.exit(1 if study.skipped else 0)


def compare_all(methods: list[str]) -> Study:
    """Compare methods and our plan on all graphs captured from Inductor."""
    paths = [str(path) for path in sorted(Path("instances/inductor").glob("*.json.gz"))]
    chosen = parse_methods([*methods, "optsched"])
    return compare_files(paths, StudySettings(chosen, Limits(seconds=60.0)))


def readme_table(comparisons: Iterable[Comparison]) -> str:
    """Return peaks of Inductor's order and of the best one, least saved first."""
    rows = []
    for c in comparisons:
        own, best = c.row("recorded").peak, c.row("optsched").peak
        assert own is not None
        assert best is not None
        assert best == c.result.peak_bound, "the README promises proved peaks"
        rows.append((1 - best / own, c.graph.name, own, best))
    return markdown(
        ["graph", "Inductor's own order", "best order, proved", "saved"],
        [
            [name, format_bytes(own), format_bytes(best), f"{saved:.1%}"]
            for saved, name, own, best in sorted(rows)
        ],
    )


if __name__ == "__main__":
    main()
