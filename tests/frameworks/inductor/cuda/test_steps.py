"""CUDA graphs without a GPU: wrappers executed on a fake device need the planned bytes.

A sample of the steps that `experiments/runtimes/inductor` compares in all orders (`gpu`).
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install '.[torch]'")

from tests.support.cuda.device import NoDeviceError, build_device  # noqa: E402

ROOT = Path(__file__).parents[4]


@pytest.fixture(scope="module", autouse=True)
def device() -> None:
    try:
        build_device()
    except NoDeviceError as error:
        pytest.skip(f"no fake device: {error}")


def rows(module: str, *args: str) -> list[dict[str, Any]]:
    """Run a module where the fake device is loaded before torch."""
    command = [sys.executable, "-m", f"tests.support.cuda.{module}", *args]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert not done.returncode, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_wrappers_need_the_simulated_bytes_in_every_order() -> None:
    """Half precision has kernels in several loops, norms and scans have workspaces."""
    steps = ("convolutions_half", "layer_norms_mixed_bf16", "scan_bf16", "gpt_breaks")
    found = rows("compare", *steps, "--orders", "baseline,dfs,random0", "--reuse", "on")
    found += rows("compare", "gpt_dropout", "--orders", "baseline,random1", "--reuse", "off")
    assert {row["step"] for row in found} == {*steps, "gpt_dropout"}
    assert [row for row in found if not row["equal"]] == []
    assert {row["step"] for row in found if row["workspaces"]} == set(steps[1:3])
    executed: dict[tuple[str, str], set[int]] = {}
    for row in found:
        executed.setdefault((row["step"], row["phase"]), set()).add(row["executed"])
    assert any(len(peaks) > 1 for peaks in executed.values())


def test_the_plan_is_what_the_wrapper_needs_and_never_more_than_inductors() -> None:
    steps = ("layer_norms_mixed", "gpt_flash_half", "gpt_flash_dropout")
    found = rows("planned", *steps, "--seconds", "3")
    assert [row for row in found if not row["equal"]] == []
    assert all(row["planned"] is not None and not row["ours"] > row["own"] for row in found)
    assert all("simulated, not measured on a GPU" in row["note"] for row in found)
    # Attention with a dropout of 0 draws no random numbers, so Inductor's order of it is valid.
    assert not [row for row in found if "breaks" in row["order"]]
    (norms,) = (r for r in found if r["step"] == "layer_norms_mixed" and r["phase"] == "backward")
    assert norms["ours"] < 0.95 * norms["own"]


def test_collectives_of_eight_gpus_need_what_is_planned() -> None:
    """DTensor exchanges shards in `sequence`, which a CPU gathers and cuts instead."""
    for found in rows("ranks", "sequence", "gathered_again"):
        assert all(own >= planned == needed for own, planned, needed, _ in found["figures"])
        assert any(own > planned for own, planned, *_ in found["figures"])
        stock, ours = found["hidden"]
        assert stock
        assert [name for name, _ in ours] == [name for name, _ in stock]
        assert all(b >= a for (_, a), (_, b) in zip(stock, ours, strict=True))


def test_without_the_option_a_gpu_graph_is_left_to_inductor() -> None:
    for row in rows("planned", "scan", "--off"):
        assert row["planned"] is None
        assert row["reason"] == "it runs on a GPU, which is opt-in: enabled(cuda=True)"
        assert row["own"] == row["ours"]


def test_what_was_not_looked_at_is_refused_by_name() -> None:
    reasons = rows("refused")
    assert {row["case"]: row["reason"] for row in reasons} == {
        "combo_kernels": "combo_kernels is on: nodes are joined later",
        "cooperative_reductions": "cooperative_reductions is on",
        "multi_kernel": "multi_kernel is on",
        "max_autotune": "max_autotune is on",
        "cpp_wrapper": "the wrapper is written in C++, which is known on the CPU alone",
        "mixed devices": "it runs on several devices: cpu, cuda:0",
        "partitions": (
            "the CUDA graph is split at node 'op3': custom partition op: aten::topk.default"
        ),
    }
