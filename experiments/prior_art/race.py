"""Time to proof of our search, CP-SAT and two MILPs on the same graphs, each with the same budget.

Each method climbs a ladder of graphs of one family, about twice as large at every step, until it
fails to prove a least peak within the budget. It runs in a process of its own, imported and
compiled before the clock starts, and is ended when it goes on well beyond its budget or its memory.
"""

from __future__ import annotations

import multiprocessing
import resource
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

from optsched.model.graph import Graph
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits
from tests.support.families.shapes import layered, series_parallel, unet
from tests.support.families.wiring import checkpointed, random_wiring, training

MEMORY = 6 * 2**30
"""Bytes that a process may take."""
RIVAL_THREADS = 2
"""Ours uses one."""
OVERDUE = "did not stop in time"
INDUCTOR = Path(__file__).parents[2] / "instances" / "inductor"
CAPTURED = (
    *("alexnet_bs128.infer", "alexnet_bs128.bwd", "vgg16_bs64.bwd", "unet_bs4.bwd"),
    *("resnet50_bs32.bwd", "gpt2_bs4_ac0.5.bwd", "debertav2_qa_bs1.bwd"),
    "mobilebert_qa_bs128_ac0.5.bwd",
)


def _captured(name: str) -> Graph:
    from optsched.formats import read_graph

    return read_graph(INDUCTOR / f"{name}.json.gz")


FAMILIES: Mapping[str, tuple[Callable[[], Graph], ...]] = {
    "training": tuple(partial(training, 2**k, 1) for k in range(1, 15)),
    "checkpointed training": tuple(partial(checkpointed, 2**k) for k in range(9)),
    "U-Net training": tuple(partial(unet, depth, train=True) for depth in (1, 2, 4, 8)),
    "layered": tuple(partial(layered, 2**k, 0) for k in range(1, 12)),
    "series-parallel": tuple(partial(series_parallel, 2**k, 0) for k in range(3, 15)),
    "random wiring, sizes 1": tuple(partial(random_wiring, 2**k, 0) for k in range(3, 9)),
    "random wiring, random sizes": tuple(
        partial(random_wiring, 2**k, 0, unit=False) for k in range(3, 9)
    ),
    "captured": tuple(partial(_captured, name) for name in CAPTURED),
}
"""Makers of graphs by family, the smallest first."""


@dataclass(frozen=True, slots=True)
class Claim:
    """Answer of a method: a peak in bytes, and True if it claims that this is the minimum."""

    peak: int | None
    proved: bool
    seconds: float | None = None
    """Seconds, if they are not those of the whole call."""


@dataclass(frozen=True, slots=True)
class Row:
    """A method on a graph; `why` says what became of it where it did not prove a peak."""

    family: str
    graph: str
    ops: int
    method: str
    peak: int | None
    seconds: float
    proved: bool
    why: str = ""


Method = Callable[[Graph, float], Claim]


def _best_order(graph: Graph) -> list[int]:
    from heuristics import ORDERINGS
    from optsched.model.liveness import peak_memory

    orders = [make(graph, 0) for make in ORDERINGS.values()]
    return [int(v) for v in min(orders, key=lambda order: peak_memory(graph, order))]


def _search(graph: Graph, seconds: float) -> Claim:
    from optsched.ordering import solve_order

    started = time.perf_counter()
    start = _best_order(graph)
    # The heuristics' time counts: the budget is that of the whole call, for every method.
    left = seconds - (time.perf_counter() - started)
    found = solve_order(graph, limits=Limits(max(0.1, left)), warm_start=start)
    return Claim(found.peak, found.proof is not None)


def _cpsat(graph: Graph, seconds: float) -> Claim:
    """Order by CP-SAT with a literal per op and step."""
    from experiments.prior_art.step_model import StepModel
    from optsched.joint.cpsat.point import ModelPoint
    from optsched.joint.cpsat.solver import EFFORT, SolverThread
    from optsched.joint.instance import graph_instance

    started = time.perf_counter()
    instance = graph_instance(graph)
    start = ModelPoint(instance, tuple(_best_order(graph)), (0,) * len(instance.items))
    variables = StepModel(instance)
    variables.model.minimize(variables.peak)
    # The same start as for our search, so that the race is about proofs and not about good orders.
    variables.add_hint(start)
    left = seconds - (time.perf_counter() - started)
    clock = Clock.of(Limits(max(0.1, left), RIVAL_THREADS))
    found = SolverThread(variables, lambda point: point.peak, clock, EFFORT).run(lambda _: None)
    # `peak` here is in units of the sizes' common divisor; exact, since all sizes are multiples.
    peak = (start if found.best is None else found.best).peak
    # The solver's own word "optimal" is not asked: a bound at the peak of a checked order is a
    # proof.
    return Claim(peak * instance.unit, peak <= (found.bound or 0))


def _milp(graph: Graph, seconds: float) -> Claim:
    from optsched.joint.milp import solve_order_milp

    found = solve_order_milp(graph, limits=Limits(seconds, RIVAL_THREADS))
    return Claim(found.value, found.optimal)


