"""Comparison of methods with the optimum, on one graph or on many."""

from __future__ import annotations

from optsched.compare.in_memory import compare_methods
from optsched.compare.journal import Journal
from optsched.compare.methods import OUR_METHOD, Kind, Method, parse_methods
from optsched.compare.rows import Comparison, Failed, MethodRow, Trouble
from optsched.compare.study import Standing, Study, compare_files
from optsched.compare.summary import TAUS, profile, rows_against_optimum, summarize
from optsched.compare.task import Skipped, StudySettings

__all__ = [
    "OUR_METHOD",
    "TAUS",
    "Comparison",
    "Failed",
    "Journal",
    "Kind",
    "Method",
    "MethodRow",
    "Skipped",
    "Standing",
    "Study",
    "StudySettings",
    "Trouble",
    "compare_files",
    "compare_methods",
    "parse_methods",
    "profile",
    "rows_against_optimum",
    "summarize",
]
