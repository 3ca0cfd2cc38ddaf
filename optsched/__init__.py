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

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from optsched.check.plan import check_packing, check_plan
    from optsched.compare import compare_methods
    from optsched.errors import OptschedError
    from optsched.formats import read_graph, read_packing, read_plan, write_graph, write_plan
    from optsched.formats.networkx import from_networkx, to_networkx
    from optsched.model.builder import GraphBuilder
    from optsched.model.graph import Buffer, Graph, InputPolicy, Op, OutputPolicy
    from optsched.model.liveness import live_ranges, peak_memory, timeline
    from optsched.model.packing_problem import PackingProblem
    from optsched.model.plan import Plan
    from optsched.runtime.limits import Limits, Objective, Proof, StopReason
    from optsched.solver.pack import pack
    from optsched.solver.pipeline import Engine, solve
    from optsched.solver.result import Result, Status
    from optsched.solver.spill.pack import Pool, pack_pools
    from optsched.solver.spill.solve import solve_in_pools

# Loaded on first use: `import optsched` pays for no solver, and the command is soon where it can
# bear an interrupt; so `typing` is not imported either.
_LAZY = {
    "GraphBuilder": "optsched.model.builder",
    "OptschedError": "optsched.errors",
    "Buffer": "optsched.model.graph",
    "Graph": "optsched.model.graph",
    "InputPolicy": "optsched.model.graph",
    "Op": "optsched.model.graph",
    "OutputPolicy": "optsched.model.graph",
    "from_networkx": "optsched.formats.networkx",
    "to_networkx": "optsched.formats.networkx",
    "live_ranges": "optsched.model.liveness",
    "peak_memory": "optsched.model.liveness",
    "timeline": "optsched.model.liveness",
    "Plan": "optsched.model.plan",
    "PackingProblem": "optsched.model.packing_problem",
    "check_packing": "optsched.check.plan",
    "check_plan": "optsched.check.plan",
    "compare_methods": "optsched.compare",
    "read_graph": "optsched.formats",
    "read_packing": "optsched.formats",
    "read_plan": "optsched.formats",
    "write_graph": "optsched.formats",
    "write_plan": "optsched.formats",
    "pack": "optsched.solver.pack",
    "Engine": "optsched.solver.pipeline",
    "solve": "optsched.solver.pipeline",
    "solve_in_pools": "optsched.solver.spill.solve",
    "Pool": "optsched.solver.spill.pack",
    "pack_pools": "optsched.solver.spill.pack",
    "Limits": "optsched.runtime.limits",
    "Objective": "optsched.runtime.limits",
    "Proof": "optsched.runtime.limits",
    "Result": "optsched.solver.result",
    "Status": "optsched.solver.result",
    "StopReason": "optsched.runtime.limits",
}

__all__ = [
    "Buffer",
    "Engine",
    "Graph",
    "GraphBuilder",
    "InputPolicy",
    "Limits",
    "Objective",
    "Op",
    "OptschedError",
    "OutputPolicy",
    "PackingProblem",
    "Plan",
    "Pool",
    "Proof",
    "Result",
    "Status",
    "StopReason",
    "check_packing",
    "check_plan",
    "compare_methods",
    "from_networkx",
    "live_ranges",
    "pack",
    "pack_pools",
    "peak_memory",
    "read_graph",
    "read_packing",
    "read_plan",
    "solve",
    "solve_in_pools",
    "timeline",
    "to_networkx",
    "write_graph",
    "write_plan",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
