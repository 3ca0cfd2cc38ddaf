"""The public surface: pinned names, imports in any order, a README that tells the truth."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from pathlib import Path

import pytest

import optsched
from optsched.calls import INSTEAD
from optsched.compare import parse_methods
from optsched.runtime.facts import versions
from tests.support.families.small import diamond

ROOT = Path(__file__).parents[1]

PUBLIC = {
    "Buffer",
    "write_module",
    "solve_module",
    "read_module",
    "check_module",
    "ModuleResult",
    "Module",
    "Call",
    "Engine",
    "Graph",
    "GraphBuilder",
    "InputPolicy",
    "Limits",
    "MemoryModel",
    "Objective",
    "Op",
    "OptschedError",
    "OrderRules",
    "OutputPolicy",
    "PackingProblem",
    "Plan",
    "PlanStore",
    "PackingResult",
    "Pool",
    "Proof",
    "Question",
    "Result",
    "Status",
    "StopReason",
    "answer",
    "apply_plan",
    "certify",
    "check_packing",
    "check_plan",
    "compare_methods",
    "explain",
    "export_plan",
    "from_fx",
    "from_networkx",
    "hunt",
    "in_levels",
    "in_streams",
    "live_ranges",
    "methods",
    "pack",
    "pack_pools",
    "peak_memory",
    "read_graph",
    "read_packing",
    "read_plan",
    "recompute",
    "register_format",
    "register_ordering",
    "register_packing",
    "report",
    "solve",
    "solve_in_pools",
    "timeline",
    "to_networkx",
    "tune",
    "with_streams",
    "write_graph",
    "write_plan",
}


def test_public_names_are_pinned_and_there() -> None:
    assert set(optsched.__all__) == PUBLIC
    for name in PUBLIC:
        assert getattr(optsched, name).__doc__, name


def test_unknown_names_are_refused() -> None:
    with pytest.raises(AttributeError, match="nonsense"):
        optsched.nonsense  # noqa: B018


MODULES = [
    "optsched",
    "heuristics",
    "optsched.solver.pipeline",
    "optsched.check.plan",
    "optsched.cli",
]


@pytest.mark.parametrize("pair", list(itertools.permutations(MODULES, 2)), ids=" then ".join)
def test_modules_import_in_any_order(pair: tuple[str, str]) -> None:
    code = f"import {pair[0]}; import {pair[1]}"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_the_version_is_that_of_the_package() -> None:
    from importlib.metadata import version

    assert optsched.__version__ == version("optsched")
    assert versions()["optsched"] == optsched.__version__


def test_a_module_does_what_its_command_does() -> None:
    result = optsched.solve(diamond())
    assert optsched.check(diamond(), result.plan).peak == result.peak
    assert optsched.check(result).slab == result.slab
    problem = optsched.PackingProblem(size=[4, 4], start=[0, 1], end=[2, 3])
    assert optsched.check(problem, [0, 4]) == 8
    assert optsched.compare(diamond(), methods="lpmf").best_peak == result.peak
    with pytest.raises(
        optsched.OptschedError, match=r"expected a plan, as in check\(graph, plan\)"
    ):
        optsched.check(diamond())
    with pytest.raises(optsched.OptschedError, match="check wants a Graph"):
        optsched.check("graph.json")


@pytest.mark.parametrize("name", sorted({*INSTEAD} - {"check", "compare"}))
def test_every_other_module_names_the_function_to_call(name: str) -> None:
    with pytest.raises(TypeError, match=f"optsched.{name} is a module: call optsched.") as error:
        getattr(optsched, name)()
    named = re.findall(r"\w+", str(error.value).partition("call optsched.")[2])
    assert getattr(optsched, named[0])


def test_every_package_can_be_called() -> None:
    folders = {path.parent.name for path in (ROOT / "optsched").glob("*/__init__.py")}
    assert folders <= {*INSTEAD}


def test_a_misspelled_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(AttributeError, match="no attribute 'slove': did you mean 'solve'"):
        optsched.slove  # noqa: B018


def test_methods_are_those_that_compare_takes() -> None:
    found = optsched.methods()
    names = [*found["orderings"], *found["packings"], *found["solvers"]]
    assert [method.name for method in parse_methods(names)] == names
    assert [method.name for method in parse_methods(found["recorded"])] == [*found["recorded"]]
