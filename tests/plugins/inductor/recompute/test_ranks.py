"""Collectives in a joint graph: they keep their sequence, and a plan needs other ranks."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install '.[torch]'")

from torch import fx  # noqa: E402

from optsched import GraphBuilder  # noqa: E402
from optsched.plugins.inductor.reading.support import KeptOrderError  # noqa: E402
from optsched.plugins.inductor.recompute.joint_graph import in_sequence  # noqa: E402
from optsched.plugins.inductor.recompute.ranks import agree, has_collectives, joint_structure  # noqa: E402


def joint(count: int, size: int = 4) -> Any:
    """Return a graph of an input and some collectives of it."""
    graph, torch_ops = fx.Graph(), torch.ops._c10d_functional
    x = graph.placeholder("x")
    x.meta["val"] = torch.empty(size)
    made = [
        graph.call_function(torch_ops.all_reduce.default, (x, "sum", "0")) for _ in range(count)
    ]
    graph.output(tuple(made))
    return fx.GraphModule({}, graph)


def test_collectives_keep_the_sequence_of_the_program() -> None:
    module = joint(3)
    names = [node.name for node in module.graph.nodes if node.op == "call_function"]
    build = GraphBuilder("step")
    build.input("x", 4, "excluded")
    for name in [*names, "other"]:
        build.op(name, reads=["x"], writes={f"{name} result": 4})
    made = in_sequence(module, build.build())
    assert [op.control for op in made.ops] == [(), (0,), (1,), ()]


def test_a_plan_needs_a_process_group() -> None:
    assert has_collectives(joint(1))
    assert not has_collectives(joint(0))
    with pytest.raises(KeptOrderError, match="no process group is initialized"):
        agree(joint(1), "settings", lambda: pytest.fail("a plan was made"), 1.0)


@pytest.mark.usefixtures("mesh")
def test_ranks_that_do_not_exist_cannot_agree() -> None:
    with pytest.raises(KeptOrderError, match="fake group cannot agree"):
        agree(joint(1), "settings", lambda: pytest.fail("a plan was made"), 1.0)


def test_equal_graphs_have_one_structure() -> None:
    assert joint_structure(joint(2), "") == joint_structure(joint(2), "")
    others = [(joint(3), ""), (joint(2, size=5), ""), (joint(2), "other settings")]
    assert len({joint_structure(*each) for each in [(joint(2), ""), *others]}) == 4
