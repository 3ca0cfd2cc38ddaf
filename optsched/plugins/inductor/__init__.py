"""TorchInductor: graphs out of it, and orders of least memory back into it.

>>> import torch
>>> import optsched.plugins.inductor
>>> model, x = torch.nn.Linear(64, 8), torch.randn(32, 64)
>>> with optsched.plugins.inductor.enabled(time_limit=5):
...     compiled = torch.compile(model)
...     compiled(x).sum().backward()

The graph is compiled when it first runs, and its backward graph when that first runs, so both first
runs must be inside the context. `torch.compile(model, options=options(time_limit=5))` works
anywhere.

What happens in a compilation, by the names of the modules:

1. `enabled` and `options` set a `scheduler_pass` in Inductor's settings; `switch` (a variable) and
   `backend` (a name) do so for programs that call neither.
2. With a budget, `recompute.partition` first chooses which forward ops run again.
3. Inductor lowers and fuses the graph, then calls the pass with the fused nodes.
4. `reading.support` refuses a graph that no rule describes. Inductor compiles it as ever.
5. `sizes.kernels` measures what extern kernels allocate, and `reading.scheduler` reads all facts
   that hold in every order (`wrapper.facts`).
6. `orders.runtime_graph` makes a graph of them, and `orders.candidates` has it solved.
7. `cuts.find` looks for fused nodes whose parts need less.
8. `wrapper.simulate` counts the bytes that the generated code holds in each of these orders. The
   one of the smallest peak is returned if it saves enough, otherwise Inductor's own.
9. `optsched.plugins.records` has the decision, from Inductor's cache by `running.cached`. While the
   graph runs, `running.measured` counts its bytes and `lifecycle` compares each release.

`capture` writes Inductor's graphs to files. Imports point down, from `switch`, `backend` by
`recompute`, `scheduler_pass`, `cuts`, `orders`, `reading` and `sizes` to `wrapper`.
"""

from __future__ import annotations

import contextlib
import logging
import math
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import Any, SupportsIndex

from optsched.errors import MissingDependencyError, UsageError
from optsched.plugins.gain import DEFAULT_GAIN, MinGain, parse_gain
from optsched.plugins.inductor.asked import parse_peak
from optsched.plugins.inductor.versions import TESTED_TORCH, is_tested
from optsched.plugins.records import note_unusable
from optsched.runtime.keywords import keywords

DEFAULT_TIME_LIMIT = 5.0
_LOG = logging.getLogger("optsched.plugins.inductor")
LIFECYCLES = ("assert", "log")
"""Reactions to a buffer whose lifetime differs from the plan."""

__all__ = ["enabled", "options"]


@contextlib.contextmanager
@keywords
def enabled(
    *,
    time_limit: float = DEFAULT_TIME_LIMIT,
    store: str | PathLike[str] | None = None,
    lifecycle: str | None = None,
    min_gain: MinGain | str | SupportsIndex = DEFAULT_GAIN,
    peak: int | str | SupportsIndex | None = None,
    cuda: bool = False,
    measure: bool = False,
    split: str | bool = "auto",
) -> Iterator[None]:
    """Replace the order of graphs that `torch.compile` compiles by one of least memory.

    Use it as a context, or as a decorator of a function such as a training step. It prints
    nothing; :func:`optsched.plugins.explain` lists the decisions. If anything fails, Inductor's
    own result is used, and the logger `optsched.plugins.inductor` has one line.

    Raise `MissingDependencyError` if torch is not installed. Raise `UsageError` if a setting is
    invalid, or Inductor's hook is used by another pass.

    Parameters
    ----------
    time_limit
        Seconds per graph: for the order, then for cuts and the order after them. They are counted
        from work, so that equal graphs have equal plans on any machine; the wall's clock ends a
        search at ten times the limit. With a peak, a joint graph has four fifths of this limit,
        and all of it for each 220 of its nodes.
    store
        File of plans. The solver runs only for graphs without a plan there, and its plans are added
        to the file.
    lifecycle
        `"assert"` or `"log"`: while the compiled graphs run in this context, each buffer's
        allocation and release is compared with the plan. The first difference is reported, by
        :class:`optsched.check.lifecycle.LifecycleError` or by a line in the log. Runs slowly, and
        without Inductor's cache.
    min_gain
        Least saving for which Inductor's order is replaced: bytes such as `"64KiB"`, a percentage
        such as `"0.1%"`, 0 for any saving, or a :class:`~optsched.plugins.gain.MinGain` of both.
        The default is 64 KiB and 0.1 %. An order that brings a graph within `peak` may save less.
    peak
        Bytes such as `"2GiB"` that a training step may hold beyond those at its first compiled
        call; `"80%"` of what it holds with PyTorch's own splits, or `"min"` for the least that is
        found. Forward ops run again in the backward graph where this is needed
        (:mod:`optsched.plugins.inductor.recompute`), after cuts, which are made only in graphs
        above the peak, and at any price if those of `"auto"` are not enough. A step that calls
        several compiled graphs is measured first, on the CPU, and compiled again if it holds more;
        elsewhere the peak is for each graph. The last line of :func:`explain` has what the step
        holds. None: what is saved and what runs again is PyTorch's choice.
    cuda
        True to order graphs of a single GPU, too. Their peaks are simulated from the wrapper that
        the GPU runs; they were compared with a fake device, not with a GPU. Bytes that cuBLAS,
        cuDNN, attention and kernels of the program allocate while they run are not counted.
    measure
        True to measure the first two calls of each graph: :func:`optsched.plugins.explain` has the
        last measured peak beside the planned one, and inputs that were held otherwise than planned.
        On a GPU this resets the peaks of `torch.cuda.memory_stats`; on the CPU it needs Linux and a
        C compiler (`cc`).
    split
        Cuts of fused nodes into parts where that lowers the peak: `"auto"` takes cuts that add at
        most 2 % to the bytes that kernels move and 5 % to their number, `"peak"` takes cuts at any
        price, False takes none.
    """
    chosen = options(
        time_limit=time_limit,
        store=store,
        lifecycle=lifecycle,
        min_gain=min_gain,
        peak=peak,
        cuda=cuda,
        measure=measure,
        split=split,
    )
    if not chosen:
        yield
        return
    from torch._inductor import config

    from optsched.plugins.inductor.lifecycle import watch

    # The setting holds in this context only, also if an error leaves it.
    with config.patch(chosen), watch(lifecycle) if lifecycle else contextlib.nullcontext():
        yield


