"""Compile training steps with a peak, run them, and compare with PyTorch's budgets.

    python -m experiments.recompute.steps NETWORK [--pairs N] [--seconds S]

For each network: PyTorch's split at its eleven activation memory budgets, as simulated in
Inductor's own order; the lowest of these peaks, compiled and run by PyTorch and by the plugin; and
the plugin at 0.8 and 0.65 of it. A line has bytes asked, planned, simulated and allocated above
the bytes held before, the extra compute and its bound in % of a step, and the largest difference of
a gradient from eager's. The two steps of equal peak are timed in alternating pairs.
"""

from __future__ import annotations

import argparse
import copy
import re
import time
from collections.abc import Sequence
from statistics import median
from typing import Any, ClassVar

import torch
from torch._functorch import config as functorch_config
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch._inductor import config as inductor_config

from experiments.recompute.networks import STEPS
from optsched import plugins
from optsched.model.runs import extra_cost
from optsched.plugins import inductor
from optsched.plugins.inductor.calibrate import step_peak
from optsched.plugins.inductor.joint_graph import Modules, computed
from optsched.plugins.inductor.partition import PeakPartitioner, _Partition
from optsched.plugins.records import forget
from tests.support.high_water import high_water

BUDGETS = tuple(i / 10 for i in range(11))
PARTS = (0.8, 0.65)


class TorchBudgets(PeakPartitioner):
    """Simulates PyTorch's splits at all budgets, and returns the default one."""

    rows: ClassVar[list[tuple[int, int, int, float]]] = []
    """Simulated peak, extra cost, cost of a step and budget of each split."""

    def __call__(self, gm: Any, joint_inputs: Sequence[Any], **how: Any) -> Modules:
        """Return forward and backward graph."""
        self.rows.clear()
        default = min_cut_rematerialization_partition(copy.deepcopy(gm), joint_inputs, **how)
        found = _Partition(self, "torch", gm, joint_inputs, how)
        ids, total = found.graph.op_ids, sum(op.cost for op in found.graph.ops)
        for budget in BUDGETS:
            with functorch_config.patch(activation_memory_budget=budget):
                both = min_cut_rematerialization_partition(
                    copy.deepcopy(found.joint), joint_inputs, **how
                )
            extra = extra_cost(found.graph, [ids[x] for x in computed(both) if x in ids])
            peak = step_peak(both, 1.0, found.outputs, found.static, ordered=False)
            self.rows.append((peak, extra, total, budget))
        return default


class Step:
    """A training step, eager or compiled with some settings."""

    def __init__(self, name: str, settings: dict[str, Any] | None, budget: float = 1.0) -> None:
        torch._dynamo.reset()
        torch.manual_seed(0)
        self.module, self.args = STEPS[name]()
        self.call, self.seconds = self.module, 0.0
        if settings is not None:
            start = time.perf_counter()
            forget()
            # Eager's random numbers, so that gradients can be compared.
            fixed = {"fx_graph_cache": False, "fallback_random": True, **settings}
            uncached = {"enable_autograd_cache": False, "activation_memory_budget": budget}
            with inductor_config.patch(fixed), functorch_config.patch(uncached):
                self.call = torch.compile(self.module)
                self.gradients()
            self.seconds = time.perf_counter() - start

    def gradients(self) -> list[torch.Tensor]:
        """Run the step; return copies of its gradients."""
        self.clear()
        torch.manual_seed(1)
        self.call(*self.args).backward()
        return [p.grad.clone() for p in self.module.parameters() if p.grad is not None]

    def clear(self) -> None:
        """Drop the gradients."""
        for parameter in self.module.parameters():
            parameter.grad = None

    def allocated(self) -> int:
        """Return the high-water of a step."""
        self.clear()
        return high_water(lambda: self.call(*self.args).backward())

    def run_time(self) -> float:
        """Return the seconds of a step."""
        self.clear()
        start = time.perf_counter()
        self.call(*self.args).backward()
        return time.perf_counter() - start


def study(name: str, pairs: int, seconds: float) -> None:
    """Print the lines of a network."""
    eager = Step(name, None).gradients()

    def show(label: str, step: Step, text: str) -> None:
        apart = max(
            (a - b).abs().max().item() for a, b in zip(eager, step.gradients(), strict=True)
        )
        held = f"allocated {step.allocated():,}, gradients {apart:.1e} from eager's"
        print(f"{name}: {label}: {text}, {held}, compiled in {step.seconds:.0f} s", flush=True)

    budgets = TorchBudgets(1, seconds)
    show("torch, default", Step(name, {"custom_partitioner_fn": budgets}), "")
    for peak, extra, total, budget in budgets.rows:
        print(f"  torch {budget}: simulated {peak:,}, extra {100 * extra / total:.2f} %")
    lowest, extra, total, budget = min(budgets.rows)
    theirs = Step(name, {}, budget)
    show(f"torch {budget}", theirs, f"simulated {lowest:,}, extra {100 * extra / total:.2f} %")
    for part in (1.0, *PARTS):
        asked = int(lowest * part)
        ours = Step(name, inductor.options(peak=asked, time_limit=seconds))
        told = plugins.explain()
        found = re.search(r"planned.*?in ATen ops", told)
        spent = re.search(r"joint:.*; ([0-9.]+ s)", told)
        planning = f"planning {spent[1] if spent else '?'}"
        show(f"asked {asked:,}", ours, f"{found[0] if found else told}, {planning}")
        if part == 1.0:
            rows = [(theirs.run_time(), ours.run_time()) for _ in range(pairs)]
            ratio = median(mine / other for other, mine in rows)
            print(f"  {pairs} pairs: {ratio:.3f} of PyTorch's step time (median)", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="*", default=list(STEPS))
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=10.0)
    args = parser.parse_args()
    torch.set_num_threads(1)
    for name in args.networks:
        study(name, args.pairs, args.seconds)


if __name__ == "__main__":
    main()
