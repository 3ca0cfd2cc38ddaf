"""Records of compiled graphs: every text that a plugin gives is printed as it is."""

from __future__ import annotations

import pytest

from optsched.plugins.records import CompiledGraph


@pytest.mark.parametrize("proof", ["order search", "bound of the in-place graph", "packing bound"])
def test_a_proof_is_a_name(proof: str) -> None:
    record = CompiledGraph("xla", "jit_f", 9, before=200, after=100, bound=100, proof=proof)
    assert str(record) == (f"xla jit_f: 9 ops, peak 200 bytes -> 100, bound 100 ({proof}); 0.00 s")
