"""Losses of one ordering to another: the worst ratio that a short hunt finds for each pair."""

from __future__ import annotations

from pathlib import Path

from experiments.tables import markdown, replace_table
from optsched.counterexamples import HuntTarget, hunt

METHODS = ("lpmf", "bfs", "dfs", "xla_list", "xla_dfs", "xla_post_order", "lpmf_backward")
TRIES = 8_000


def versus_table() -> None:
    """Hunt for every pair and make the table of the README."""
    lines = []
    for method in METHODS:
        cells = []
        for rival in METHODS:
            example = None
            if rival != method:
                example = hunt(HuntTarget(method, rival, seconds=None, tries=TRIES)).counterexample
            cells.append(f"{example.loss.score:.2f}" if example else "")
        lines.append((method, *cells))
    readme = Path(__file__).parent / "README.md"
    replace_table(readme, "versus", markdown(("loses to", *METHODS), lines))
