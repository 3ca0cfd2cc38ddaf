"""Graphs of random training steps against what PyTorch holds while it runs them op by op.

    python -m tests.fuzz fx_steps --count 100 --seed 0

Random steps, and those of `tests/support/steps`, are parted by AOTAutograd into a forward and a
backward graph, which get their real tensors and run op by op. The planned peak of each has to be
the most bytes of storages that were alive, to the byte. A backward graph frees what it alone
holds: tensors in the storages of weights and of inputs stay. A line is printed for each difference,
with its cause if PyTorch traced other sizes of results than its operators return.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from unittest import mock

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.aot_autograd import make_boxed_func
from torch._functorch.partitioners import min_cut_rematerialization_partition

from optsched import Graph, peak_memory
from optsched.errors import OptschedError
from optsched.formats.fx import from_fx
from tests.frameworks.fx.programs import interpreted, storages
from tests.support.random_steps import RandomStep
from tests.support.steps import STEPS

AS_HELD = "as held"
TRACED = "PyTorch traces other sizes than its operators return;"
"""Start of a line whose difference is gone with the sizes that were returned."""


def check_step(
    make: Callable[[], Callable[[], object]], seed: int = 0, graphs: list[Graph] | None = None
) -> list[str]:
    """Return a line for each graph of a step: `as held`, or how it differs; collect the graphs."""
    comparison = _Comparison([] if graphs is None else graphs)
    backend = aot_autograd(
        fw_compiler=lambda module, _: comparison.runner(module, "forward"),
        bw_compiler=lambda module, _: comparison.runner(module, "backward"),
        inference_compiler=lambda module, _: comparison.runner(module, "inference"),
        partition_fn=min_cut_rematerialization_partition,
    )
    torch._dynamo.reset()
    torch.manual_seed(seed)
    compile_ = torch.compile

    def compile_here(model: Any, **settings: Any) -> Any:
        return compile_(model, **{**settings, "backend": backend})

    with mock.patch.object(torch, "compile", compile_here):
        make()()
    return comparison.found


@dataclass
class _Comparison:
    """Graphs of a step that run op by op, and what their runs held beside the plans.

    `forwards` has what each forward graph got and what it returned, which its backward graph gets.
    The program holds the former; what else was saved goes, also if another graph has got it since.
    """

    graphs: list[Graph]
    found: list[str] = field(default_factory=list)
    forwards: list[tuple[Sequence[Any], Sequence[Any]]] = field(default_factory=list)

    def runner(self, module: Any, kind: str) -> Any:
        return make_boxed_func(lambda *inputs: self._run(module, kind, inputs))

    def _run(self, module: Any, kind: str, inputs: Sequence[Any]) -> Any:
        names = [str(node.target) for node in module.graph.find_nodes(op="placeholder")]
        passed = [x for name, x in zip(names, inputs, strict=True) if name.startswith("tangents")]
        saved = [x for x in inputs if not any(x is y for y in passed)]
        theirs = inputs if kind != "backward" else [*self._inputs_of_forward(saved), *passed]
        outside = _keys(theirs)
        try:
            graph = from_fx(module, dims=_hints(module))
        except OptschedError as error:
            self.found.append(f"{kind}: refused: {error}")
            return module(*inputs)
        self.graphs.append(graph)
        order = [node for node in module.graph.nodes if node.name in graph.op_ids]
        sizes: dict[str, int] = {}
        held, results = interpreted(module, order, inputs, outside, sizes)
        if kind == "forward":
            self.forwards.append((inputs, results))
        planned = peak_memory(graph, range(len(graph.ops)))
        if held != planned:
            line = f"{kind}: held {held:,}, planned {planned:,}"
            wrong = {
                b.name: 0 if b.alias_of is not None else sizes.get(b.name, b.size) - b.size
                for b in graph.buffers
            }
            changed = [replace(b, size=b.size + wrong[b.name]) for b in graph.buffers]
            if peak_memory(graph.with_sizes(tuple(changed)), range(len(graph.ops))) == held:
                named = ", ".join(f"{name} {n:+,}" for name, n in wrong.items() if n)
                line = f"{TRACED} {line}: {named}"
            self.found.append(line)
        else:
            self.found.append(AS_HELD)
        return results

    def _inputs_of_forward(self, saved: Sequence[Any]) -> Sequence[Any]:
        wanted = _keys(saved)
        return next(given for given, made in reversed(self.forwards) if wanted <= _keys(made))


def _keys(values: Sequence[Any]) -> set[int]:
    return {key for value in values for key in storages(value)}


def _hints(module: Any) -> dict[str, int]:
    """Return the numbers that sizes had when the graph was traced, by symbol."""
    values = [node.meta.get("val") for node in module.graph.nodes]
    tensors = [x for x in torch.utils._pytree.tree_leaves(values) if isinstance(x, torch.Tensor)]
    sizes = [n for x in tensors for n in x.shape if isinstance(n, torch.SymInt)]
    return {str(n.node.expr): n.node.hint for n in sizes if n.node.expr.is_symbol}


def main(count: int = 100, seed: int = 0) -> int:
    cases: dict[str, Any] = {f"random {n}": RandomStep(n).make for n in range(seed, seed + count)}
    cases |= STEPS
    graphs = named = bad = 0
    for name, make in cases.items():
        try:
            found = check_step(make)
        except Exception as error:
            print(f"{name}: not run: {type(error).__name__}: {str(error).splitlines()[0][:150]}")
            continue
        graphs += len(found)
        for line in found:
            named += line.startswith(TRACED)
            bad += line != AS_HELD and not line.startswith(TRACED)
            if line != AS_HELD:
                print(f"{name}: {line}", flush=True)
    print(f"{graphs} graphs of {len(cases)} steps, {named} named, {bad} with other differences")
    return int(bad > 0)
