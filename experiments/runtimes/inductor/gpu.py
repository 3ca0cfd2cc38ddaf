"""Training steps on a real GPU with the plugin off and on.

`python -m experiments.runtimes.inductor.gpu` writes a row of CSV per graph, then a table. For each
step these are the peaks of requested, allocated and reserved bytes that the GPU's allocator
counted, and for each of its graphs the measured bytes beside the planned ones. The command exits
with 1 if a difference has no reason: a graph that was measured at other bytes than planned, while
each of its kernels was measured, or a step that needs more with the plugin than without.

Without a GPU it exits with 2. `--device cpu` runs smaller steps on the CPU, where the model of the
allocator (:mod:`optsched.model.caching_allocator`) answers: a test of this command, not of a GPU.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from statistics import median
from typing import Any

import torch

from experiments.tables import markdown
from optsched import plugins
from optsched.measure.torch_calls import list_changes
from optsched.model.caching_allocator import Action, Event, Usage, replay
from optsched.plugins.inductor import options
from optsched.plugins.inductor.running.measured import MEASURED_CALLS
from optsched.plugins.records import CompiledGraph
from tests.support.cuda.steps import STEPS, placed_on
from tests.support.small_networks import gradients

GPU_STEPS = (
    *("gpt_bf16", "gpt_shared_checkpointed", "gpt_large_flash"),
    *("layer_norms_mixed_bf16", "convolutions_half", "lstm"),
)
CPU_STEPS = ("gpt_checkpointed", "gpt_shared_checkpointed", "experts", "lstm")
NO_DEVICE = 2
"""Exit code without a GPU, or with a wrong argument."""

Step = Callable[[], None]


@dataclass(frozen=True)
class GpuRow:
    """A graph of a step, with the figures of its step; bytes and milliseconds."""

    step: str
    graph: str
    device: str
    nodes: int
    planned_own: int
    planned: int
    measured: int
    """`planned_own`, `planned` and `measured`: of the graph: planned in Inductor's order and in
    ours, measured in ours; -1 without a plan."""
    order: str
    note: str
    requested_own: int
    requested: int
    allocated_own: int
    allocated: int
    reserved_own: int
    reserved: int
    """`requested_own`, `requested`, `allocated_own`, `allocated`, `reserved_own` and `reserved`:
    most bytes of the allocator during a step without the plugin, and with it."""
    milliseconds_own: float
    milliseconds: float
    """`milliseconds_own` and `milliseconds`: median time of a step, both run in turn."""
    gradients: float
    """Largest relative difference of a gradient from that without the plugin."""
    unexplained: str
    """The difference that has no reason; empty if there is none."""


@dataclass(frozen=True)
class StepFigures:
    """Figures of a step with the plugin on or off."""

    usage: Usage
    milliseconds: float


def measure_step(name: str, device: str, seconds: float, pairs: int) -> Iterator[GpuRow]:
    """Run a step with the plugin off and on; yield a row for each graph."""
    # Code compiled for the step before would be found again.
    torch._dynamo.reset()
    torch.manual_seed(0)
    with placed_on(device):
        network, args = STEPS[name]()
    chosen = options(time_limit=seconds, cuda=True, measure=True)
    steps = [_step(network, args, settings) for settings in ({}, chosen)]
    plugins.forget()
    usages, found = [], []
    for step in steps:
        # The first calls of each graph are measured one by one, with counters of their own.
        for _ in range(MEASURED_CALLS):
            step()
        usages.append(peak_usage(step, device))
        found.append(gradients(network))
    times = _times(steps, device, pairs)
    own, ours = (StepFigures(*pair) for pair in zip(usages, times, strict=True))
    for record in plugins.records():
        yield _row(name, _device_name(device), record, own, ours, _distance(*found))


def _step(network: torch.nn.Module, args: Sequence[Any], settings: dict[str, Any]) -> Step:
    # Fixed shapes: with dynamic ones the planned bytes would be those of an example.
    compiled = torch.compile(network, dynamic=False, options=settings)

    def step() -> None:
        # Gradients of the last step would otherwise be live during this one, and be added to.
        network.zero_grad(set_to_none=True)
        # Dropout draws the same in both forms, so that gradients can be compared.
        torch.manual_seed(1)
        compiled(*args).backward()

    return step


def peak_usage(step: Step, device: str) -> Usage:
    """Run a step; return the most bytes of each kind that the device's allocator counted."""
    if device == "cpu":
        return _modeled_usage(step)
    torch.cuda.synchronize()
    # Blocks of other steps, kept by the allocator, are not to count as reserved by this one.
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats(device)
    step()
    torch.cuda.synchronize()
    counted = torch.cuda.memory_stats(device)
    kinds = ("requested_bytes", "allocated_bytes", "reserved_bytes")
    return Usage(*(int(counted[f"{kind}.all.peak"]) for kind in kinds))


