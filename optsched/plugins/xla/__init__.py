"""XLA on the CPU: functions that `jax.jit` compiles run in an order of least memory.

>>> import jax
>>> import jax.numpy as jnp
>>> import optsched.plugins.xla
>>> with optsched.plugins.xla.enabled(time_limit=5):
...     total = jax.jit(jnp.sum)(jnp.ones(8))

XLA has scheduled a module when it asks; it compiles the order that it is given back. A function is
compiled when it first runs: that has to happen inside. Modules that jax caches on disk then lie in
a folder of its own inside the cache's, where a process without the plugin does not look.
"""

from __future__ import annotations

import contextlib
import logging
import math
from collections.abc import Collection, Iterator
from typing import SupportsIndex

from optsched.errors import MissingDependencyError, UsageError
from optsched.plugins.gain import DEFAULT_GAIN, MinGain, parse_gain
from optsched.plugins.records import note_unusable
from optsched.runtime.bytes import parse_bytes
from optsched.runtime.keywords import keywords

DEFAULT_TIME_LIMIT = 5.0
TESTED_JAX = "0.10."
"""The rules were measured with these versions of jax; 0.10.2 is the first that has the hook."""

_LOG = logging.getLogger("optsched.plugins.xla")

__all__ = ["enabled"]


@contextlib.contextmanager
@keywords
def enabled(
    *,
    time_limit: float = DEFAULT_TIME_LIMIT,
    modules: Collection[str] = ("*",),
    min_bytes: int | str | SupportsIndex = "64KiB",
    min_gain: MinGain | str | SupportsIndex = DEFAULT_GAIN,
) -> Iterator[None]:
    """Replace the order of modules that jax compiles for the CPU by one of least memory.

    Use it as a context, or as a decorator of a function. It prints nothing;
    :func:`optsched.plugins.explain` lists the decisions. If anything fails, XLA's own result is
    used, and the logger `optsched.plugins.xla` has one line.

    The bytes that count are those that the module allocates: temporaries, and results that do not
    take the place of a donated argument. XLA drops donation from a module that is returned by the
    hook, so such a module gets an order only if that saves more than donation does.

    If the setting `jax_compilation_cache_dir` is set, it has another value inside the context.

    Raise `MissingDependencyError` if jax is not installed. Raise `UsageError` if an option makes no
    sense.

    Parameters
    ----------
    time_limit
        Seconds per module, for everything that the plugin does with it.
    modules
        Patterns of the names of modules to order, such as `jit_step*` (default: all).
    min_bytes
        Modules that allocate less are not ordered: `65536` or `"64KiB"`.
    min_gain
        Least saving for which XLA's order is replaced: bytes, or a percentage such as `"0.1%"`
        (default: both 0.1 % and 64 KiB).
    """
    if not (isinstance(time_limit, int | float) and 0 <= time_limit < math.inf):
        raise UsageError(f"time_limit must be a number of seconds, got {time_limit!r}")
    if isinstance(modules, str):
        raise UsageError(f"modules must be a list of patterns: write [{modules!r}]")
    least, gain = parse_bytes(min_bytes), parse_gain(min_gain)
    try:
        import jax
    except ImportError as error:
        raise MissingDependencyError("jax", "jax") from error
    try:
        from jax.extend import xla
    except ImportError:
        xla = None
    if xla is None or not jax.__version__.startswith(TESTED_JAX):
        # A warning, no error: the program must run with another jax as well.
        reason = f"jax {jax.__version__} is not one of {TESTED_JAX}x from 0.10.2 on"
        _LOG.warning("%s: nothing is changed", reason)
        note_unusable("xla", f"{reason}: nothing is changed")
        yield
        return
    from optsched.plugins.xla.cache import own_folder
    from optsched.plugins.xla.schedule import Scheduler

    settings = repr((float(time_limit), tuple(modules), least, gain))
    place = {"stage": xla.PipelineStage.POST_SCHEDULER, "platforms": "cpu"}
    # Own cache folder first: nothing compiled with our hook may get into the shared one.
    with own_folder(settings, tuple(modules)) as kept:
        scheduler = Scheduler(float(time_limit), tuple(modules), least, gain, kept)
        xla.register_hlo_module_transformation(scheduler, name=scheduler.name, **place)
        try:
            yield
        # By name, so that a nested context with other settings stays.
        finally:
            xla.clear_hlo_module_transformation(scheduler.name, **place)
