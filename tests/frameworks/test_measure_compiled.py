"""Programs measured in their compilers, without and with our plugin, from the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from optsched.errors import UsageError
from tests.support.commands import Cli

HLO = Path(__file__).parents[2] / "instances" / "hlo"


def write_branches(path: Path, width: int = 256) -> str:
    """Write a program that computes all wide tensors first, as people write lists of branches."""
    torch = pytest.importorskip("torch", reason="the extra torch is not installed")

    class Branches(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            wide = [(x * number).repeat(1, width).cumsum(1) for number in range(1, 5)]
            return sum(value.sum(1) for value in wide)

    torch.export.save(torch.export.export(Branches(), (torch.randn(8, 8),)), path)
    return str(path)


def measured(cli: Cli, *words: object) -> dict[str, Any]:
    found: dict[str, Any] = cli.json("measure", *words, "--time-limit", 5)
    assert found["same_outputs"] is True
    for side in ("before", "after"):
        assert found[side]["close"], found
    return found


def test_executorch(tmp_path: Path, cli: Cli) -> None:
    pytest.importorskip("executorch", reason="the extra executorch is not installed")
    program = write_branches(tmp_path / "branches.pt2")
    found = measured(cli, program, "--runtime", "executorch")
    assert found["after"]["held"] < found["before"]["held"]
    assert found["runtime"].startswith("ExecuTorch")
    # The arena is one block, whose header is the difference.
    assert found["after"]["causes"] == {"headers of heap blocks": found["after"]["difference"]}


def test_heap_blocks_that_nobody_counts_are_not_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("executorch", reason="the extra executorch is not installed")
    from optsched.measure import executorch_child

    monkeypatch.setattr(executorch_child.sys, "platform", "darwin")
    with pytest.raises(UsageError, match="mallinfo2 of glibc"):
        executorch_child.run("model.pt2", 5.0)


def test_torch_compile(tmp_path: Path, cli: Cli) -> None:
    found = measured(cli, write_branches(tmp_path / "branches.pt2"))
    assert found["after"]["held"] <= found["before"]["held"]
    assert found["runtime"].startswith("torch.compile")


def test_xla(cli: Cli) -> None:
    pytest.importorskip("jax", reason="the extra jax is not installed")
    found = measured(cli, str(HLO / "network-unscheduled.txt"))
    assert found["after"]["held"] < found["before"]["held"]


def test_what_cannot_be_measured_is_one_line(tmp_path: Path, cli: Cli) -> None:
    pytest.importorskip("jax", reason="the extra jax is not installed")
    module, other = str(HLO / "network-module.txt"), str(HLO / "network-unscheduled.txt")
    cases = {
        (module,): "the module is compiled already",
        (other, "plan.json"): "leave out the plan",
        (other, "--runtime", "torch"): "torch does not run hlo files; they are run by xla",
        (other, "--dim", "n=2"): "--dim: xla runs the program with its own inputs",
    }
    for words, message in cases.items():
        error = cli.error("measure", *words)
        assert message in error
        assert error.count("\n") == 1
