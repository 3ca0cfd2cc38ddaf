"""Compile training steps with a peak, run them, and measure what the allocator held.

    python -m experiments.recompute.steps NETWORK PEAK_MB ..

prints per budget: bytes asked, the line of `explain()`, the allocator's high-water of forward and
backward above all that was held before, the largest difference of gradients from eager ones, and
milliseconds per step.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from experiments.recompute.networks import STEPS


def high_water(step: Callable[[], None]) -> int:
    """Return the most bytes that the CPU's allocator held during a step, above its start."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as run:
        step()
    events: list[tuple[int, int]] = []

    def walk(event: Any) -> None:
        if event.typed[0] == torch._C._profiler._EventType.Allocation:
            events.append((event.start_time_ns, event.typed[1].alloc_size))
        for child in event.children:
            walk(child)

    for event in run.profiler.kineto_results.experimental_event_tree():
        walk(event)
    live = peak = 0
    for _, change in sorted(events, key=lambda event: event[0]):
        live += change
        peak = max(peak, live)
    return peak


def compile_and_run(name: str, peak: int | None) -> None:
    """Compile a step, with a peak or by PyTorch alone, and print what it needs."""
    from torch._functorch import config as functorch_config
    from torch._inductor import config as inductor_config

    from optsched import plugins
    from optsched.plugins import inductor
    from optsched.plugins.records import forget

    torch._dynamo.reset()
    torch.manual_seed(0)
    module, args = STEPS[name]()

    def step(call: Any) -> None:
        for parameter in module.parameters():
            parameter.grad = None
        call(*args).backward()

    torch.manual_seed(1)
    step(module)
    wanted = [p.grad.clone() for p in module.parameters() if p.grad is not None]
    forget()
    uncached = {"fx_graph_cache": False}
    plugged = inductor.options(peak=peak, time_limit=10) if peak else {}
    start = time.perf_counter()
    settings = inductor_config.patch({**uncached, **plugged})
    with settings, functorch_config.patch(enable_autograd_cache=False):
        compiled = torch.compile(module)
        torch.manual_seed(1)
        step(compiled)
    spent = time.perf_counter() - start
    found = [p.grad for p in module.parameters() if p.grad is not None]
    apart = max((a - b).abs().max().item() for a, b in zip(wanted, found, strict=True))
    for parameter in module.parameters():
        parameter.grad = None
    held = high_water(lambda: compiled(*args).backward())
    times = []
    for _ in range(5):
        begin = time.perf_counter()
        step(compiled)
        times.append(time.perf_counter() - begin)
    print(f"{name}: asked {peak or 0:,}, allocated {held:,}, gradients {apart:.1e} from eager's")
    print(f"  {1000 * min(times):.1f} ms per step, compiled in {spent:.0f} s", flush=True)
    if peak:
        print("  " + plugins.explain().replace("\n", "\n  "), flush=True)


def main(argv: list[str]) -> None:
    torch.set_num_threads(1)
    for peak in [None, *(int(float(text) * 1e6) for text in argv[1:])]:
        compile_and_run(argv[0], peak)


if __name__ == "__main__":
    main(sys.argv[1:])
