"""AlexNet's training step, batch 32, as MODeL's published log has it: capture and comparison."""

from __future__ import annotations

from math import prod
from typing import Any

from experiments.prior_art.dataflow import Dataflow, Tensor, program_order
from experiments.prior_art.model_milp import MilpSolver, solve_model
from optsched.errors import MissingDependencyError
from optsched.model.graph import Graph
from optsched.model.liveness import peak_memory
from optsched.ordering import OrderOutcome, solve_order
from optsched.runtime.limits import Limits

PUBLISHED = {
    "traced ops": "144",
    "traced tensors": "125",
    "ops": "76",
    "tensors": "72",
    "peak of the program's order": "0.5618 GB",
    "peak after reordering": "0.4783 GB",
}
"""Figures of the README of MODeL's repository for `alexnet`, `train`, batch 32 (GB are 2**30)."""

HEAD = ("what", "published", "here")
GIB = 2**30


def trace(batch: int = 32) -> Any:
    """Trace forward, loss, backward and a step of SGD into one graph of ATen ops.

    Needs torch. Tensors have shapes and no bytes.
    """
    try:
        import torch
    except ImportError:
        raise MissingDependencyError("torch", "torch") from None
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.func import functional_call
    from torch.fx.experimental.proxy_tensor import make_fx

    from experiments.capture_inductor.convolutional import alexnet

    # The trace names its inputs after these arguments: that is how weights are known.
    def step(args: Any, params: Any, buffers: Any) -> Any:
        scores = functional_call(model, {**params, **buffers}, args)
        # Targets of zeros, as there: class probabilities, not labels.
        loss = torch.nn.CrossEntropyLoss()(scores, torch.zeros_like(scores))
        loss.backward()
        optimizer.step()
        return list(params.values())

    keep = {torch.ops.aten.detach.default: lambda x: x}
    with FakeTensorMode():
        model = alexnet()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        images = torch.empty(batch, 3, 224, 224)
        weights, buffers = dict(model.named_parameters()), dict(model.named_buffers())
        return make_fx(step, decomposition_table=keep)((images,), weights, buffers).graph


def read_trace(graph: Any) -> Dataflow:
    """Read a traced graph: a tensor for each op that is read by another."""
    found = Dataflow()
    nodes = [node for node in graph.nodes if node.op != "output"]
    known = set(nodes)
    for node in nodes:
        found.ops.append(node.name)
        if node.op == "placeholder" and node.name.startswith(("params", "buffers")):
            found.weights.add(node.name)
        readers = [user.name for user in node.users if user in known]
        if readers:
            found.tensors.append(Tensor(node.name, readers, _size(node)))
    return found


def _size(node: Any) -> int:
    """Bytes of the node's tensor; 0 where it has several, each taken by a node of its own."""
    meta = node.meta.get("tensor_meta")
    return int(prod(meta.shape) * meta.dtype.itemsize) if hasattr(meta, "shape") else 0


def rows(seconds: float) -> list[tuple[object, ...]]:
    """Compare the published log with the same steps done here, and with what is proved."""
    found = read_trace(trace())
    traced = (len(found.ops), len(found.tensors))
    found.simplify()
    simple = (len(found.ops), len(found.tensors))
    free = found.as_graph("alexnet")
    program = peak_memory(free, program_order(free, found.ops))
    best = _prove(free, seconds)
    found.early_updates()
    early = found.as_graph("alexnet, early updates")
    bound = _prove(early, seconds)
    theirs = solve_model(early, seconds=seconds, solver=MilpSolver.HIGHS, workers=2, short=True)
    if theirs.peak is None:
        raise RuntimeError(f"MODeL's program has no solution within {seconds} s")
    here = (*traced, *simple, _gib(program), f"{_gib(theirs.peak)}, {theirs.steps} steps")
    return [
        *((what, value, ours) for (what, value), ours in zip(PUBLISHED.items(), here, strict=True)),
        ("saved by reordering", "14.860221 %", _saved(theirs.peak, program)),
        ("least peak, updates early, a step for each op", "-", _gib(bound.peak)),
        ("proof", "-", bound.proof),
        ("saved", "-", _saved(bound.peak, program)),
        ("least peak, updates at any time", "-", _gib(best.peak)),
        ("proof", "-", best.proof),
        ("saved", "-", _saved(best.peak, program)),
    ]


def _prove(graph: Graph, seconds: float) -> OrderOutcome:
    return solve_order(graph, limits=Limits(seconds))


def _gib(count: int) -> str:
    return f"{count / GIB:.4f} GB ({count:,} B)"


def _saved(peak: int, program: int) -> str:
    return f"{100 * (1 - peak / program):.6f} %"