def _modeled_usage(step: Step) -> Usage:
    """Return what the allocator of a GPU would count for the allocations of a step on the CPU."""
    # A change above 0 is an allocation of that many bytes.
    events = [
        Event(Action.ALLOCATE, address, change) if change > 0 else Event(Action.FREE, address)
        for address, change in list_changes(step)
    ]
    return replay(events).peak


def _times(steps: Sequence[Step], device: str, pairs: int) -> list[float]:
    """Return the median milliseconds of each step, run in turn so that all meet one machine."""
    taken: list[list[float]] = [[] for _ in steps]
    # In turn, not one after the other: the clock of a GPU falls as it warms up.
    for _ in range(pairs):
        for step, times in zip(steps, taken, strict=True):
            _wait(device)
            start = time.perf_counter()
            step()
            _wait(device)
            times.append(1e3 * (time.perf_counter() - start))
    return [round(median(times), 3) for times in taken]


def _wait(device: str) -> None:
    if device != "cpu":
        torch.cuda.synchronize()


def _device_name(device: str) -> str:
    return "cpu (stand-in)" if device == "cpu" else str(torch.cuda.get_device_name(device))


def _distance(own: dict[str, torch.Tensor], ours: dict[str, torch.Tensor]) -> float:
    """Return the largest difference of a gradient, relative to its own largest value."""
    apart = [0.0]
    for name, gradient in own.items():
        # A gradient of zeros has no scale of its own.
        largest = float(gradient.abs().max()) or 1.0
        apart.append(float((gradient - ours[name]).abs().max()) / largest)
    return max(apart)


def _row(
    name: str,
    device: str,
    record: CompiledGraph,
    own: StepFigures,
    ours: StepFigures,
    distance: float,
) -> GpuRow:
    return GpuRow(
        step=name,
        graph=record.name,
        device=device,
        nodes=record.ops,
        planned_own=_known(record.before),
        planned=_known(record.planned),
        measured=_known(record.measured),
        order=record.order or record.reason,
        note=record.note,
        requested_own=own.usage.requested,
        requested=ours.usage.requested,
        allocated_own=own.usage.allocated,
        allocated=ours.usage.allocated,
        reserved_own=own.usage.reserved,
        reserved=ours.usage.reserved,
        milliseconds_own=own.milliseconds,
        milliseconds=ours.milliseconds,
        gradients=float(f"{distance:.2g}"),
        unexplained=unexplained(record, own.usage, ours.usage),
    )


def _known(value: int | None) -> int:
    return -1 if value is None else value


