"""pack(): offsets for given live ranges, in one slab or in pools into which buffers spill."""

from __future__ import annotations

from collections.abc import Sequence
from typing import SupportsIndex, Unpack, cast

from optsched.errors import UsageError, expect
from optsched.formats.minimalloc import PackingTable
from optsched.model.memory_model import parse_alignment
from optsched.model.packing_problem import PackingProblem
from optsched.model.pools import Pool
from optsched.model.reductions import Aligned, Reduced
from optsched.model.reserved import Region
from optsched.runtime.bytes import parse_bytes
from optsched.runtime.clock import Clock
from optsched.runtime.keywords import keywords
from optsched.runtime.limits import LimitKeywords, Limits, OnEvent, choose_limits
from optsched.solver.packing_result import PackingResult
from optsched.solver.packing_stages import pack_slab
from optsched.solver.spill.pack import pack_in_pools
from optsched.solver.spill.pooled import PooledProblem


@keywords
def pack(
    problem: PackingProblem | PackingTable,
    *,
    pools: Sequence[Pool] = (),
    own_pools: Sequence[str] = (),
    capacity: int | str | SupportsIndex | None = None,
    reserved: Sequence[Region] = (),
    align: int | str | SupportsIndex | None = None,
    limits: Limits | Clock | None = None,
    on_event: OnEvent | None = None,
    **named: Unpack[LimitKeywords],
) -> PackingResult:
    """Find offsets of minimum slab for given live ranges, or ones that fit a capacity.

    Parameters
    ----------
    problem
        Buffers and their live ranges, or a result of :func:`optsched.read_packing`.
    pools
        Pools with capacities, in order of preference: a buffer that does not fit into its pool
        spills to the next one. A pinned buffer stays in its own (default: those that buffers name,
        if any, with the capacity of the problem if there is only one).
    own_pools
        The pool that each buffer names, or "" for the first (default: those of the file).
    capacity
        Stop at the first packing of at most this many bytes, `65536` or `"64KiB"` (default:
        `problem.capacity`).
    reserved
        Bytes that no buffer may use; they count as part of the slab.
    align
        A power of two; sizes are rounded up and offsets placed at its multiples.
    limits, on_event, named
        As for :func:`optsched.solve`.

    Raises
    ------
    GraphError
        If a region is invalid, or a buffer is pinned into one or onto another buffer.
    UsageError
        If an option is invalid, alone or with another one, or a buffer names no given pool.

    Examples
    --------
    The first buffer shares its time with the second, the second with the third: 12 bytes are live
    at step 2, and the third buffer reuses the bytes of the first.

    >>> from optsched import PackingProblem, pack
    >>> problem = PackingProblem(size=[8, 4, 4], start=[0, 2, 4], end=[4, 6, 8])
    >>> result = pack(problem)
    >>> result.slab, result.slab_bound, result.offsets.tolist()
    (12, 12, [0, 8, 0])
    """
    clock = Clock.of(choose_limits(limits, named))
    # A table read from a file knows the pools of its buffers.
    own_pools = own_pools or getattr(problem, "pools", None) or ()
    problem = problem_of(problem)
    rounding = () if align is None else (Aligned(parse_alignment(align)),)
    if pools or any(own_pools):
        if capacity is not None or reserved:
            raise UsageError("pools exclude capacity and reserved: give Pool(name, bytes)")
        (problem,) = Reduced(problem, *rounding).parts
        return _in_pools(problem, own_pools, pools, clock, on_event)
    capacity = problem.capacity if capacity is None else parse_bytes(capacity)
    (problem,) = Reduced(problem, *rounding).parts
    return pack_slab(problem, capacity, clock, on_event, reserved)


def _in_pools(
    problem: PackingProblem,
    own_pools: Sequence[str],
    pools: Sequence[Pool],
    clock: Clock,
    on_event: OnEvent | None,
) -> PackingResult:
    if not pools:
        room = problem.capacity
        pools = [Pool(name, room) for name in dict.fromkeys(own_pools) if name]
        if room is not None and len(pools) > 1:
            raise UsageError(
                f"{problem.name}: the file has one capacity, but its buffers are in "
                f"{len(pools)} pools: give each its own, Pool(NAME, BYTES) or --pool NAME=BYTES"
            )
    asked = PooledProblem.of(problem, own_pools or [""] * len(problem), pools)
    return pack_in_pools(asked, clock, on_event)


def problem_of(problem: PackingProblem | PackingTable) -> PackingProblem:
    """Return the packing problem of a table, or the problem itself."""
    known = isinstance(problem, PackingProblem)
    found = problem if known else getattr(problem, "problem", problem)
    expect("pack", found, PackingProblem)
    return cast("PackingProblem", found)
