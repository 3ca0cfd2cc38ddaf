"""Compile training steps with a peak, run them, and compare with PyTorch's budgets.

    python -m experiments.recompute.steps NETWORK [--pairs N] [--seconds S] [--parts P ...]
        [--keep-heap]

For each network: PyTorch's split at its eleven activation memory budgets, as simulated in
Inductor's own order; the lowest of these peaks, compiled and run by PyTorch and by the plugin; and
the plugin at parts of it (0.8 and 0.65 by default). A line has bytes asked, planned, simulated and
allocated above the bytes held before, the extra compute and its bound in % of a step, and the
largest difference of a gradient from eager's (with dropout: from that of PyTorch's default).

The two steps of equal peak are timed beside PyTorch's step compiled once more, which says how far
apart two equal steps are measured. Each round runs the three and then the three in reverse, so that
a processor that slows down slows all alike; the first one changes. Two rounds are not
counted. Times are those of the processor, without garbage collection between rounds.

glibc gives memory back to the system and takes it again as page faults, more often in one order
than in another. With `--keep-heap` it keeps all memory, so that only the work of the steps counts.
"""

from __future__ import annotations

import argparse
import copy
import ctypes
import gc
import resource
import time
from collections.abc import Mapping, Sequence
from statistics import median, quantiles
from typing import Any, ClassVar

import torch
from torch._functorch import config as functorch_config
from torch._functorch.partitioners import min_cut_rematerialization_partition

from experiments.recompute.networks import STEPS
from optsched.plugins import inductor
from optsched.plugins.inductor.recompute.calibrate import simulate_step
from optsched.plugins.inductor.recompute.joint_graph import Modules
from optsched.plugins.inductor.recompute.joint_step import JointStep
from optsched.plugins.inductor.recompute.partition import PeakPartitioner
from optsched.plugins.records import forget, records
from tests.support.high_water import high_water

PARTS = (0.8, 0.65)
"""Parts of PyTorch's lowest peak that are asked for after this peak itself, until one fails."""


class TorchBudgets(PeakPartitioner):
    """Simulates PyTorch's splits at all budgets, and returns the default one."""

    rows: ClassVar[list[tuple[int, int, int, float]]] = []
    """Simulated peak, extra cost, cost of a step and budget of each split."""

    def __call__(self, gm: Any, joint_inputs: Sequence[Any], **how: Any) -> Modules:
        """Return forward and backward graph."""
        self.rows.clear()
        default: Modules = min_cut_rematerialization_partition(
            copy.deepcopy(gm), joint_inputs, **how
        )
        found = JointStep(self, "torch", gm, joint_inputs, how)
        total = found.problem.total
        for split in found.splits:
            known = split.modules, 1.0, found.outputs, found.static
            peak = simulate_step(*known, ordered=False).peak
            self.rows.append((peak, split.extra, total, split.budget))
        return default


class Step:
    """A training step, eager or compiled with some settings."""

    def __init__(self, name: str, settings: dict[str, Any] | None, budget: float = 1.0) -> None:
        # No reset of dynamo: steps compiled before would be compiled again, without their settings.
        torch.manual_seed(0)
        self.module, self.args = STEPS[name]()
        self.call: Any = self.module
        self.seconds = 0.0
        if settings is not None:
            start = time.process_time()
            forget()
            fixed = {"fx_graph_cache": False, "compile_threads": 1, **settings}
            uncached = {"enable_autograd_cache": False, "activation_memory_budget": budget}
            # As options, settings tell steps of one network apart: dynamo would otherwise run the
            # code that it has compiled before.
            self.call = torch.compile(self.module, dynamic=False, options=fixed)
            with functorch_config.patch(uncached):
                self.gradients()
            self.seconds = time.process_time() - start
            self.joint = records()[0] if records() else None

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
        """Return the processor's seconds of a step."""
        self.clear()
        start = time.process_time()
        self.call(*self.args).backward()
        return time.process_time() - start


def timed(steps: Mapping[str, Step], rounds: int) -> str:
    """Return the step times of all but the first step as parts of the first one's."""
    names, rows = list(steps), list[dict[str, float]]()
    faults = dict.fromkeys(names, 0)
    for i in range(rounds + 2):
        turn = i % len(names)
        order, found = names[turn:] + names[:turn], dict.fromkeys(names, 0.0)
        gc.collect()
        gc.disable()
        for name in (*order, *reversed(order)):
            before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
            found[name] += steps[name].run_time() / 2
            faults[name] = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
        gc.enable()
        rows.append(found)
    texts, rows = [], rows[2:]
    for name in names[1:]:
        ratios = [row[name] / row[names[0]] for row in rows]
        low, middle, high = quantiles(ratios, n=4)
        texts.append(f"{name} {middle:.3f} (half of all {low:.3f} to {high:.3f})")
    parts = [f"{n} {1000 * median(row[n] for row in rows):.1f} ms" for n in names]
    parts += [f"{faults[name]} page faults" for name in names]
    return f"{', '.join(texts)} of PyTorch's step time; medians {', '.join(parts)}"


def study(name: str, pairs: int, seconds: float, parts: Sequence[float]) -> None:
    """Print the lines of a network."""
    # Networks share classes, and dynamo compiles the code of one only a few times.
    torch._dynamo.reset()
    budgets = TorchBudgets(1, seconds)
    default = Step(name, {"custom_partitioner_fn": budgets})
    drops = name == "dropout"
    exact = default.gradients() if drops else Step(name, None).gradients()
    whose = "PyTorch's default" if drops else "eager's"

    def show(label: str, step: Step, text: str) -> None:
        apart = max(
            (a - b).abs().max().item() for a, b in zip(exact, step.gradients(), strict=True)
        )
        held = f"allocated {step.allocated():,}, gradients {apart:.1e} from {whose}"
        print(f"{name}: {label}: {text}, {held}, compiled in {step.seconds:.0f} s", flush=True)

    show("torch, default", default, "")
    for peak, extra, total, budget in budgets.rows:
        print(f"  torch {budget}: simulated {peak:,}, extra {100 * extra / total:.2f} %")
    lowest, extra, total, budget = min(budgets.rows)
    theirs = Step(name, {}, budget)
    show(f"torch {budget}", theirs, f"simulated {lowest:,}, extra {100 * extra / total:.2f} %")
    for part in (1.0, *parts):
        asked = int(lowest * part)
        ours = Step(name, inductor.options(peak=asked, time_limit=seconds))
        joint = ours.joint
        assert joint is not None
        told = f"{joint.order or joint.reason} {joint.note}, planned in {joint.seconds:.1f} s"
        show(f"asked {asked:,}", ours, told)
        # Quartiles need two rounds.
        if part == 1.0 and pairs > 1:
            steps = {"PyTorch": theirs, "ours": ours, "PyTorch again": Step(name, {}, budget)}
            print(f"  {pairs} rounds: {timed(steps, pairs)}", flush=True)
        if joint.after is None or joint.after > asked:
            break


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="*", default=list(STEPS))
    parser.add_argument("--pairs", type=int, default=21)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--parts", type=float, nargs="*", default=PARTS)
    parser.add_argument("--keep-heap", action="store_true", help="no page faults in timed steps")
    args = parser.parse_args()
    if args.keep_heap:
        # Blocks are not mapped one by one (-3), and stay with the process (-1).
        for setting in (-3, -1):
            ctypes.CDLL(None).mallopt(setting, 2**30)
    torch.set_num_threads(1)
    for name in args.networks:
        study(name, args.pairs, args.seconds, args.parts)


if __name__ == "__main__":
    main()
