"""ExecuTorch: our order of nodes, and our offsets, in its memory planning.

>>> import torch
>>> from executorch.exir import ExecutorchBackendConfig, to_edge
>>> import optsched.plugins
>>> from optsched.plugins.executorch import memory_planning
>>> exported = torch.export.export(torch.nn.Linear(64, 8), (torch.randn(32, 64),))
>>> config = ExecutorchBackendConfig(memory_planning_pass=memory_planning(time_limit=20))
>>> program = to_edge(exported).to_executorch(config)
>>> print(optsched.plugins.explain())
executorch method: ...
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, SupportsIndex

from optsched.errors import MissingDependencyError, UsageError
from optsched.model.pools import Pool
from optsched.plugins.gain import MinGain, parse_gain
from optsched.runtime.bytes import parse_bytes
from optsched.runtime.limits import Limits


def memory_planning(
    *,
    reorder: bool = True,
    capacities: Mapping[int, int | str | SupportsIndex | None] | None = None,
    limits: Limits | None = None,
    time_limit: float | None = None,
    min_gain: MinGain | str | SupportsIndex = "0.1%",
    **options: Any,
) -> Any:
    """Return a `MemoryPlanningPass` that plans with optsched.

    Raise `MissingDependencyError` if ExecuTorch is not installed. Raise `UsageError` if a capacity
    or `min_gain` is invalid.

    Parameters
    ----------
    reorder
        If True, ops may run in another order than the program's; if False, only offsets are chosen.
    capacities
        Bytes of each memory, by `mem_id` (1 for the default memory, 2 or more for your own); None
        for no limit. A tensor that does not fit its memory spills to the next memory given here
        (default: no limits).
    limits, time_limit
        Limits for the order of a method, and again for its offsets (default: 60 seconds).
    min_gain
        Least saving of another order, in bytes of the arenas or as a percentage. Arenas are small,
        so the default has no limit in bytes. With capacities any saving counts.
    options
        Further arguments of `MemoryPlanningPass`, such as `alloc_graph_input` and `alignment`.

    Returns
    -------
    executorch.exir.passes.MemoryPlanningPass
        The pass; :func:`optsched.plugins.explain` reports what it did. If our plan fails, the
        framework's own is used, and a warning is logged.
    """
    try:
        from optsched.plugins.executorch.planning import planning_pass
    except ImportError as error:
        raise MissingDependencyError("executorch", "executorch") from error
    if limits is not None and time_limit is not None:
        raise UsageError("give limits or time_limit, not both")
    if "memory_planning_algo" in options:
        raise UsageError("memory_planning_algo cannot be given: the pass uses our algorithm")
    limits = limits or Limits(seconds=60.0 if time_limit is None else time_limit)
    # With capacities even a few bytes may decide whether the tensors fit.
    gain = parse_gain(0) if capacities else parse_gain(min_gain)
    # The module with the pass imports executorch at its top, so it is imported only now.
    return planning_pass(reorder, _pools(capacities), limits, gain, options)


def _pools(capacities: Mapping[int, Any] | None) -> list[Pool]:
    pools = []
    for number, capacity in sorted((capacities or {}).items()):
        # Pool 0 of ExecuTorch holds constants, which are not planned.
        if number < 1:
            raise UsageError(f"mem_id must be 1 or more, got {number}")
        room = None if capacity is None else parse_bytes(capacity)
        pools.append(Pool(str(number), room))
    return pools
