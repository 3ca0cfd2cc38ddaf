"""Integer and constraint programs of the literature beside the planner, in one run.

    python -m experiments.recompute.rivals FOLDER [NETWORK ..] [--seconds S] [--parts P ..]

FOLDER holds what `experiments.recompute.graphs` wrote. Each line has a peak, as a part of the least
peak without repeats, and for each method the extra compute and its bound in % of a step:

- torch: the cheapest split that PyTorch's partitioner makes within the peak at eight budgets;
- checkmate: the integer program of Checkmate (Jain et al., 2020) in HiGHS, for the order of least
  peak. Stage t computes node t for the first time; a node is computed or kept in each stage, and
  what is kept is freed after its last use in a stage. Its bound holds for this order only;
- moccasin: the constraint program of Moccasin (Bartan et al., 2023) in CP-SAT with free order: each
  node has an optional second run, and copies are intervals under a cumulative constraint;
- optsched: the planner; its bound holds for all orders and any number of repeats.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from optsched.check.runs import check_runs
from optsched.errors import PlanError
from optsched.formats import read_graph
from optsched.formats.costs import with_costs
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits
from optsched.solver.recompute.problem import RecomputeProblem
from optsched.solver.recompute.solve import Planner

Answer = tuple[int | None, int | None]
"""Extra cost and bound; None if nothing was found."""
UNIT = 1024
"""Bytes of CP-SAT's unit of memory."""


class Checkmate:
    """Columns and rows of Checkmate's program for one order of the nodes."""

    def __init__(self, problem: RecomputeProblem, order: tuple[int, ...], peak: int) -> None:
        self.problem, self.order, self.peak = problem, order, peak
        self.costs: list[float] = []
        self.whole: list[int] = []
        self.rows: list[tuple[float, dict[int, float]]] = []
        self.run: dict[tuple[int, int], int | None] = {}
        self.keep: dict[tuple[int, int], int | None] = {}
        position = {v: t for t, v in enumerate(order)}
        # An input is made before the first stage.
        self.made = [(position.get(s.maker, -1), s) for s in problem.storages]
        self.readers = [sorted(position[w] for w in s.readers) for s in problem.storages]
        self._make()

    def _column(self, cost: float = 0.0, *, whole: bool = False) -> int:
        self.costs.append(cost)
        if whole:
            self.whole.append(len(self.costs) - 1)
        return len(self.costs) - 1

    def _at_least(self, bound: float, terms: dict[int, float]) -> None:
        self.rows.append((bound, terms))

    def _runs(self, t: int, i: int) -> int | None:
        """Return the column of node i in stage t; None if it never runs there."""
        # Only ops that may run again have columns in later stages.
        if i < 0 or i > t or (i < t and self.order[i] not in self.problem.again):
            return None
        if (t, i) not in self.run:
            # The first run costs nothing extra: every plan has it.
            cost = 0.0 if i == t else float(self.problem.cost[self.order[i]])
            self.run[t, i] = self._column(cost, whole=True)
        return self.run[t, i]

    def _keeps(self, t: int, s: int) -> int | None:
        """Return the column of storage s kept from stage t - 1 into stage t."""
        # What is made in stage t or later cannot be kept from before it.
        if t > len(self.order) - 1 or self.made[s][0] >= t:
            return None
        if (t, s) not in self.keep:
            self.keep[t, s] = self._column(whole=True)
        return self.keep[t, s]

    def _make(self) -> None:
        stages = range(len(self.order))
        for t in stages:
            own = self._runs(t, t)
            assert own is not None
            # Node t runs in its own stage.
            self._at_least(1.0, {own: 1.0})
            for s, (maker, storage) in enumerate(self.made):
                kept, made = self._keeps(t, s), self._runs(t, maker)
                if kept is not None:
                    before = (self._keeps(t - 1, s), self._runs(t - 1, maker)) if t else ()
                    found = [x for x in before if x is not None]
                    if t:
                        # Kept from the stage before only if it was kept or made there.
                        self._at_least(0.0, {kept: -1.0, **dict.fromkeys(found, 1.0)})
                    if storage.kept:
                        # Results stay to the end.
                        self._at_least(1.0, {kept: 1.0})
                for j in self.readers[s]:
                    reader = self._runs(t, j)
                    if reader is not None:
                        found = [x for x in (kept, made) if x is not None and maker < j]
                        # A run needs each of its operands, kept or made earlier in this stage.
                        self._at_least(0.0, {reader: -1.0, **dict.fromkeys(found, 1.0)})
            self._fit(t)

    def _fit(self, t: int) -> None:
        """Bound the bytes during each run of a stage: kept or made, and needed later."""
        ran = [k for k in range(t + 1) if self._runs(t, k) is not None]
        rows: dict[int, dict[int, float]] = {k: {} for k in ran}
        for s, (maker, storage) in enumerate(self.made):
            for k in ran:
                column = self._live(t, s, maker, k)
                if column is not None:
                    # Scaled to megabytes, as HiGHS works with floating-point tolerances.
                    rows[k][column] = rows[k].get(column, 0.0) - storage.size / 1e6
        for row in rows.values():
            self._at_least((self.problem.fixed - self.peak) / 1e6, row)

    def _live(self, t: int, s: int, maker: int, k: int) -> int | None:
        """Return the column that says if a storage is live while node k runs in stage t."""
        kept, made = self._keeps(t, s), self._runs(t, maker)
        # Before it is made in this stage, only a kept copy is live.
        if k < maker or (kept is None and made is None):
            return kept
        later = [self._runs(t, j) for j in self.readers[s] if k <= j <= t]
        later += [self._keeps(t + 1, s), made if k == maker else None]
        # A result is needed after the last stage too.
        if self.made[s][1].kept and t == len(self.order) - 1:
            later.append(self._runs(t, t))
        found = [x for x in later if x is not None]
        column = self._column() if found else None
        for x in found:
            assert column is not None
            # Live if anything that needs it happens later: an OR of columns.
            self._at_least(0.0, {column: 1.0, x: -1.0})
        return column

    def solve(self, seconds: float) -> Answer:
        """Return the cost that HiGHS finds in some seconds, and its bound."""
        import highspy

        highs = highspy.Highs()
        for name, value in (("output_flag", False), ("threads", 1), ("time_limit", seconds)):
            highs.setOptionValue(name, value)
        # Costs near 1,000 at most, for the solver's tolerances.
        scale = max([1.0, *self.costs]) / 1000
        count = len(self.costs)
        empty: Any = np.zeros(0)
        highs.addCols(
            count,
            np.array(self.costs) / scale,
            np.zeros(count),
            np.ones(count),
            0,
            np.zeros(count),
            empty,
            empty,
        )
        listed = np.array(self.whole, np.int32)
        kind = np.full(len(listed), highspy.HighsVarType.kInteger)
        highs.changeColsIntegrality(len(listed), listed, kind)
        starts = np.cumsum([0, *(len(terms) for _, terms in self.rows[:-1])])
        highs.addRows(
            len(self.rows),
            np.array([bound for bound, _ in self.rows]),
            np.full(len(self.rows), highspy.kHighsInf),
            sum(len(terms) for _, terms in self.rows),
            starts.astype(np.int32),
            np.array([c for _, terms in self.rows for c in terms], np.int32),
            np.array([x for _, terms in self.rows for x in terms.values()], float),
        )
        highs.run()
        info = highs.getInfo()
        # 1e19 is HiGHS' infinity: no solution was found.
        found = highs.getSolution().value_valid and info.objective_function_value < 1e19
        cost = round(info.objective_function_value * scale) if found else None
        # Rounded down: a bound must not exceed the true one.
        return cost, max(0, int(info.mip_dual_bound * scale)) if info.mip_dual_bound > 0 else 0


