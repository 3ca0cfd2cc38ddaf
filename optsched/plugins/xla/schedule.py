"""The callback that XLA asks once a module is scheduled: another schedule, or None.

This module imports jaxlib at its top: import it inside the function that needs it.
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any

from jaxlib import _hlo

from heuristics import OWN_ORDERINGS
from optsched.errors import OptschedError
from optsched.formats.format import Source
from optsched.formats.hlo.read import read_hlo
from optsched.formats.hlo.shapes import leaves, map_leaves
from optsched.formats.hlo.text import HloModule, parse_module
from optsched.model.graph import Graph
from optsched.plugins.records import CompiledGraph, remember
from optsched.plugins.xla.assignment import Assignment
from optsched.plugins.xla.values import ModuleValues, put
from optsched.runtime.limits import Limits, Objective
from optsched.solver.pipeline import solve

_LOG = logging.getLogger("optsched.plugins.xla")
_NUMBERS = itertools.count(1)
_STACKS = threading.Lock()
STACK_BYTES = 1 << 26
"""XLA asks in threads with 2 MB of stack; a kernel that is compiled there may need more, and would
then end the process."""


class KeptScheduleError(OptschedError):
    """Says why a module keeps XLA's schedule, although nothing went wrong."""


@dataclass(frozen=True, slots=True)
class WeighedOrder:
    """An order of a module's ops, and the bytes that XLA will allocate for it."""

    source: str
    order: Sequence[int]
    allocated: int


@dataclass(frozen=True)
class Scheduler:
    """Called with each module, serialized; never fails.

    Parameters
    ----------
    time_limit, modules, min_bytes
        As in :func:`optsched.plugins.xla.enabled`.
    """

    time_limit: float
    modules: tuple[str, ...]
    min_bytes: int
    name: str = field(default_factory=lambda: f"optsched_{next(_NUMBERS)}")

    def __call__(self, serialized: bytes) -> bytes | None:
        """Return the module with our schedule, or None if XLA's is to stay."""
        found: list[bytes | None] = []
        thread = threading.Thread(target=lambda: found.append(self._answer(serialized)))
        with _STACKS:
            before = threading.stack_size(STACK_BYTES)
            try:
                thread.start()
            except RuntimeError as error:
                _LOG.warning("XLA's schedule is kept: %r", error)
                return None
            finally:
                threading.stack_size(before)
        thread.join()
        return found[0] if found else None

    def _answer(self, serialized: bytes) -> bytes | None:
        begun = time.perf_counter()
        name = "module"
        try:
            module = _hlo.HloModule.from_serialized_hlo_module_proto(serialized)
            name = module.name
            if not any(fnmatchcase(name, pattern) for pattern in self.modules):
                return None
            return self._reschedule(module, begun)
        except KeptScheduleError as error:
            _LOG.info("%s: XLA's schedule is kept: %s", name, error)
            remember(CompiledGraph("xla", name, 0, reason=str(error)))
        except Exception as error:
            _LOG.warning("%s: XLA's schedule is kept: %r", name, error)
            remember(CompiledGraph("xla", name, 0, reason=repr(error)))
        return None

    def _reschedule(self, module: Any, begun: float) -> bytes | None:
        text = module.to_string()
        parsed = parse_module(text)
        graph = read_hlo(Source(_without_donation(text).encode(), module.name))
        values = ModuleValues(parsed)

        def weigh(order: Sequence[int]) -> int:
            return Assignment(values, _sequence(parsed, graph, order)).allocated

        listed = list(parsed.computations[parsed.entry].instructions)
        own = WeighedOrder("XLA's own", (), Assignment(values, listed).allocated)
        if not self.time_limit:
            raise KeptScheduleError("there is no time to find another")
        if own.allocated < self.min_bytes:
            raise KeptScheduleError(f"it allocates {own.allocated} bytes only")
        best, bound, solver_seconds = self._choose(graph, own, weigh)
        donated = _donated_bytes(parsed)
        before = own.allocated - donated
        gains = best.allocated < before
        is_less = best.allocated < own.allocated
        kept = "donation saves more" if is_less else "no order known needs less"
        record = CompiledGraph(
            "xla",
            module.name,
            len(graph.ops),
            before=before,
            after=best.allocated if gains else before,
            bound=bound if bound <= best.allocated and not donated else None,
            proof="bound of the in-place graph" if gains and bound == best.allocated else "",
            order=best.source if gains else "",
            reason="" if gains else kept,
            seconds=time.perf_counter() - begun,
            solver_seconds=solver_seconds,
        )
        remember(record)
        if not gains:
            return None
        _set_schedule(module, parsed.entry, _sequence(parsed, graph, best.order))
        result: bytes = module.as_serialized_hlo_module_proto()
        return result

    def _choose(
        self, graph: Graph, own: WeighedOrder, weigh: Callable[[Sequence[int]], int]
    ) -> tuple[WeighedOrder, int, float]:
        """Return the best of all orders there are, a bound, and the seconds that solving took."""
        best, bound = own, 0
        for source, order in self._heuristic_orders(graph):
            best = _better(weigh, best, source, order)
        begun = time.perf_counter()
        # Results may lie where temporaries were: it is not known which graph says more.
        models = {"in-place": graph.with_inplace(), "all": graph, "temporaries": _uncounted(graph)}
        for number, (name, model) in enumerate(models.items()):
            left = self.time_limit - (time.perf_counter() - begun)
            if left <= 0:
                break
            limits = Limits(seconds=left / (len(models) - number))
            found = solve(model, objective=Objective.PEAK, limits=limits)
            bound = found.peak_bound if name == "in-place" else bound
            if found.plan is not None:
                best = _better(weigh, best, f"optimum ({name})", found.plan.order)
        return best, bound, time.perf_counter() - begun

    def _heuristic_orders(self, graph: Graph) -> Iterator[tuple[str, Sequence[int]]]:
        for name, ordering in OWN_ORDERINGS.items():
            yield name, ordering(graph, 0).tolist()


