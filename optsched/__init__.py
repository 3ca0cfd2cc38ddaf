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

    from optsched.builder import GraphBuilder
    from optsched.check import check_packing, check_plan
    from optsched.compare import compare_methods
    from optsched.errors import OptschedError
    from optsched.formats import read_graph, read_packing, read_plan, write_graph, write_plan
    from optsched.graph import Buffer, Graph, InputPolicy, Op, OutputPolicy
    from optsched.interop import from_networkx, to_networkx
    from optsched.liveness import live_ranges, peak_memory, timeline
    from optsched.packer import pack
    from optsched.pipeline import Engine, solve
    from optsched.plan import Plan
    from optsched.pooled import solve_in_pools
    from optsched.pools import Pool, pack_pools
    from optsched.problem import PackingProblem
    from optsched.result import Limits, Objective, Proof, Result, Status, StopReason

# Loaded on first use: `import optsched` pays for no solver, and the command is soon where it can
# bear an interrupt; so `typing` is not imported either.
_LAZY = {
    "GraphBuilder": "optsched.builder",
    "OptschedError": "optsched.errors",
    "Buffer": "optsched.graph",
    "Graph": "optsched.graph",
    "InputPolicy": "optsched.graph",
    "Op": "optsched.graph",
    "OutputPolicy": "optsched.graph",
    "from_networkx": "optsched.interop",
    "to_networkx": "optsched.interop",
    "live_ranges": "optsched.liveness",
    "peak_memory": "optsched.liveness",
    "timeline": "optsched.liveness",
    "Plan": "optsched.plan",
    "PackingProblem": "optsched.problem",
    "check_packing": "optsched.check",
    "check_plan": "optsched.check",
    "compare_methods": "optsched.compare",
    "read_graph": "optsched.formats",
    "read_packing": "optsched.formats",
    "read_plan": "optsched.formats",
    "write_graph": "optsched.formats",
    "write_plan": "optsched.formats",
    "pack": "optsched.packer",
    "Engine": "optsched.pipeline",
    "solve": "optsched.pipeline",
    "solve_in_pools": "optsched.pooled",
    "Pool": "optsched.pools",
    "pack_pools": "optsched.pools",
    "Limits": "optsched.result",
    "Objective": "optsched.result",
    "Proof": "optsched.result",
    "Result": "optsched.result",
    "Status": "optsched.result",
    "StopReason": "optsched.result",
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
