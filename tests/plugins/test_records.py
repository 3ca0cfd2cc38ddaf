"""Records of compiled graphs: every text that a plugin gives is printed as it is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from optsched import plugins
from optsched.plugins.records import CompiledGraph, remember


@pytest.mark.parametrize("proof", ["order search", "bound of the in-place graph", "packing bound"])
def test_a_proof_is_a_name(proof: str) -> None:
    record = CompiledGraph("xla", "jit_f", 9, before=200, after=100, bound=100, proof=proof)
    assert str(record) == (f"xla jit_f: 9 ops, peak 200 bytes -> 100, bound 100 ({proof}); 0.00 s")


def test_a_step_within_a_peak_has_its_answer_first_and_its_front_on_request() -> None:
    plugins.forget()
    front = ((200, 0.0), (120, 0.0312))
    record = CompiledGraph("inductor", "0/0 joint", 9, answer="fits 150 bytes", front=front)
    remember(record)
    assert plugins.explain() == "0/0 joint: fits 150 bytes\n  inductor 0/0 joint: 9 ops; 0.00 s"
    assert plugins.explain(front=True).splitlines()[2:] == [
        "  tried: 200 bytes for 0.00% more compute",
        "  tried: 120 bytes for 3.12% more compute",
    ]


def test_the_step_of_several_graphs_within_a_peak_is_told() -> None:
    """Each call may have its peak while the others keep what they save."""
    plugins.forget()
    for name, peak, saved in (("0/0 joint", 150, 60), ("1/0 joint", 140, 100)):
        made = CompiledGraph("inductor", name, 9, before=200, after=peak, answer="fits 150 bytes")
        remember(replace(made, saved=saved))
    assert plugins.explain().splitlines()[-1] == (
        "the peak is for each graph: a step of all 2 may hold 250 bytes in them, "
        "as they save 160 for their backward graphs"
    )


def test_a_reset_forgets_earlier_models_of_inductor_alone() -> None:
    dynamo = pytest.importorskip("torch._dynamo")
    plugins.forget()
    remember(CompiledGraph("inductor", "0/0 forward", 3))
    remember(CompiledGraph("xla", "jit_f", 4))
    remember(CompiledGraph("inductor", "0/0 backward", 5))
    assert [record.ops for record in plugins.records()] == [3, 4, 5]
    dynamo.reset()
    assert [record.ops for record in plugins.records()] == [4]
    dynamo.reset()
    remember(CompiledGraph("inductor", "0/0 forward", 6))
    assert [record.ops for record in plugins.records()] == [4, 6]
    plugins.forget()
