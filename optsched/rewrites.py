"""Functions that change a program so that it fits fewer bytes: ops run again, or in row bands.

Limits are as for :func:`optsched.solve`. Each imports what it needs when it is called.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, SupportsIndex, Unpack, cast, overload

from optsched.errors import UsageError, expect
from optsched.model.graph import Graph
from optsched.runtime.bytes import parse_bytes
from optsched.runtime.clock import Clock
from optsched.runtime.keywords import keywords
from optsched.runtime.limits import LimitKeywords, Limits, choose_limits

if TYPE_CHECKING:
    from optsched.model.rows import Rows, Tail
    from optsched.solver.recompute.result import RecomputeResult
    from optsched.solver.tiling.result import TilingResult


# A text is a sequence of texts for a type checker, but never several budgets.
@overload
def recompute(  # type: ignore[overload-overlap]
    graph: Graph,
    peak: int | str | SupportsIndex,
    *,
    cost: str | None = None,
    costs: Mapping[str, int] | None = None,
    loss: Iterable[str] = (),
    limits: Limits | None = None,
    **named: Unpack[LimitKeywords],
) -> RecomputeResult: ...


@overload
def recompute(
    graph: Graph,
    peak: Sequence[int | str],
    *,
    cost: str | None = None,
    costs: Mapping[str, int] | None = None,
    loss: Iterable[str] = (),
    limits: Limits | None = None,
    **named: Unpack[LimitKeywords],
) -> tuple[RecomputeResult, ...]: ...


@keywords
def recompute(
    graph: Graph,
    peak: int | str | SupportsIndex | Sequence[int | str],
    *,
    cost: str | None = None,
    costs: Mapping[str, int] | None = None,
    loss: Iterable[str] = (),
    limits: Limits | None = None,
    **named: Unpack[LimitKeywords],
) -> RecomputeResult | tuple[RecomputeResult, ...]:
    """Find the least extra compute with which a training graph fits a peak, and prove it.

    Forward ops may run again after the loss. In-place writing is not counted.

    Parameters
    ----------
    graph
        A training graph, such as :func:`from_fx` reads from a joint graph.
    peak
        Bytes such as `"8GiB"`, or several budgets, which share their work.
    cost
        `kernel`, `roofline`, `flops`, `bytes` or `given` (:mod:`optsched.formats.costs`); by
        default `kernel`, or the costs that the graph states in a unit of its own.
    costs
        Cost of each op by name, instead of `cost`.
    loss
        Ops that make the loss; found by the inputs named `tangents` by default.
    limits, named
        As for :func:`solve`.

    Returns
    -------
    RecomputeResult or tuple
        One per budget. The order of `result.sequence` may name an op more than once, and
        `result.unrolled.graph` is the ordinary graph of these runs.

    Raises
    ------
    UsageError
        If the graph has no loss, or an option makes no sense.

    Examples
    --------
    >>> from optsched import GraphBuilder, recompute
    >>> build = GraphBuilder("step", cost_unit="ms")
    >>> build.input("tangents_1", 0, "excluded")
    >>> build.op("a", writes={"x": 5}, cost=2)
    >>> build.op("b", reads=["x"], writes={"y": 1}, cost=3)
    >>> build.op("loss", reads=["y"], writes={"l": 6}, cost=1)
    >>> build.output("l")
    >>> build.op("back", reads=["x", "tangents_1"], writes={"g": 1})
    >>> build.output("g")
    >>> result = recompute(build.build(), peak=12)
    >>> result.status.value, result.extra, [repeat.op for repeat in result.repeats]
    ('optimal', 0, [])
    """
    from optsched.formats.costs import costs_of, with_costs
    from optsched.solver.recompute.front import recompute as plan

    expect("recompute", graph, Graph)
    # Both at once would leave open which one counts.
    if costs is not None and cost is not None:
        raise UsageError("give either cost= or costs=, not both")
    # A text is a sequence too, of letters.
    if isinstance(loss, str):
        raise UsageError(f"loss must be a list of op names: write [{loss!r}]")
    expect("loss", loss, Iterable)
    # An iterator would be used up by the test.
    loss = tuple(loss)
    for name in loss:
        expect("loss", name, str)
    several = isinstance(peak, Sequence) and not isinstance(peak, str | bytes)
    given: Sequence[Any] = cast(Sequence[Any], peak) if several else [peak]
    peaks = [parse_bytes(x) for x in given]
    priced = with_costs(graph, cost) if costs is None else costs_of(graph, costs, "given")
    found = plan(priced, peaks, loss=loss, limits=choose_limits(limits, named))
    return found if several else found[0]


@keywords
def tile(
    model: str | Path | Rows,
    *,
    capacity: int | str | None = None,
    extra: float | None = None,
    points: int | None = None,
    tail: str | Tail = "32",
    bands: int = 48,
    keep_whole: Sequence[str] = (),
    align_rows: int = 1,
    objective: str = "total",
    limits: Limits | Clock | None = None,
    **named: Unpack[LimitKeywords],
) -> TilingResult:
    """Run a model in row bands, so that it fits a smaller arena with equal results.

    Parameters
    ----------
    model
        Path of a `.tflite` file, or row maps.
    capacity
        Bytes of the arena, `131072` or `"128KiB"`: the cheapest plan within them is returned.
    extra
        Fraction of the model's multiplications that may be added: the smallest plan is returned
        (default, if no question is asked: 0.05).
    points
        Number of plans of the front, from the untiled one to the smallest.
    tail
        Bytes that TFLite Micro keeps beside the planned head, for pointers of `"32"` or `"64"`
        bits, or `"none"`; for row maps a :class:`optsched.model.rows.Tail`.
    bands
        Maximum number of bands of a stage.
    keep_whole
        Names of ops to run as they are.
    align_rows
        Number of bytes that divides the place of rows in their tensor, a power of two.
    objective
        `"total"` for head and tail, or `"head"`.
    limits, named
        As for :func:`optsched.solve`.

    Returns
    -------
    TilingResult
        Its `best` is the plan; `status`, `bound` and `front` tell what is proved.

    Raises
    ------
    UsageError
        If more than one question is asked, or no op is row-local.
    FormatError
        If the file is not a TFLite model, or is tiled already.

    Examples
    --------
    A convolution of 3 rows reads 8 rows of 32 bytes and writes 8 rows of 32 bytes. In bands, rows
    of the input make room for rows of the output.

    >>> from optsched import GraphBuilder, tile
    >>> from optsched.model.rows import RowMap, RowOp, RowRule, Rows
    >>> build = GraphBuilder("net", alignment=16)
    >>> build.input("x", 256)
    >>> build.op("conv", reads=["x"], writes={"y": 256})
    >>> build.output("y")
    >>> conv = RowOp(1, (RowMap(0, window=3, pad=1),), rule=RowRule.SAME, cost=10)
    >>> rows = Rows(build.build(), (conv,), heights=(8, 8), row_bytes=(32, 32))
    >>> result = tile(rows, extra=1.0, objective="head", time_limit=5)
    >>> result.untiled.head, result.best.head, result.status.value
    (512, 416, 'optimal')
    """
    from optsched.formats.tiling import read_tilable
    from optsched.model.rows import Rows, Tail
    from optsched.solver.tiling.solve import tile as search

    clock = Clock.of(choose_limits(limits, named))
    if not isinstance(model, str | Path | Rows):
        raise UsageError(f"tile(): model must be str | Path | Rows, got {model!r}")
    if isinstance(model, Rows):
        rows = model.keep_whole(keep_whole).aligned_to(align_rows)
        known = tail if isinstance(tail, Tail) else None
    else:
        read = read_tilable(model).restricted(keep_whole, align_rows)
        rows, known = read.rows, tail if isinstance(tail, Tail) else read.tail(tail)
    if capacity is None and extra is None and points is None:
        extra = 0.05
    return search(
        rows,
        capacity=None if capacity is None else parse_bytes(capacity),
        extra=extra,
        points=points,
        tail=known,
        bands=bands,
        objective=objective,
        limits=clock,
    )
