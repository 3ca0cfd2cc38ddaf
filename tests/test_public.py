"""The public surface: pinned names, imports in any order, a README that tells the truth."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path

import pytest

import optsched
from optsched.compare import parse_methods
from optsched.runtime.facts import versions

ROOT = Path(__file__).parents[1]

PUBLIC = {
    *("Buffer", "write_module", "solve_module", "read_module", "check_module", "ModuleResult"),
    *("Module", "Call", "Engine", "Fit", "Graph", "GraphBuilder", "InputPolicy", "Limits"),
    *("MemoryModel", "Objective", "Op", "OptschedError", "OrderRules", "OutputPolicy"),
    *("PackingProblem", "Plan", "PlanStore", "PackingResult", "Pool", "Proof", "Question"),
    *("Result", "Status", "StopReason", "answer", "apply_plan", "capture_step", "certify"),
    *("check_packing", "check_plan", "compare_methods", "example", "explain", "export_plan"),
    *("fits", "from_fx", "from_networkx", "hunt", "in_levels", "in_streams", "live_ranges"),
    *("methods", "pack", "peak_memory", "read_graph", "read_packing", "read_plan", "recompute"),
    *("register_format", "register_ordering", "register_packing", "report", "solve", "tile"),
    *("timeline", "to_networkx", "tune", "with_streams", "write_graph", "write_plan"),
}


def test_public_names_are_pinned_and_there() -> None:
    assert set(optsched.__all__) == PUBLIC
    for name in PUBLIC:
        assert getattr(optsched, name).__doc__, name


def test_unknown_names_are_refused() -> None:
    with pytest.raises(AttributeError, match="nonsense"):
        optsched.nonsense  # noqa: B018


MODULES = [
    *("optsched", "heuristics", "optsched.solver.pipeline", "optsched.check.plan"),
    *("optsched.cli",),
]


@pytest.mark.parametrize("pair", list(itertools.permutations(MODULES, 2)), ids=" then ".join)
def test_modules_import_in_any_order(pair: tuple[str, str]) -> None:
    code = f"import {pair[0]}; import {pair[1]}"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_the_version_is_that_of_the_package() -> None:
    from importlib.metadata import version

    assert optsched.__version__ == version("optsched")
    assert versions()["optsched"] == optsched.__version__


def test_a_misspelled_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(AttributeError, match="no attribute 'slove': did you mean 'solve'"):
        optsched.slove  # noqa: B018


def test_methods_are_those_that_compare_takes() -> None:
    found = optsched.methods()
    names = [*found["orderings"], *found["packings"], *found["solvers"]]
    assert [method.name for method in parse_methods(names)] == names
    assert [method.name for method in parse_methods(found["recorded"])] == [*found["recorded"]]
