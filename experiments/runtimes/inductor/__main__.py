"""Command line: `python -m experiments.runtimes.inductor fidelity|trips NAME...`; CSV on stdout."""

from __future__ import annotations

import argparse
import contextlib
import csv
import sys
import time
import warnings
from collections.abc import Iterator
from typing import Any

import torch
from torch._inductor import config

from experiments.runtimes.inductor.networks import STEPS
from optsched import plugins
from optsched.plugins.inductor import enabled
from tests.support.compiled_memory import NO_CACHE, Call, OrderProbe, measure_calls, no_kernels

Row = dict[str, object]


def main() -> None:
    parser = argparse.ArgumentParser(prog="experiments.runtimes.inductor")
    parser.add_argument("study", choices=["fidelity", "trips"])
    parser.add_argument("names", nargs="*", default=list(STEPS), metavar="NAME")
    parser.add_argument("--seconds", type=float, default=10.0, help="for the solver, a graph")
    parser.add_argument("--kernels", action="store_true", help="compile kernels, check gradients")
    parser.add_argument("--orders", default="baseline,lpmf,bfs,dfs", help="of the fidelity study")
    options = parser.parse_args()
    if unknown := set(options.names) - set(STEPS):
        parser.error(f"no step {min(unknown)!r}; there are {', '.join(STEPS)}")
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    writer: csv.DictWriter[str] | None = None
    for name in options.names:
        rows = _fidelity(name, options) if options.study == "fidelity" else _trip(name, options)
        for row in rows:
            if writer is None:
                writer = csv.DictWriter(sys.stdout, fieldnames=list(row))
                writer.writeheader()
            writer.writerow(row)
            sys.stdout.flush()


def _fidelity(name: str, options: argparse.Namespace) -> Iterator[Row]:
    """Simulate a step in each order, then run it."""
    for order in options.orders.split(","):
        for reuse in (True, False):
            probe = OrderProbe(order, reuse)
            with _kernels(options.kernels), probe.running():
                calls, _, _ = _run(name)
            for number, (said, call) in enumerate(zip(probe.said, calls, strict=True)):
                made, known = probe.generated[number], frozenset(probe.facts[number].buffers)
                measured = said.start + call.peak
                yield {
                    "step": name,
                    "phase": "forward" if number == 0 else "backward",
                    "nodes": len(probe.facts[number].nodes),
                    "order": order,
                    "reuse": reuse,
                    "simulated": said.peak,
                    "measured": measured,
                    "error_percent": round(100 * (said.peak - measured) / measured, 4),
                    "owned_inputs": said.start,
                    "same_removed": said.removed == made.removed & known,
                    "same_in_place": set(said.inplace) == made.inplace,
                    "same_reused": {p for p in said.reused if p[0] not in said.removed}
                    == made.reused,
                }


def _trip(name: str, options: argparse.Namespace) -> Iterator[Row]:
    """Run a step in Inductor's order, then in ours."""
    with _kernels(options.kernels), config.patch(NO_CACHE):
        theirs, their_step, their_compile = _run(name)
        stock = _gradients(their_step)
        with enabled(time_limit=options.seconds):
            plugins.forget()
            ours, our_step, our_compile = _run(name)
    for record, their, our in zip(plugins.records(), theirs, ours, strict=True):
        # What the graph owns when it is called counts for both.
        owned = (record.after or 0) - our.peak
        yield {
            "step": name,
            "phase": record.name.split()[1],
            "nodes": record.ops,
            "planned_before": record.before,
            "planned_after": record.after,
            "measured_before": their.peak + owned,
            "measured_after": our.peak + owned,
            "lower_percent": round(100 * (their.peak - our.peak) / (their.peak + owned), 2),
            "bound": record.bound,
            "proof": record.proof,
            "order": record.order or record.reason,
            "solver_seconds": round(record.solver_seconds, 2),
            "plugin_seconds": round(record.seconds, 2),
            "compile_seconds_before": round(their_compile, 1),
            "compile_seconds_after": round(our_compile, 1),
            **(_errors(name, stock, _gradients(our_step)) if options.kernels else {}),
        }


def _run(name: str) -> tuple[list[Call], torch.nn.Module, float]:
    """Compile and measure the second step; return the network with its gradients as well."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    network, args, kwargs = STEPS[name]()
    compiled = torch.compile(network)

    def step() -> None:
        network.zero_grad(set_to_none=True)
        compiled(*args, **kwargs).backward()

    start = time.perf_counter()
    step()
    seconds = time.perf_counter() - start
    return measure_calls(step), network, seconds


def _gradients(network: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: p.grad for name, p in network.named_parameters() if p.grad is not None}


def _errors(
    name: str, stock: dict[str, torch.Tensor], ours: dict[str, torch.Tensor]
) -> dict[str, object]:
    """Compare gradients with those of the step that is not compiled."""
    torch.manual_seed(0)
    network, args, kwargs = STEPS[name]()
    network(*args, **kwargs).backward()
    # The second step of a network with batch norm normalises as the first does.
    right = _gradients(network)
    return {
        f"gradient_error_{who}": f"{_largest(found, right):.1e}"
        for who, found in (("inductor", stock), ("ours", ours))
    }


def _largest(found: dict[str, torch.Tensor], right: dict[str, torch.Tensor]) -> float:
    scale = max(float(g.norm()) for g in right.values()) * 1e-6
    return max(
        float((found[name] - g).norm()) / max(float(g.norm()), scale) for name, g in right.items()
    )


def _kernels(compiled: bool) -> contextlib.AbstractContextManager[Any]:
    return contextlib.nullcontext() if compiled else no_kernels()


if __name__ == "__main__":
    main()