def _better(
    weigh: Callable[[Sequence[int]], int], best: WeighedOrder, source: str, order: Sequence[int]
) -> WeighedOrder:
    allocated = weigh(order)
    return WeighedOrder(source, order, allocated) if allocated < best.allocated else best


def _uncounted(graph: Graph) -> Graph:
    """Return the graph in which what is returned has no bytes."""
    returned = {graph.roots[b] for b, buffer in enumerate(graph.buffers) if buffer.output}
    return replace(
        graph,
        buffers=tuple(
            replace(buffer, size=0) if b in returned else buffer
            for b, buffer in enumerate(graph.buffers)
        ),
    )


def _without_donation(text: str) -> str:
    """Return the text of a module as it is compiled where an order is handed back."""
    head, _, rest = text.partition("\n")
    return f"{head.replace('input_output_alias=', 'no_alias=')}\n{rest}"


def _donated_bytes(parsed: HloModule) -> int:
    """Return the bytes of results that take the place of donated arguments, if nothing is done."""
    total = 0
    for made in parsed.computations[parsed.entry].instructions.values():
        if made.opcode == "parameter":
            paths = leaves(map_leaves(made.shape, "", lambda path, _: path))
            for path, shape in zip(paths, leaves(made.shape), strict=True):
                place = tuple(int(x) for x in (path or "").strip("{}").split(",") if x)
                donated = (int(made.literal), place) in parsed.donated
                total += shape.size if donated else 0
    return total


def _sequence(parsed: HloModule, graph: Graph, order: Sequence[int]) -> list[str]:
    """Return all instructions of the entry: the ops in this order, all else as soon as it can.

    What owns nothing, such as a bitcast, stands before the first op that needs it.
    """
    instructions = parsed.computations[parsed.entry].instructions
    first = [x.name for x in instructions.values() if x.opcode in ("parameter", "constant")]
    sequence: dict[str, None] = {}
    for name in (*first, *(graph.ops[v].name for v in order), *instructions):
        put(name, instructions, sequence)
    return list(sequence)


def _set_schedule(module: Any, entry_name: str, sequence: Sequence[str]) -> None:
    """Give the entry computation this sequence of instructions."""
    schedule = module.schedule()
    entry = next(x for x in module.computations() if x.name == entry_name)
    by_name = {x.name: x for x in entry.instructions()}
    schedule.set_sequence(entry, [by_name[name] for name in sequence])
    schedule.verify()
    module.set_schedule(schedule)
