"""A training step recorded by PyTorch itself, as a profile and as a snapshot."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from optsched.formats import read_packing
from optsched.solver.pack import pack

torch = pytest.importorskip("torch", reason="records a training step")


def test_a_recorded_step_is_packed_into_its_live_bytes(tmp_path: Path) -> None:
    from torch.cuda._memory_viz import _profile_to_snapshot
    from torch.profiler import ProfilerActivity, profile

    layers = (torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
    model, x = torch.nn.Sequential(*layers), torch.randn(32, 64)
    with profile(
        activities=[ProfilerActivity.CPU], profile_memory=True, record_shapes=True, with_stack=True
    ) as seen:
        model(x).sum().backward()
    seen.export_chrome_trace(str(tmp_path / "trace.json"))
    (tmp_path / "snapshot.pickle").write_bytes(pickle.dumps(_profile_to_snapshot(seen)))
    trace = read_packing(tmp_path / "trace.json")
    # The two activations of the hidden layer, 32 x 128 floats each, are live at once.
    assert trace.problem.max_load >= 2 * 32 * 128 * 4
    assert any("aten::" in name for name in trace.problem.names)
    snapshot = read_packing(tmp_path / "snapshot.pickle")
    for table in (trace, snapshot):
        result = pack(table)
        assert result.slab == result.slab_bound == table.problem.max_load
    (reserved,) = snapshot.reserved.values()
    assert reserved >= snapshot.problem.max_load
