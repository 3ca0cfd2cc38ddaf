"""Additional time of a step if freed buffers are not reused (`allow_buffer_reuse=False`)."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median

import torch

from experiments.runtimes.inductor.networks import STEPS
from experiments.tables import markdown

SETTINGS = (True, False)


@dataclass(frozen=True)
class ReuseRow:
    """One step with and without the reuse pool, its kernels compiled as ever."""

    step: str
    rounds: int
    least_on: float
    least_off: float
    median_on: float
    median_off: float
    """`least_on`, `least_off`, `median_on` and `median_off`: processor time of a step in
    milliseconds."""
    faults_on: int
    faults_off: int
    """`faults_on` and `faults_off`: pages that a step touches for the first time: memory that is
    new to the allocator."""


def measure_reuse(name: str, rounds: int) -> Iterator[ReuseRow]:
    """Run a step with the pool and without in turn, so that both meet the same machine."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    network, args, kwargs = STEPS[name]()
    steps = {}
    for reuse in SETTINGS:
        compiled = torch.compile(network, options={"allow_buffer_reuse": reuse})
        steps[reuse] = _step(network, partial(compiled, *args, **kwargs))
    seconds: dict[bool, list[float]] = {reuse: [] for reuse in SETTINGS}
    faults: dict[bool, list[int]] = {reuse: [] for reuse in SETTINGS}
    for number in range(rounds + 2):
        for reuse in SETTINGS:
            taken, touched = _measure(steps[reuse])
            if number >= 2:
                seconds[reuse].append(taken)
                faults[reuse].append(touched)
    (on, off) = (seconds[reuse] for reuse in SETTINGS)
    yield ReuseRow(
        step=name,
        rounds=rounds,
        least_on=round(1e3 * min(on), 2),
        least_off=round(1e3 * min(off), 2),
        median_on=round(1e3 * median(on), 2),
        median_off=round(1e3 * median(off), 2),
        faults_on=int(median(faults[True])),
        faults_off=int(median(faults[False])),
    )


def _step(network: torch.nn.Module, forward: Callable[[], torch.Tensor]) -> Callable[[], None]:
    def step() -> None:
        network.zero_grad(set_to_none=True)
        forward().backward()

    return step


def _measure(step: Callable[[], None]) -> tuple[float, int]:
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    start = time.process_time()
    step()
    seconds = time.process_time() - start
    return seconds, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults


def reuse_table(rows: Sequence[ReuseRow]) -> str:
    """Return a line a step."""
    head = ["step", "rounds", "with the pool, ms", "without, ms", "longer, %"]
    head += ["median with, ms", "without, ms", "new pages touched with", "without"]
    return markdown(
        head,
        (
            [
                row.step,
                str(row.rounds),
                str(row.least_on),
                str(row.least_off),
                f"{100 * (row.least_off / row.least_on - 1):.1f}",
                str(row.median_on),
                str(row.median_off),
                f"{row.faults_on:,}",
                f"{row.faults_off:,}",
            ]
            for row in rows
        ),
    )
