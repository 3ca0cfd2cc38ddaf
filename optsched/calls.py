"""Calls of modules: some have the name of a command, and people call these.

`optsched.check(graph, plan)` checks and `optsched.compare(graph)` compares; a call of any other
module raises an error that names the function to call.
"""

from __future__ import annotations

from types import ModuleType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from optsched.check.module import ModuleChecked
    from optsched.check.plan import Checked

INSTEAD = {
    "api": "solve, report, explain, certify or hunt",
    "certificate": "certify",
    "check": "check_plan, check_packing or check_module",
    "cli": "solve, or optsched.cli.main for a command line",
    "compare": "compare_methods",
    "counterexamples": "hunt",
    "explanation": "explain",
    "fleet": "tune",
    "formats": "read_graph, read_plan or write_graph",
    "joint": "solve",
    "measure": "solve, or optsched.measure.measure_model",
    "model": "Graph or GraphBuilder",
    "ordering": "solve",
    "packing": "pack",
    "plugins": "solve, or optsched.plugins.inductor.enabled",
    "reports": "report",
    "runtime": "solve",
    "solver": "solve",
    "store": "PlanStore",
}
"""Functions to call instead of each module."""


class CallableModule(ModuleType):
    """A package of optsched: check and compare can be called, the others name a function."""

    # Modules are not callable by themselves; the class of a module may be changed after its
    # import.
    def __call__(self, *args: Any, **named: Any) -> Any:
        """Run the function that the module's name asks for, or raise TypeError."""
        name = self.__name__.rpartition(".")[2]
        if name == "check":
            return check(*args, **named)
        if name == "compare":
            from optsched.compare import compare_methods

            return compare_methods(*args, **named)
        raise TypeError(f"{self.__name__} is a module: call optsched.{INSTEAD[name]}")


class RootModule(ModuleType):
    """The package optsched: the packages in it become callable when they are imported."""

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute, as the import of a package does for its name."""
        # Only plain modules: a class set before must stay.
        if name in INSTEAD and type(value) is ModuleType:
            value.__class__ = CallableModule
        super().__setattr__(name, value)


def check(what: Any, answer: Any = None, **claims: Any) -> Checked | ModuleChecked | int:
    """Check the plan of a graph, the plans of a module, the offsets of a packing, or a result.

    Raises
    ------
    PlanError
        On the first broken rule.
    UsageError
        If `what` has another type, or an answer to check is missing.
    """
    from optsched.check.module import check_module
    from optsched.check.packing import check_packing
    from optsched.check.plan import check_plan
    from optsched.errors import UsageError, expect
    from optsched.model.graph import Graph
    from optsched.model.module import Module
    from optsched.model.packing_problem import PackingProblem
    from optsched.solver.result import Result

    expect("check", what, Graph, Module, PackingProblem, Result)
    if isinstance(what, Result):
        what, answer = what.graph, what.plan if answer is None else answer
    if what is None or answer is None:
        raise UsageError("expected a plan, as in check(graph, plan), or a result that has one")
    if isinstance(what, Module):
        return check_module(what, answer, **claims)
    if isinstance(what, PackingProblem):
        return check_packing(what, answer, **claims)
    return check_plan(what, answer, **claims)
