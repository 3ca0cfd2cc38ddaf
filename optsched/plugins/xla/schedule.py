"""The callback that XLA asks once a module is scheduled: another schedule, or None.

Example: XLA passes a module with the schedule other, big, sum, join. The hook returns the module
with the schedule big, sum, other, join, or None if an error occurs or the gain is too small.

This module imports jaxlib at its top: import it inside the function that needs it.
"""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any

from jaxlib import _hlo

from heuristics import OWN_ORDERINGS
from optsched.formats.hlo.allocation.walks import walk
from optsched.plugins.gain import MinGain, kept_reason, worth_it
from optsched.plugins.records import CompiledGraph, remember
from optsched.plugins.xla.cache import CachedRecords, layout_of
from optsched.plugins.xla.inside import HEURISTICS, improve_inside
from optsched.plugins.xla.orders import (
    KeptScheduleError,
    ModuleOrders,
    WeighedOrder,
    require_time,
    uncounted,
)
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits, Objective
from optsched.runtime.text import counted
from optsched.solver.pipeline import solve

_LOG = logging.getLogger("optsched.plugins.xla")
_NUMBERS = itertools.count(1)
_STACKS = threading.Lock()
STACK_BYTES = 1 << 26
"""XLA asks in threads with 2 MB of stack; a kernel that is compiled there may need more, and would
then end the process."""


INSIDE_SHARE = 0.3
"""Share of the time for orders inside the computations that a module calls."""
HEURISTICS_SHARE = 0.4
"""Share of the time, after a module is read, in which heuristics may start."""
GRACE_SECONDS = 0.5
"""Seconds after the time limit for a step that does not check the clock."""


@dataclass
class _Answer:
    """The decision for one module, which must be made by the time limit."""

    clock: Clock
    kept: CachedRecords | None
    module: str = "module"
    layout: str = ""
    schedule: bytes | None = None
    is_given: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)

    def give(self, record: CompiledGraph, schedule: bytes | None = None) -> None:
        """Make the decision; only the first one counts."""
        with self.lock:
            if not self.is_given:
                # An answer after the deadline is ignored: XLA has its own schedule by then.
                self.is_given, self.schedule = True, schedule
                record = replace(record, seconds=self.clock.seconds())
                remember(record)
                if self.kept is not None:
                    self.kept.add(self.layout, record)

    def check(self) -> None:
        """Raise an error after the decision: nobody waits for the rest of the work."""
        if self.is_given:
            raise KeptScheduleError("the time limit was over")

    def keep(self, reason: str, *, failed: bool = False) -> None:
        """Decide for XLA's own schedule."""
        if not self.is_given:
            level = logging.WARNING if failed else logging.INFO
            _LOG.log(level, "%s: XLA's schedule is kept: %s", self.module, reason)
        self.give(CompiledGraph("xla", self.module, 0, reason=reason))


