"""Sections of a study with their introductions, for Markdown and HTML."""

from __future__ import annotations

from optsched.compare import Study
from optsched.reports.study_tables import (
    graph_table,
    method_table,
    methods_with_columns,
    profile_table,
)
from optsched.reports.tables import Table

TITLE = "Distance of each method from the optimum"
FLEET_TITLE = "Memory plans of a fleet"
PROFILE = "Performance profile"
METHODS_SAY = (
    "Excess is `value / optimum - 1`, or `/ best known` where no optimum is proved: the geometric "
    "mean and the worst over the graphs. `optimal`, `in 1 %`, `in 10 %`: number of graphs on which "
    "a method is that close to the minimum; `best`: number on which no method of its kind is "
    "better; `proved`: number on which the method itself proves its result minimal."
)
PROFILE_SAYS = (
    "Share of graphs in percent on which a method is within a factor of the optimum or best known."
)
GRAPHS_SAY = (
    "Excess over the optimum in percent: of the peak for orders, of the slab for packers. The "
    "column `proof` has the proofs of peak and slab: L1 packing bound, L2 order bound, L3 order "
    "search, L4 packing search, L5 joint bound, L6 joint search."
)


def study_sections(study: Study) -> list[tuple[str, str, Table]]:
    """Return title, introduction and table of each section of a study."""
    return [
        ("Methods", METHODS_SAY, method_table(study)),
        (PROFILE, PROFILE_SAYS, profile_table(study)),
        ("Graphs", GRAPHS_SAY, graph_table(study, methods_with_columns(study))),
    ]
