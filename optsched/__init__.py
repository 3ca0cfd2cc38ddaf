"""Exact memory planning for tensor graphs: an order of ops and offsets of buffers, with proof.

>>> from optsched import GraphBuilder, solve
>>> build = GraphBuilder("diamond")
>>> build.input("x", 8)
>>> build.op("left", reads=["x"], writes={"a": 4})
>>> build.op("right", reads=["x"], writes={"b": 6}, workspace=2)
>>> build.op("join", reads=["a", "b"], writes={"y": 4})
>>> build.output("y")
>>> result = solve(build.build())
>>> result.status.value, result.peak, result.slab
('optimal', 18, 18)
"""

from __future__ import annotations

from optsched.runtime.shown import show_by
from optsched.runtime.version import VERSION

__version__ = VERSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from heuristics import register_ordering as register_ordering
    from heuristics import register_packing as register_packing
    from optsched.api import certify as certify
    from optsched.api import explain as explain
    from optsched.api import hunt as hunt
    from optsched.api import report as report
    from optsched.capacity import Fit as Fit
    from optsched.capacity import fits as fits
    from optsched.check.module import check_module as check_module
    from optsched.check.packing import check_packing as check_packing
    from optsched.check.plan import check_plan as check_plan
    from optsched.compare import compare_methods as compare_methods
    from optsched.compare.methods import methods as methods
    from optsched.errors import OptschedError as OptschedError
    from optsched.fleet import tune as tune
    from optsched.formats import read_graph as read_graph
    from optsched.formats import read_module as read_module
    from optsched.formats import read_packing as read_packing
    from optsched.formats import read_plan as read_plan
    from optsched.formats import register_format as register_format
    from optsched.formats import write_graph as write_graph
    from optsched.formats import write_module as write_module
    from optsched.formats import write_plan as write_plan
    from optsched.formats.apply import apply_plan as apply_plan
    from optsched.formats.example import example as example
    from optsched.formats.export import export_plan as export_plan
    from optsched.formats.fx import from_fx as from_fx
    from optsched.formats.networkx import from_networkx as from_networkx
    from optsched.formats.networkx import to_networkx as to_networkx
    from optsched.model.builder import GraphBuilder as GraphBuilder
    from optsched.model.elements import Buffer as Buffer
    from optsched.model.elements import InputPolicy as InputPolicy
    from optsched.model.elements import Op as Op
    from optsched.model.elements import OutputPolicy as OutputPolicy
    from optsched.model.graph import Graph as Graph
    from optsched.model.liveness import live_ranges as live_ranges
    from optsched.model.liveness import peak_memory as peak_memory
    from optsched.model.liveness import timeline as timeline
    from optsched.model.memory_model import MemoryModel as MemoryModel
    from optsched.model.module import Call as Call
    from optsched.model.module import Module as Module
    from optsched.model.order_rules import OrderRules as OrderRules
    from optsched.model.packing_problem import PackingProblem as PackingProblem
    from optsched.model.plan import Plan as Plan
    from optsched.model.pools import Pool as Pool
    from optsched.model.question import Question as Question
    from optsched.model.streams import in_levels as in_levels
    from optsched.model.streams import in_streams as in_streams
    from optsched.model.streams import with_streams as with_streams
    from optsched.plugins.inductor.capture.step import capture_step as capture_step
    from optsched.rewrites import recompute as recompute
    from optsched.rewrites import tile as tile
    from optsched.runtime.limits import Limits as Limits
    from optsched.runtime.limits import Objective as Objective
    from optsched.runtime.limits import Proof as Proof
    from optsched.runtime.limits import StopReason as StopReason
    from optsched.solver.module import solve_module as solve_module
    from optsched.solver.module_result import ModuleResult as ModuleResult
    from optsched.solver.pack import pack as pack
    from optsched.solver.packing_result import PackingResult as PackingResult
    from optsched.solver.pipeline import answer as answer
    from optsched.solver.pipeline import solve as solve
    from optsched.solver.result import Result as Result
    from optsched.solver.schedule import Engine as Engine
    from optsched.solver.status import Status as Status
    from optsched.store import PlanStore as PlanStore

# Loaded on first use: `import optsched` pays for no solver, and the command is soon where it can
# bear an interrupt; so `typing` is not imported either.
_HOME = {
    "heuristics": "register_ordering register_packing",
    "optsched.api": "certify explain hunt report",
    "optsched.check.module": "check_module",
    "optsched.check.packing": "check_packing",
    "optsched.check.plan": "check_plan",
    "optsched.compare": "compare_methods",
    "optsched.compare.methods": "methods",
    "optsched.errors": "OptschedError",
    "optsched.capacity": "Fit fits",
    "optsched.fleet": "tune",
    "optsched.formats": "register_format read_graph read_module read_packing read_plan "
    "write_graph write_module write_plan",
    "optsched.formats.apply": "apply_plan",
    "optsched.formats.example": "example",
    "optsched.formats.export": "export_plan",
    "optsched.formats.fx": "from_fx",
    "optsched.formats.networkx": "from_networkx to_networkx",
    "optsched.model.builder": "GraphBuilder",
    "optsched.model.elements": "Buffer InputPolicy Op OutputPolicy",
    "optsched.model.graph": "Graph",
    "optsched.model.memory_model": "MemoryModel",
    "optsched.model.module": "Call Module",
    "optsched.model.liveness": "live_ranges peak_memory timeline",
    "optsched.model.order_rules": "OrderRules",
    "optsched.model.packing_problem": "PackingProblem",
    "optsched.model.plan": "Plan",
    "optsched.model.pools": "Pool",
    "optsched.model.question": "Question",
    "optsched.model.streams": "in_levels in_streams with_streams",
    "optsched.plugins.inductor.capture.step": "capture_step",
    "optsched.rewrites": "recompute tile",
    "optsched.runtime.limits": "Limits Objective Proof StopReason",
    "optsched.solver.module": "solve_module",
    "optsched.solver.module_result": "ModuleResult",
    "optsched.solver.pack": "pack",
    "optsched.solver.pipeline": "answer solve",
    "optsched.solver.packing_result": "PackingResult",
    "optsched.solver.result": "Result",
    "optsched.solver.schedule": "Engine",
    "optsched.solver.status": "Status",
    "optsched.store": "PlanStore",
}
"""Public names by the module that has them."""
_MODULE = {name: module for module, names in _HOME.items() for name in names.split()}

__all__ = list(_MODULE)


def __getattr__(name: str) -> Any:
    from contextlib import suppress
    from importlib import import_module

    from optsched.runtime.text import nearest_word

    if name in _MODULE:
        return getattr(import_module(_MODULE[name]), name)
    # Tools look for private names, for which a suggestion would only cost time.
    hint = ""
    if not name.startswith("_"):
        # A room such as `optsched.formats` is imported when its name is first asked for.
        with suppress(ModuleNotFoundError):
            return import_module(f"{__name__}.{name}")
        near = nearest_word(name, __all__)
        hint = f": did you mean {near!r}?" if near else ""
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")


def _notebook() -> Any:
    from optsched.reports import notebook

    return notebook


show_by(_notebook)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
