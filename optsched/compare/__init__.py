"""The comparator: how far each method is from the proven bound, on one graph or many."""

from __future__ import annotations

from optsched.compare.journal import Journal
from optsched.compare.methods import (
    OUR_METHOD,
    Kind,
    Method,
    method_names,
    parse_methods,
    with_reference,
)
from optsched.compare.rows import Comparison, Failed, Row, Trouble
from optsched.compare.run import compare_methods
from optsched.compare.study import Setup, Skipped, Standing, Study, compare_files
from optsched.compare.summary import TAUS, Summary, profile, rows_against_optimum, summarise

__all__ = [
    "OUR_METHOD",
    "TAUS",
    "Comparison",
    "Failed",
    "Journal",
    "Kind",
    "Method",
    "Row",
    "Setup",
    "Skipped",
    "Standing",
    "Study",
    "Summary",
    "Trouble",
    "compare_files",
    "compare_methods",
    "method_names",
    "parse_methods",
    "profile",
    "rows_against_optimum",
    "summarise",
    "with_reference",
]
