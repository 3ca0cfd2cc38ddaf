"""Plugins for torch, XLA and ExecuTorch as cases; the limit counts from where they get a graph.

Frameworks take minutes to compile thousands of ops, so what they hand over is made here: the facts
that Inductor's wrapper is read into, with Inductor's own estimate, the serialized text of a
scheduled XLA module, and the nodes of an ExecuTorch program. From there on the code is that of the
plugins.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from heuristics.orderings.program import program
from optsched.model.graph import Graph
from optsched.plugins import forget, records
from optsched.plugins.inductor.orders.candidates import decide
from optsched.plugins.inductor.wrapper.facts import (
    Allocation,
    ExternCall,
    OwnedInput,
    Returned,
    WrapperBuffer,
    WrapperFacts,
    WrapperNode,
)


def inductor_facts(graph: Graph) -> WrapperFacts:
    """Return the facts of a wrapper that calls an extern kernel for each op."""
    nodes, buffers = [], {}
    for v, op in enumerate(graph.ops):
        made, *rest = (graph.buffers[b].name for b in op.writes)
        assert not rest
        reads = [graph.buffers[b] for b in op.reads]
        nodes.append(
            WrapperNode(
                name=op.name,
                used=frozenset([made, *(x.name for x in reads)]),
                definitions=(),
                outputs=(made,),
                predecessors=frozenset(graph.predecessors[v]),
                extern=ExternCall(Returned.TENSOR, made),
            )
        )
        size = graph.buffers[op.writes[0]].size
        buffers[made] = WrapperBuffer(made, size, Allocation.NONE)
    given = [x for b, x in enumerate(graph.buffers) if graph.arrays.producer[b] < 0]
    return WrapperFacts(
        nodes=tuple(nodes),
        buffers=buffers,
        inputs=tuple(OwnedInput(x.name, x.size, x.name) for x in given),
        outputs=frozenset(x.name for b, x in enumerate(graph.buffers) if graph.arrays.keep[b]),
        local=frozenset(),
        graph_inputs=frozenset(x.name for x in given),
        estimate=(),
        max_arguments=500,
    )


def inductor_document(graph: Graph) -> dict[str, Any]:
    """Return a graph as Inductor's simulator file, in which the program's order is chosen."""
    made_of = {b: v for v, op in enumerate(graph.ops) for b in op.writes}
    buffers = [
        {
            "name": x.name,
            "size_alloc": x.size,
            "size_free": 0 if graph.arrays.keep[b] else x.size,
            "is_input": b not in made_of,
            "is_output": bool(graph.arrays.keep[b]),
            "deps": [graph.buffers[r].name for r in graph.ops[made_of[b]].reads]
            if b in made_of
            else [],
        }
        for b, x in enumerate(graph.buffers)
    ]
    nodes = [
        {"name": op.name, "buffer_names": [graph.buffers[b].name for b in op.writes]}
        for op in graph.ops
    ]
    orders = {"baseline": program(graph).tolist()}
    return {
        "nodes": nodes,
        "buffers": buffers,
        "extra": {"orders": orders, "chosen": "baseline"},
    }


def by_inductor(graph: Graph) -> Callable[[float], str]:
    """Choose the order of a wrapper, as Inductor's plugin does."""
    facts, document = inductor_facts(graph), inductor_document(graph)

    def run(limit: float) -> str:
        found = decide(facts, document, reuse=True, seconds=limit, name=graph.name)
        return f"{found.best.peak} of {found.own.peak} {found.bound} {found.best.name}"

    return run


def hlo_text(graph: Graph) -> str:
    """Return a scheduled module that makes each buffer by a call of its own."""

    def shape(b: int) -> str:
        return f"u8[{graph.buffers[b].size}]{{0}}"

    name = [f"v{b}" for b in range(len(graph.buffers))]
    given = [b for b in range(len(graph.buffers)) if graph.arrays.producer[b] < 0]
    rows = [f"{name[b]} = {shape(b)} parameter({i})" for i, b in enumerate(given)]
    for v in program(graph).tolist():
        (made,) = graph.ops[v].writes
        reads = ", ".join(name[b] for b in graph.ops[v].reads)
        rows.append(f'{name[made]} = {shape(made)} custom-call({reads}), custom_call_target="op"')
    kept = [b for b in range(len(graph.buffers)) if graph.arrays.keep[b]]
    shapes = ", ".join(map(shape, kept))
    rows.append(f"ROOT root = ({shapes}) tuple({', '.join(name[b] for b in kept)})")
    text = "\n  ".join(rows)
    return f"HloModule limits, is_scheduled=true\n\nENTRY main {{\n  {text}\n}}\n"


def by_xla(graph: Graph) -> Callable[[float], str]:
    """Schedule a module, as XLA's plugin does."""
    from jaxlib import _hlo

    from optsched.plugins.gain import DEFAULT_GAIN
    from optsched.plugins.xla.schedule import Scheduler

    module = _hlo.hlo_module_from_text(hlo_text(graph)).as_serialized_hlo_module_proto()

    def run(limit: float) -> str:
        forget()
        Scheduler(limit, ("*",), 0, DEFAULT_GAIN)(module)
        (record,) = records()
        return f"{record.after} of {record.before} {record.bound} {record.reason or record.order}"

    return run


def executorch_program(graph: Graph) -> Any:
    """Return a program that makes each buffer by a call of its own, before memory planning."""
    import torch
    from executorch.exir import memory
    from executorch.exir.tensor import TensorSpec

    made, node = torch.fx.Graph(), {}

    def spec(b: int) -> TensorSpec:
        return TensorSpec(torch.uint8, torch.Size([graph.buffers[b].size]))

    for b, x in enumerate(graph.buffers):
        if graph.arrays.producer[b] < 0:
            node[b] = made.placeholder(x.name)
            node[b].meta["spec"] = spec(b)
    for v in program(graph).tolist():
        (b,) = graph.ops[v].writes
        out = made.call_function(memory.alloc, (((graph.buffers[b].size,), torch.uint8),))
        reads = [node[read] for read in graph.ops[v].reads]
        node[b] = made.call_function(torch.ops.aten.cat.out, (reads,), {"out": out})
        node[b].meta["spec"] = spec(b)
    kept = [node[b] for b in range(len(graph.buffers)) if graph.arrays.keep[b]]
    # A program must return something.
    kept = kept or [list(node.values())[-1]]
    made.output(tuple(kept)).meta["spec"] = [x.meta["spec"] for x in kept]
    return torch.fx.GraphModule(torch.nn.Module(), made)


def by_executorch(graph: Graph) -> Callable[[float], str]:
    """Plan a program, as ExecuTorch's plugin does.

    The framework's greedy algorithm, which its own pass runs as well and which has no limit, is
    left out: it compares each tensor with all others.
    """
    from executorch.exir.memory_planning import MemoryPlanningAlgorithmSuite

    from optsched.plugins.executorch import memory_planning

    module = executorch_program(graph)

    def run(limit: float) -> str:
        forget()
        planning = memory_planning(time_limit=limit)
        planning.memory_planning_algo = MemoryPlanningAlgorithmSuite([planning.optimal])
        planning.run(module)
        (record,) = records()
        return f"{record.after} of {record.before} {record.bound} {record.reason or record.order}"

    return run