@dataclass(frozen=True)
class Scheduler:
    """The hook that XLA calls with each serialized module; it never raises."""

    time_limit: float
    modules: tuple[str, ...]
    min_bytes: int
    min_gain: MinGain
    """`time_limit`, `modules`, `min_bytes` and `min_gain`: as in
    :func:`optsched.plugins.xla.enabled`."""
    kept: CachedRecords | None = None
    """Records of the plans in jax's cache of modules, if there is one."""
    # A number per context, as XLA identifies hooks by name.
    name: str = field(default_factory=lambda: f"optsched_{next(_NUMBERS)}")

    def __call__(self, serialized: bytes) -> bytes | None:
        """Return the module with our schedule, or None for XLA's own."""
        answer = _Answer(Clock(Limits(seconds=self.time_limit)), self.kept)
        # In a thread, as XLA waits for the answer: the deadline holds even if a step does not end.
        thread = threading.Thread(target=lambda: self._answer(serialized, answer))
        with _STACKS:
            # The stack size is a setting of the process, so two modules must not set it at the same
            # time.
            before = threading.stack_size(STACK_BYTES)
            try:
                thread.start()
            except RuntimeError as error:
                answer.keep(repr(error), failed=True)
                return None
            finally:
                threading.stack_size(before)
        grace = GRACE_SECONDS + 0.1 * self.time_limit
        # The clock does not count the compilation of kernels, so the time left may grow.
        thread.join(self.time_limit + grace)
        while thread.is_alive() and answer.clock.left():
            thread.join((answer.clock.left() or 0.0) + grace)
        if thread.is_alive():
            answer.keep(f"nothing was found in the time limit of {self.time_limit:g} s")
        return answer.schedule

    def _answer(self, serialized: bytes, answer: _Answer) -> None:
        try:
            module = _hlo.HloModule.from_serialized_hlo_module_proto(serialized)
            answer.module = module.name
            # Other modules are not even parsed.
            if any(fnmatchcase(module.name, pattern) for pattern in self.modules):
                self._reschedule(module, answer)
        except KeptScheduleError as error:
            answer.keep(str(error))
        except Exception as error:
            answer.keep(repr(error), failed=True)

    def _reschedule(self, module: Any, answer: _Answer) -> None:
        if not self.time_limit:
            raise KeptScheduleError("the time limit is 0")
        clock = answer.clock
        text = module.to_string()
        answer.layout = layout_of(text)
        orders = ModuleOrders(text, clock, answer.check)
        before = orders.before
        if before < self.min_bytes:
            raise KeptScheduleError(f"it allocates {before} bytes only")
        best, bound, solver_seconds = self._choose(orders, clock)
        gains = worth_it(before, best.allocated, self.min_gain)
        known = 0 < bound <= best.allocated and not orders.donates
        met = bound == best.allocated
        record = CompiledGraph(
            "xla",
            module.name,
            len(orders.graph.ops),
            before=before,
            after=best.allocated if gains else before,
            bound=bound if known else None,
            # Met in the in-place graph, which XLA's own sharing may still beat: not a proof about
            # XLA.
            proof="bound of the in-place graph" if gains and known and met else "",
            # XLA's own order has another source name, so an order is named only where it replaces
            # that.
            order=_source(best) if gains else "",
            reason="" if gains else kept_reason(before, best.allocated, self.min_gain),
            solver_seconds=solver_seconds,
        )
        if gains:
            sequences = {**best.inside, orders.parsed.entry: best.sequence}
            for computation, sequence in sequences.items():
                _set_schedule(module, computation, sequence)
        answer.give(record, module.as_serialized_hlo_module_proto() if gains else None)

    def _choose(self, orders: ModuleOrders, clock: Clock) -> tuple[WeighedOrder, int, float]:
        """Return the best of all orders there are, a bound, and the seconds that solving took."""
        # One order is weighed after the last limit, and one written back.
        reserve = 2 * orders.seconds
        tried = clock.share(HEURISTICS_SHARE, reserve)
        require_time(tried)
        best, bound = orders.own(), 0
        calls = len(walk(orders.parsed, orders.parsed.entry)) > 1
        if calls:
            best = improve_inside(orders, best, clock.share(INSIDE_SHARE, reserve))
        # The best ones first, each once.
        for name in dict.fromkeys((*HEURISTICS, *OWN_ORDERINGS)):
            if tried.expired():
                break
            best = orders.better(best, name, OWN_ORDERINGS[name](orders.graph, 0).tolist())
        begun = clock.seconds()
        # Results may lie where temporaries were: it is not known which graph says more.
        graph = orders.graph
        models = {"in-place": graph.with_inplace(), "all": graph, "temporaries": uncounted(graph)}
        for number, (name, model) in enumerate(models.items()):
            # Equal shares of the rest: a third of it, then half, then all.
            part = clock.share(1 / (len(models) - number), reserve)
            if part.expired():
                break
            found = solve(model, objective=Objective.PEAK, limits=part)
            # With other orders inside, a loop may need fewer bytes than the bound has for it.
            bound = found.peak_bound if name == "in-place" and not calls else bound
            if found.plan is not None:
                best = orders.better(best, f"optimum ({name})", found.plan.order)
        return best, bound, clock.seconds() - begun


def _source(best: WeighedOrder) -> str:
    """Return the source of the entry's order, and the number of computations ordered inside."""
    if not best.inside or best.source == "orders inside":
        return best.source
    return f"{best.source}, orders inside of {counted(len(best.inside), 'computation')}"


def _set_schedule(module: Any, name: str, sequence: Sequence[str]) -> None:
    """Give a computation this sequence of instructions."""
    schedule = module.schedule()
    computation = next(x for x in module.computations() if x.name == name)
    by_name = {x.name: x for x in computation.instructions()}
    schedule.set_sequence(computation, [by_name[name] for name in sequence])
    # Verified here, where an error still means that XLA keeps its own schedule.
    schedule.verify()
    module.set_schedule(schedule)