def checkmate(planner: Planner, peak: int, seconds: float) -> Answer:
    start = time.process_time()
    program = Checkmate(planner.problem, planner.base.nodes, peak)
    return program.solve(max(1.0, seconds - (time.process_time() - start)))


class Moccasin:
    """Moccasin's program: intervals of copies, two for a node that may run again."""

    def __init__(self, problem: RecomputeProblem, peak: int) -> None:
        from ortools.sat.python import cp_model

        self.problem, self.model, self.again = problem, cp_model.CpModel(), {*problem.again}
        # Each run takes a step of its own.
        self.end = len(problem.ops) + len(self.again)
        self.runs: dict[tuple[int, int], tuple[Any, Any]] = {}
        self.ends: dict[tuple[int, int], Any] = {}
        self.intervals: list[Any] = []
        self.sizes: list[int] = []
        for v in range(len(problem.ops)):
            for copy in range(self._copies(v)):
                self._run(v, copy)
        for s, storage in enumerate(problem.storages):
            if storage.maker < 0:
                self._store(s, 0, 0, self.model.new_constant(1))
        for (v, _), (at, present) in self.runs.items():
            self._read(v, at, present)
        steps = [
            self.model.new_optional_fixed_size_interval_var(at, 1, present, "")
            for at, present in self.runs.values()
        ]
        # One op at a time.
        self.model.add_no_overlap(steps)
        room = (peak - problem.fixed) // UNIT
        # Rounded down, so that a plan within the budget in units is within it in bytes.
        self.model.add_cumulative(self.intervals, self.sizes, room)
        cost = sum(problem.cost[v] * self.runs[v, 1][1] for v in problem.again)
        self.model.minimize(cost)

    def _copies(self, v: int) -> int:
        return 2 if v in self.again else 1

    def _run(self, v: int, copy: int) -> None:
        at = self.model.new_int_var(0, self.end - 1, "")
        present = self.model.new_bool_var("") if copy else self.model.new_constant(1)
        self.runs[v, copy] = (at, present)
        # The second run comes after the first.
        if copy:
            self.model.add(at > self.runs[v, 0][0]).only_enforce_if(present)
        for s in self.problem.makes[v]:
            self._store(s, copy, at, present)

    def _store(self, s: int, copy: int, at: Any, present: Any) -> None:
        """Add the interval of a copy of a storage."""
        storage, model = self.problem.storages[s], self.model
        until, length = model.new_int_var(0, self.end, ""), model.new_int_var(0, self.end, "")
        # An input is there before the first step, and may have no length.
        if storage.maker >= 0:
            model.add(length >= 1).only_enforce_if(present)
        self.ends[s, copy] = until
        self.intervals.append(model.new_optional_interval_var(at, length, until, present, ""))
        # Rounded up, for the same reason.
        self.sizes.append(-(-storage.size // UNIT))
        if storage.kept and not copy:
            model.add(until == self.end)

    def _read(self, v: int, at: Any, present: Any) -> None:
        """Give each run a copy of each storage that it reads."""
        model, storages = self.model, self.problem.storages
        for s in self.problem.reads[v]:
            if storages[s].maker < 0:
                model.add(self.ends[s, 0] >= at + 1).only_enforce_if(present)
        for u in self.problem.preds[v]:
            read = [s for s in self.problem.reads[v] if storages[s].maker == u]
            if not read:
                model.add(at > self.runs[u, 0][0]).only_enforce_if(present)
                continue
            # A reader takes the first or the second copy, whose interval must last until then.
            taken = [model.new_bool_var("") for _ in range(self._copies(u))]
            for copy, chosen in enumerate(taken):
                model.add_implication(chosen, self.runs[u, copy][1])
                model.add(at > self.runs[u, copy][0]).only_enforce_if(chosen)
                for s in read:
                    model.add(self.ends[s, copy] >= at + 1).only_enforce_if(chosen)
            model.add_bool_or(taken).only_enforce_if(present)

    def solve(self, seconds: float) -> Answer:
        """Return the cost that CP-SAT finds in some seconds, and its bound."""
        from ortools.sat.python import cp_model

        solver = cp_model.CpSolver()
        solver.parameters.max_time_in_seconds = seconds
        solver.parameters.num_workers = 1
        status = solver.solve(self.model)
        found = status in (cp_model.OPTIMAL, cp_model.FEASIBLE)
        return round(solver.objective_value) if found else None, int(solver.best_objective_bound)


def moccasin(planner: Planner, peak: int, seconds: float) -> Answer:
    return Moccasin(planner.problem, peak).solve(seconds)


def study(folder: Path, name: str, parts: list[float], seconds: float) -> None:
    """Print the lines of one network."""
    graph = with_costs(read_graph(folder / f"{name}.json.gz"), "roofline")
    planner = Planner(graph)
    least = planner.find_base(Clock.of(Limits(seconds=10))).peak
    theirs = []
    for names in json.loads((folder / f"{name}.torch.json").read_text()).values():
        try:
            theirs.append(check_runs(planner.problem.graph, [graph.op_ids[x] for x in names]))
        except (PlanError, KeyError):
            # A split with ops that the graph does not have cannot be compared.
            continue
    share = 100 / max(1, planner.problem.total)
    for part in parts:
        peak, row = int(part * least), []
        fits = [x.extra for x in theirs if x.peak <= peak]
        answers: dict[str, tuple[Answer, float]] = {"torch": ((min(fits, default=None), None), 0.0)}
        # Processor time, as other processes run on the machine.
        for method in (checkmate, moccasin):
            start = time.process_time()
            answer = method(planner, peak, seconds)
            answers[method.__name__] = (answer, time.process_time() - start)
        start = time.process_time()
        result = planner.plan(peak, Clock.of(Limits(seconds=seconds)))
        answers["optsched"] = ((result.extra, result.bound), time.process_time() - start)
        for method_name, ((cost, bound), spent) in answers.items():
            shown = ["-" if x is None else f"{share * x:.2f}" for x in (cost, bound)]
            row.append(f"{method_name} {shown[0]} (bound {shown[1]}) {spent:.0f} s")
        print(f"{name} {part} P0 {peak / 1e6:.1f} MB: {'; '.join(row)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("networks", nargs="*", default=["unet", "moe", "gpt4l", "resnet18"])
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--parts", type=float, nargs="+", default=[0.7, 0.5])
    args = parser.parse_args()
    for name in args.networks:
        study(args.folder, name, args.parts, args.seconds)


if __name__ == "__main__":
    main()
