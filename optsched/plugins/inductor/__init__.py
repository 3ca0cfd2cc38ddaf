"""TorchInductor: graphs out of it, and orders of least memory back into it.

>>> import torch
>>> import optsched.plugins.inductor
>>> model, x = torch.nn.Linear(64, 8), torch.randn(32, 64)
>>> with optsched.plugins.inductor.enabled(time_limit=5):
...     compiled = torch.compile(model)
...     compiled(x).sum().backward()

The graph is compiled when it first runs, and its backward graph when that first runs: both have
to happen inside. `torch.compile(model, options=options(time_limit=5))` has no such condition.
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
from optsched.runtime.bytes import parse_bytes
from optsched.runtime.keywords import keywords

DEFAULT_TIME_LIMIT = 5.0
_LOG = logging.getLogger("optsched.plugins.inductor")
LIFECYCLES = ("assert", "log")
"""What to do where a buffer lives otherwise than planned."""

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
) -> Iterator[None]:
    """Give graphs that `torch.compile` compiles meanwhile an order of least memory.

    A context, or a decorator of a function such as a training step. Nothing is printed:
    :func:`optsched.plugins.explain` says what was done. Whatever goes wrong with a graph, Inductor
    compiles it as it would have, and the logger `optsched.plugins.inductor` has one line.

    Parameters
    ----------
    time_limit
        Seconds for the solver, for each graph.
    store
        A file of plans. The solver is asked only about graphs that it has none for, and what it
        finds is kept there.
    lifecycle
        `"assert"` or `"log"`: while the compiled graphs run in this context, each buffer's
        allocation and release is held against the plan. The first that differs is named, by
        :class:`optsched.check.lifecycle.LifecycleError` or by a line in the log. Runs slowly, and
        without Inductor's cache.
    min_gain
        Least saving for which Inductor's order is replaced: bytes such as `"64KiB"`, a percentage
        such as `"0.1%"`, 0 for any saving, or a :class:`~optsched.plugins.gain.MinGain` of both.
        The default asks for 64 KiB and for 0.1 %.
    peak
        Bytes such as `"2GiB"` that a training step may allocate beside its inputs: forward ops run
        again in the backward graph where this is needed
        (:mod:`optsched.plugins.inductor.partition`). None leaves the split to PyTorch.

    Raises
    ------
    MissingDependencyError
        If torch is not installed.
    UsageError
        If a setting makes no sense, or another pass has the place of this one.
    """
    chosen = options(
        time_limit=time_limit, store=store, lifecycle=lifecycle, min_gain=min_gain, peak=peak
    )
    if not chosen:
        yield
        return
    from torch._inductor import config

    from optsched.plugins.inductor.lifecycle import watch

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
) -> dict[str, Any]:
    """Return the settings of Inductor that do the same for one call of `torch.compile`.

    Empty where torch has no place for the plugin: then the logger has one line.

    Examples
    --------
    >>> import torch
    >>> compiled = torch.compile(torch.nn.Linear(64, 8), options=options(time_limit=5))
    >>> compiled(torch.randn(32, 64)).shape
    torch.Size([32, 8])

    Parameters
    ----------
    time_limit, store, lifecycle, min_gain, peak
        As for :func:`enabled`, and so are the errors. Lives are checked where the graphs run:
        inside :func:`optsched.plugins.inductor.lifecycle.watch`.
    """
    if not (isinstance(time_limit, int | float) and 0 <= time_limit < math.inf):
        raise UsageError(f"time_limit {time_limit!r} is no number of seconds")
    if lifecycle not in (None, *LIFECYCLES):
        raise UsageError(f"lifecycle {lifecycle!r} is none of {', '.join(LIFECYCLES)}")
    gain = parse_gain(min_gain)
    budget = None if peak is None else parse_bytes(peak)
    try:
        import torch
        from torch._inductor import config
    except ImportError as error:
        raise MissingDependencyError("torch", "torch") from error
    try:
        from optsched.plugins.inductor.scheduler_pass import SchedulerPass

        present = config._post_fusion_custom_pass
    except (ImportError, AttributeError) as error:
        _LOG.warning("torch %s is not supported, nothing is changed: %s", torch.__version__, error)
        return {}
    if present is not None and not isinstance(present, SchedulerPass):
        raise UsageError(f"Inductor's _post_fusion_custom_pass is taken by {present!r}")
    path = None if store is None else str(Path(store).absolute())
    reorder, reuse = config.reorder_for_peak_memory, config.allow_buffer_reuse
    if present is not None:
        reorder, reuse = present.reorder, present.reuse
    split = {} if budget is None else _partitioner(config, budget, float(time_limit))
    return {
        **split,
        "_post_fusion_custom_pass": SchedulerPass(
            float(time_limit), path, reorder, reuse, lifecycle is not None, gain
        ),
        # Set by the pass for each graph; here, so that they are as before afterwards.
        "reorder_for_peak_memory": reorder,
        "allow_buffer_reuse": reuse,
    }


def _partitioner(config: Any, budget: int, time_limit: float) -> dict[str, Any]:
    """Return the setting that splits joint graphs so that a step needs at most `budget` bytes."""
    from optsched.plugins.inductor.partition import PeakPartitioner

    present = config.custom_partitioner_fn
    if present is not None and not isinstance(present, PeakPartitioner):
        raise UsageError(f"Inductor's custom_partitioner_fn is taken by {present!r}")
    return {"custom_partitioner_fn": PeakPartitioner(budget, time_limit)}