def _model(graph: Graph, seconds: float, solver: str) -> Claim:
    from experiments.prior_art.model_milp import MilpSolver, solve_model

    chosen = MilpSolver(solver)
    found = solve_model(graph, seconds=seconds, solver=chosen, workers=RIVAL_THREADS)
    return Claim(found.peak, found.finished)


METHODS: Mapping[str, Method] = {
    "our search": _search,
    "CP-SAT": _cpsat,
    "our MILP, HiGHS": _milp,
    "MODeL's MILP, HiGHS": partial(_model, solver="highs"),
    "MODeL's MILP, CBC": partial(_model, solver="cbc"),
}
"""Whoever takes part: a graph and seconds to a claim."""


class Runner:
    """A method in a process of its own, started on demand and again after it was ended."""

    def __init__(self, method: str) -> None:
        self.method = method
        self.process: BaseProcess | None = None
        self.pipe: Connection | None = None

    def start(self) -> Connection:
        """Return the way to the process, which is ready for its first graph."""
        if self.pipe is None:
            context = multiprocessing.get_context("spawn")
            self.pipe, theirs = context.Pipe()
            self.process = context.Process(target=_serve, args=(theirs, self.method), daemon=True)
            self.process.start()
            # Only the child holds this end now, so that a dead child shows as the end of the
            # stream.
            theirs.close()
            # "ready" comes after warm-up: imports and compilation stay out of the measured time.
            self.pipe.recv()
        return self.pipe

    def run(self, family: str, step: int, graph: Graph, seconds: float) -> Row:
        """Let the method solve a step of a ladder, whose graph is `graph`."""
        pipe = self.start()
        started = time.perf_counter()
        pipe.send((family, step, seconds))
        answer: object = OVERDUE
        # Solvers look at the clock now and then; a method that is a quarter late has lost anyway.
        if pipe.poll(1.25 * seconds + 5):
            try:
                answer = pipe.recv()
            except EOFError:
                answer = "died"
        took = time.perf_counter() - started
        head = (family, graph.name, len(graph.ops), self.method)
        if not isinstance(answer, tuple):
            # The child that refused for want of memory, or raised, is sound and takes the next
            # graph.
            if not isinstance(answer, str) or answer in {"died", OVERDUE}:
                self.stop()
            return Row(*head, None, took, False, str(answer))
        claim, took = answer
        # A proof after the budget is none, although the method had the patience of `poll`.
        proved = claim.proved and took <= seconds
        why = "" if proved else "stopped with a gap" if claim.peak is not None else "found nothing"
        return Row(*head, claim.peak, took, proved, why)

    def stop(self) -> None:
        """End the process."""
        if self.process is not None and self.pipe is not None:
            self.process.kill()
            self.process.join()
            self.pipe.close()
        self.process = self.pipe = None


def _serve(pipe: Connection, name: str) -> None:
    """Answer steps of ladders until the other side is gone."""
    # Of data, not of address space: compiled code and solvers reserve far more than they touch.
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    method = METHODS[name]
    # Three shapes of graph, so that every compiled kernel that a method calls exists before the
    # race.
    for graph in (random_wiring(24, 1), checkpointed(2), training(100, 0)):
        method(graph, 2.0)
    pipe.send("ready")
    while True:
        try:
            family, step, seconds = pipe.recv()
        except EOFError:
            return
        graph = FAMILIES[family][step]()
        started = time.perf_counter()
        try:
            claim = method(graph, seconds)
        except MemoryError:
            pipe.send(f"more than {MEMORY >> 30} GiB")
        except Exception as error:  # a rival may fail in any way: a row, not the end
            pipe.send(f"{type(error).__name__}: {error}")
        else:
            pipe.send((claim, time.perf_counter() - started))


def race(
    families: Mapping[str, tuple[Callable[[], Graph], ...]], methods: list[str], seconds: float
) -> Iterator[Row]:
    """Yield a row for every step of every ladder that a method came to."""
    for method in methods:
        runner = Runner(method)
        for family, makers in families.items():
            for step, make in enumerate(makers):
                row = runner.run(family, step, make(), seconds)
                yield row
                # The next graph is twice as large: a method that fails here would only use up the
                # time.
                if not row.proved:
                    break
        runner.stop()


def contradictions(rows: list[Row]) -> list[str]:
    """Graphs for which two methods prove different peaks, or one proves more than another found."""
    found = []
    for graph in dict.fromkeys(row.graph for row in rows):
        mine = [row for row in rows if row.graph == graph and row.peak is not None]
        proved = {row.peak for row in mine if row.proved}
        least = min((row.peak for row in mine if row.peak is not None), default=None)
        # A proved peak must be the least that anybody found, and there is only one least.
        if proved and proved != {least}:
            found.append(f"{graph}: {[(row.method, row.peak, row.proved) for row in mine]}")
    return found