def unexplained(record: CompiledGraph, own: Usage, ours: Usage) -> str:
    """Return the difference between plan and measurement that has no reason, or an empty text.

    A graph that was left to Inductor has no plan. Kernels that could not be called beforehand may
    allocate more than planned, never less.
    """
    # Requested bytes, not reserved ones: the allocator's rounding and caching may go either way.
    if ours.requested > own.requested:
        return f"the step requests {ours.requested - own.requested:,} bytes more with the plugin"
    if record.planned is None:
        return ""
    if record.measured is None:
        return "the graph was planned, but not measured"
    more = record.measured - record.planned
    # Fewer bytes than planned would mean that the plan counts something that does not exist.
    if more == 0 or (more > 0 and "is not counted" in record.note):
        return ""
    return f"{record.measured:,} bytes measured, {record.planned:,} planned"


def gpu_table(rows: Sequence[GpuRow]) -> str:
    """Return a line per graph; figures of the step are in its first line."""
    head = ["step", "graph", "planned, Inductor's order", "planned, ours", "measured, ours"]
    head += ["requested off", "on", "allocated off", "on", "reserved off", "on", "ms off", "on"]
    return markdown([*head, "difference"], (_line(rows, i) for i in range(len(rows))))


def _line(rows: Sequence[GpuRow], i: int) -> list[str]:
    row = rows[i]
    bytes_of = [row.requested_own, row.requested, row.allocated_own, row.allocated]
    bytes_of += [row.reserved_own, row.reserved]
    figures = [*(f"{x:,}" for x in bytes_of), str(row.milliseconds_own), str(row.milliseconds)]
    # Figures of a step stand once, beside its first graph.
    if i and rows[i - 1].step == row.step:
        figures = [""] * len(figures)
    graph = [row.planned_own, row.planned, row.measured]
    planned = [f"{x:,}" if x >= 0 else "-" for x in graph]
    why = row.unexplained or ("none" if row.planned == row.measured else row.note or row.order)
    return [row.step, row.graph, *planned, *figures, why]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the steps, write rows to standard output and a table after them."""
    parser = argparse.ArgumentParser(prog="experiments.runtimes.inductor.gpu")
    parser.add_argument("names", nargs="*", metavar="STEP")
    parser.add_argument("--device", default="cuda", help="cuda, or cpu for the stand-in")
    parser.add_argument("--seconds", type=float, default=10.0, help="for the solver, per graph")
    parser.add_argument("--pairs", type=int, default=10, help="of timed steps, off and on in turn")
    chosen = parser.parse_args(arguments)
    if unknown := set(chosen.names) - set(STEPS):
        parser.error(f"no step {min(unknown)!r}; there are {', '.join(STEPS)}")
    if chosen.device not in ("cuda", "cpu"):
        parser.error(f"argument --device: expected cuda or cpu, got {chosen.device!r}")
    if chosen.pairs < 1:
        parser.error(f"argument --pairs: expected at least 1, got {chosen.pairs}")
    if chosen.device == "cuda" and not torch.cuda.is_available():
        print(f"no GPU: {_missing_gpu()}; nothing was measured", file=sys.stderr)
        return NO_DEVICE
    warnings.filterwarnings("ignore")
    return _measure(chosen)


def _missing_gpu() -> str:
    if torch.version.cuda is None:
        return f"torch {torch.__version__} is built without CUDA"
    return f"torch {torch.__version__} finds no CUDA driver or device"


def _measure(chosen: argparse.Namespace) -> int:
    writer = csv.DictWriter(
        sys.stdout, [field.name for field in fields(GpuRow)], lineterminator="\n"
    )
    writer.writeheader()
    rows: list[GpuRow] = []
    for name in chosen.names or (GPU_STEPS if chosen.device == "cuda" else CPU_STEPS):
        for row in measure_step(name, chosen.device, chosen.seconds, chosen.pairs):
            rows.append(row)
            writer.writerow(asdict(row))
            sys.stdout.flush()
    print(f"\n{gpu_table(rows)}", end="")
    wrong = [row for row in rows if row.unexplained]
    for row in wrong:
        print(f"{row.step} {row.graph}: {row.unexplained}", file=sys.stderr)
    return 1 if wrong or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
