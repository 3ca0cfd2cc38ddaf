"""The program of a plan, read and executed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from optsched.formats import write_graph, write_plan
from optsched.formats.export import export_plan
from optsched.model.graph import Graph
from optsched.runtime.limits import Limits
from optsched.solver.pipeline import solve
from tests.check.test_plan import diamond
from tests.support.commands import Cli
from tests.support.generators import FEATURES, random_graph


class Machine:
    """Runs a program on real bytes: each op writes its number into what it makes."""

    def __init__(self, graph: Graph) -> None:
        self.graph, self.released = graph, 0
        self.names: dict[str, object] = {
            "allocate_slab": lambda size: np.zeros(size, np.int32),
            "release_slab": self.release,
            "run": self.run,
        }

    def release(self, slab: object) -> None:
        self.released += 1

    def run(self, name: str) -> None:
        """Check the slice of every buffer that the op uses, and the bytes written there."""
        tensors = self.names["tensors"]
        assert isinstance(tensors, dict)
        graph, v = self.graph, self.graph.op_ids[name]
        for b in (*graph.ops[v].reads, *graph.ops[v].uses):
            root = graph.roots[b]
            if graph.buffers[root].external or not graph.buffers[root].size:
                continue
            marks = tensors[graph.buffers[b].name]
            assert len(marks) == graph.buffers[root].size
            maker = graph.producers[root]
            assert (marks == (0 if maker is None else root + 1)).all()
        for b in graph.ops[v].writes:
            if graph.roots[b] == b and graph.buffers[b].name in tensors:
                tensors[graph.buffers[b].name][:] = b + 1


def test_the_program_of_a_plan(tmp_path: Path, cli: Cli) -> None:
    write_graph(diamond(), tmp_path / "g.json")
    write_plan(solve(diamond()), tmp_path / "p.json")
    arguments = ["export", str(tmp_path / "p.json"), str(tmp_path / "g.json"), "--to", "program"]
    lines = cli(*arguments).splitlines()
    assert lines[1] == "slab = allocate_slab(18)"
    assert lines[-1] == "release_slab(slab)"
    assert "run('left')" in lines
    assert any(line.endswith("# a view of 'a'") for line in lines)
    assert "a program needs sizes" in cli.error(*arguments[:2], "--to", "program")


def test_programs_of_random_plans_compute_what_the_graph_says(tmp_path: Path) -> None:
    """Graph inputs hold zeros; births of their own would hold what nobody has written yet."""
    rng = np.random.default_rng(4)
    for number in range(40):
        features = FEATURES - {"births", "pins", "inputs"}
        graph = random_graph(rng, int(rng.integers(1, 9)), features=features)
        graph = graph.with_inplace() if number % 2 else graph
        result = solve(graph, limits=Limits(work=2_000))
        export_plan(result, tmp_path / "program.py", to="program", graph=graph)
        machine = Machine(graph)
        exec((tmp_path / "program.py").read_text(), machine.names)
        assert machine.released == len(result.plan.slabs(graph) if result.plan else ())
        assert result.plan is not None


def test_names_can_not_get_out_of_their_quotes(tmp_path: Path) -> None:
    graph = random_graph(np.random.default_rng(1), 2)
    ops = list(graph.ops)
    ops[0] = replace(ops[0], name="x')\nraise SystemExit('\u202e")
    hostile = replace(graph, ops=tuple(ops), name="\n1/0")
    export_plan(solve(hostile), tmp_path / "program.py", to="program", graph=hostile)
    exec((tmp_path / "program.py").read_text(), Machine(hostile).names)