@keywords
def options(
    *,
    time_limit: float = DEFAULT_TIME_LIMIT,
    store: str | PathLike[str] | None = None,
    lifecycle: str | None = None,
    min_gain: MinGain | str | SupportsIndex = DEFAULT_GAIN,
    peak: int | str | SupportsIndex | None = None,
    cuda: bool = False,
    measure: bool = False,
    split: str | bool = "auto",
) -> dict[str, Any]:
    """Return the settings of Inductor that do the same as :func:`enabled` for one `torch.compile`.

    Empty if the version of torch is not supported; the logger then has one line. Arguments and
    errors are those of :func:`enabled`. Lifetimes are checked where the graphs run: inside
    :func:`optsched.plugins.inductor.lifecycle.watch`.

    Examples
    --------
    >>> import torch
    >>> compiled = torch.compile(torch.nn.Linear(64, 8), options=options(time_limit=5))
    >>> compiled(torch.randn(32, 64)).shape
    torch.Size([32, 8])
    """
    if not (isinstance(time_limit, int | float) and 0 <= time_limit < math.inf):
        raise UsageError(f"time_limit must be a number of seconds, got {time_limit!r}")
    if lifecycle not in (None, *LIFECYCLES):
        raise UsageError(f"lifecycle must be one of {', '.join(LIFECYCLES)}, got {lifecycle!r}")
    if split is not False and split not in ("auto", "peak"):
        raise UsageError(f"split must be 'auto', 'peak' or False, got {split!r}")
    gain = parse_gain(min_gain)
    budget, ask = (None, "") if peak is None else parse_peak(peak)
    try:
        import torch
        from torch._inductor import config
    except ImportError as error:
        raise MissingDependencyError("torch", "torch") from error
    if not is_tested(torch.__version__):
        known = ", ".join(TESTED_TORCH)
        return _unsupported(torch.__version__, f"the plugin knows the wrapper of torch {known}")
    try:
        from optsched.plugins.inductor.scheduler_pass import SchedulerPass

        present = config._post_fusion_custom_pass
    except (ImportError, AttributeError) as error:
        return _unsupported(torch.__version__, str(error))
    if present is not None and not isinstance(present, SchedulerPass):
        raise UsageError(f"Inductor's _post_fusion_custom_pass is already set to {present!r}")
    # Absolute, since the graph may be compiled when the working folder has changed.
    path = None if store is None else str(Path(store).absolute())
    reorder, reuse = config.reorder_for_peak_memory, config.allow_buffer_reuse
    # A context within another one: keep the settings from before the outer one.
    if present is not None:
        reorder, reuse = present.reorder, present.reuse
    scheduler = SchedulerPass(
        time_limit=float(time_limit),
        store=path,
        reorder=reorder,
        reuse=reuse,
        lifecycle=lifecycle is not None,
        min_gain=gain,
        cuda=bool(cuda),
        measure=bool(measure),
        split=split,
        # What a percentage means is known once a graph is split.
        budget=None if ask else budget,
    )
    return {
        **({} if budget is None else _partitioner(config, budget, ask, scheduler)),
        "_post_fusion_custom_pass": scheduler,
        # The pass sets these for each graph; listed here, they are restored afterwards.
        "reorder_for_peak_memory": reorder,
        "allow_buffer_reuse": reuse,
    }


def _unsupported(version: str, why: str) -> dict[str, Any]:
    """Report that no order is changed, and return no settings."""
    reason = f"torch {version} is not supported, no order changed: {why}"
    # A warning, no error: a training script must run with a new torch, only without the plugin.
    _LOG.warning("%s", reason)
    note_unusable("inductor", reason)
    return {}


def _partitioner(config: Any, budget: int, ask: str, scheduler: Any) -> dict[str, Any]:
    """Return the setting that splits joint graphs so that a step needs at most what is asked."""
    from optsched.plugins.inductor.recompute.partition import PeakPartitioner

    present = config.custom_partitioner_fn
    if present is not None and not isinstance(present, PeakPartitioner):
        raise UsageError(f"Inductor's custom_partitioner_fn is taken by {present!r}")
    # Steps are simulated by the rules of the pass that compiles them.
    found = PeakPartitioner(
        budget,
        scheduler.time_limit,
        split=scheduler.split,
        min_gain=scheduler.min_gain,
        ask=ask,
    )
    return {"custom_partitioner_fn": found}
