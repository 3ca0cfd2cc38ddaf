"""Answer whether a graph fits into a capacity, and at what price.

The measures are tried from the cheapest to the most expensive: the framework's own plan, another
order, repeats of forward ops. The first one that fits is the answer. The peak counts for training
steps and for frameworks that allocate each buffer; the slab counts for frameworks that plan one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import Any, SupportsIndex, Unpack

from optsched.compare.saving import held_with, names_in, stock_plan
from optsched.errors import UsageError, expect
from optsched.model.graph import Graph
from optsched.model.memory_model import plannable
from optsched.model.origin import ArenaTail
from optsched.model.training import find_loss
from optsched.runtime.bytes import parse_bytes
from optsched.runtime.clock import Clock
from optsched.runtime.keywords import keywords
from optsched.runtime.limits import LimitKeywords, Limits, Objective, choose_limits
from optsched.runtime.text import counted, percent
from optsched.solver.pipeline import solve
from optsched.solver.recompute.result import RecomputeResult
from optsched.solver.result import Result

ORDER_SHARE = 0.4
"""Share of the time for orders, if repeats can be tried after them."""


@dataclass(frozen=True, slots=True)
class Fit:
    """An answer with its reason in one line: `print(fit)`.

    Parameters
    ----------
    capacity
        Bytes that are allowed.
    fits
        True or False if that is certain; None if the time was too short to tell.
    way
        Measure that meets the capacity: `as it is`, `another order`, `repeats`; else empty.
    bytes
        Bytes of the best plan that is known.
    extra
        Extra compute of that plan, as a share of one run of each op.
    reason
        The answer in one line.
    result
        Result with the plan and the bound; None if the framework's own plan fits.

    Examples
    --------
    >>> from optsched import GraphBuilder, fits
    >>> build = GraphBuilder("one op")
    >>> build.op("op", writes={"x": 8})
    >>> build.output("x")
    >>> fit = fits(build.build(), "1KiB")
    >>> bool(fit), fit.way, fit.bytes
    (True, 'as it is', 8)
    """

    capacity: int
    fits: bool | None
    way: str
    bytes: int | None
    extra: float
    reason: str
    result: Result | RecomputeResult | None = None

    def __bool__(self) -> bool:
        return self.fits is True

    def __str__(self) -> str:
        return self.reason


@keywords
def fits(
    what: Any,
    batch: Any = None,
    capacity: int | str | SupportsIndex | None = None,
    loss: Any = None,
    *,
    limits: Limits | Clock | None = None,
    **named: Unpack[LimitKeywords],
) -> Fit:
    """Tell whether a graph, or a PyTorch training step, fits into a number of bytes.

    Parameters
    ----------
    what
        A :class:`Graph`, as in `fits(graph, "64KiB")`; or a `torch.nn.Module`, as in
        `fits(model, batch, "8GiB", loss)`.
    batch, loss
        As for :func:`capture_step`. For a graph `loss` may be a list of the ops that make the loss.
    capacity
        Bytes, such as `"8GiB"`: of the slab if the graph's framework plans one, else of the peak.
    limits, named
        As for :func:`solve`.

    Returns
    -------
    Fit
        The answer; `print` shows it in one line.

    Examples
    --------
    >>> from optsched import GraphBuilder, fits
    >>> build = GraphBuilder("pair")
    >>> build.op("small", writes={"a": 1}, workspace=8)
    >>> build.op("large", writes={"b": 4}, workspace=8)
    >>> build.op("join", reads=["a", "b"], writes={"y": 1})
    >>> build.output("y")
    >>> print(fits(build.build(), 13))
    yes, as it is: 13 bytes of 13
    >>> print(fits(build.build(), 12))
    no: no order of 'pair' needs less than 13 bytes (joint bound)
    """
    if isinstance(what, Graph | str | Path):
        # A path gets the hint to read the file first.
        graph = plannable(what, inplace=False)  # type: ignore[arg-type]
        # For a graph the second argument is the capacity.
        capacity, batch = (batch, None) if capacity is None else (capacity, batch)
        if batch is not None:
            raise UsageError("a graph has no batch: write fits(graph, capacity)")
        if isinstance(loss, str):
            raise UsageError(f"loss must be a list of op names: write [{loss!r}]")
        expect("loss", loss, Iterable, NoneType)
        ops = tuple(loss or ())
    else:
        from optsched.plugins.inductor.capture.step import capture_step

        graph, ops = capture_step(what, batch, loss), ()
    if capacity is None:
        raise UsageError("give a capacity, such as fits(model, batch, '8GiB')")
    return answer_fit(graph, parse_bytes(capacity), ops, Clock.of(choose_limits(limits, named)))


def answer_fit(graph: Graph, capacity: int, loss: tuple[str, ...], clock: Clock) -> Fit:
    """Return the answer for a graph; `loss` names its loss if no input is called tangents."""
    training = bool(loss) or _is_training(graph)
    if training:
        # As recompute counts.
        graph = graph.without_inplace()
    stock = stock_plan(graph)
    by_peak = training or (stock is not None and stock.slab is None)
    quantity = Objective.PEAK if by_peak else Objective.SLAB
    own = None if stock is None else stock.value(quantity)
    tail = None if by_peak else chosen_tail(graph)
    if own is not None and _in_array(own, tail) <= capacity:
        reason = f"yes, as it is: {_of(own, capacity, tail)}"
        return Fit(capacity, True, "as it is", _in_array(own, tail), 0.0, reason)
    share = ORDER_SHARE if training else 1.0
    found = solve(graph, objective=quantity, limits=clock.share(share))
    value = found.peak if by_peak else found.slab
    if stock is not None and stock.measured and found.plan is not None:
        held = held_with(graph, names_in(graph, found.plan.order))
        if isinstance(held, int) and held > capacity >= (value or 0):
            reason = f"not known: a plan of {value:,} bytes was measured to hold {held:,}"
            return Fit(capacity, None, "", held, 0.0, reason, found)
        # What the framework holds beside the plan, such as scratch of kernels, needs room.
        value = held if isinstance(held, int) else value
    if value is not None and _in_array(value, tail) <= capacity:
        before = "" if own is None else f" ({_in_array(own, tail):,} as it is)"
        reason = f"yes, in another order: {_of(value, capacity, tail)}{before}"
        return Fit(capacity, True, "another order", _in_array(value, tail), 0.0, reason, found)
    return (
        _with_repeats(graph, capacity, loss, clock)
        if training
        else _refused(capacity, found, quantity, tail)
    )


def _is_training(graph: Graph) -> bool:
    try:
        return bool(find_loss(graph))
    except UsageError:
        return False


def chosen_tail(graph: Graph, bits: str | None = None) -> ArenaTail | None:
    """Return what the graph's runtime keeps after the slab; None if that is nothing.

    `graph`: the graph, read from a file. `bits`: bits of a pointer: `"32"`, as on microcontrollers,
    `"64"`, or `"none"` for the slab alone.
    """
    tails = graph.origin.tails if graph.origin is not None else ()
    if bits == "none":
        return None
    return next((tail for tail in tails if 8 * tail.pointer == int(bits or "32")), None)


def _in_array(slab: int, tail: ArenaTail | None) -> int:
    return slab if tail is None else tail.needed(slab)


def _refused(
    capacity: int, found: Result, quantity: Objective, tail: ArenaTail | None = None
) -> Fit:
    assert found.graph is not None
    if quantity is Objective.PEAK:
        bound, best, proof = found.peak_bound, found.peak, found.peak_proof
    else:
        bound, best, proof = found.slab_bound, found.slab, found.slab_proof
    beside = 0 if tail is None else tail.tail
    best = None if best is None else _in_array(best, tail)
    if bound + beside > capacity:
        by = "" if proof is None else f" ({proof.words})"
        and_tail = "" if tail is None else f", and the tail {tail_text(tail)}"
        name = found.graph.name
        reason = f"no: no order of {name!r} needs less than {bound:,} bytes{by}{and_tail}"
        return Fit(capacity, False, "", best, 0.0, reason, found)
    bound += beside
    known = "no plan" if best is None else f"the best plan found needs {best:,} bytes"
    reason = f"not known: {known}, and at least {bound:,} are needed; give it more time"
    return Fit(capacity, None, "", best, 0.0, reason, found)


def _with_repeats(graph: Graph, capacity: int, loss: tuple[str, ...], clock: Clock) -> Fit:
    from optsched.formats.costs import with_costs
    from optsched.solver.recompute.front import recompute

    (found,) = recompute(with_costs(graph, None), [capacity], loss=loss, limits=clock)
    extra = found.extra_share
    if found.peak is not None and extra is not None:
        again = counted(sum(repeat.count for repeat in found.repeats), "repeat")
        reason = f"yes, with {percent(extra, 2)} more compute: {_of(found.peak, capacity)}, {again}"
        return Fit(capacity, True, "repeats", found.peak, extra, reason, found)
    if found.bound is None:
        names = ", ".join(map(repr, found.loss))
        reason = f"no: no order and no repeats of forward ops help; {found.blocker}"
        reason += f"; forward ops are those of loss {names}"
        return Fit(capacity, False, "", None, 0.0, reason, found)
    reason = f"not known: no order and no repeats within {capacity:,} bytes were found in time"
    return Fit(capacity, None, "", None, 0.0, reason, found)


def tail_text(tail: ArenaTail) -> str:
    """Return the bytes of a tail, and what they are for."""
    return f"{tail.tail:,} with pointers of {tail.pointer} bytes"


def _of(value: int, capacity: int, tail: ArenaTail | None = None) -> str:
    text = f"{_in_array(value, tail):,} bytes of {capacity:,}"
    return text if tail is None else f"{text}, the tail {tail_text(tail)}"
