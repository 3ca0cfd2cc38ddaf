"""Graphs with collectives: planned to the byte, the program's sequence, nothing less hidden."""

from __future__ import annotations

import random
from typing import Any

import pytest

from optsched import plugins

torch = pytest.importorskip("torch", reason="needs torch: pip install '.[torch]'")

import torch.distributed._functional_collectives as collectives  # noqa: E402
from torch._inductor import config, ir  # noqa: E402
from torch._inductor.utils import run_and_get_code  # noqa: E402

from optsched.plugins.inductor import enabled  # noqa: E402
from optsched.plugins.inductor.reading import collectives as reading  # noqa: E402
from optsched.plugins.inductor.reading.support import KeptOrderError  # noqa: E402
from tests.support.compiled_memory import NO_CACHE, no_kernels  # noqa: E402
from tests.support.distributed_programs import PROGRAMS, run, windows  # noqa: E402


@pytest.mark.parametrize("name", PROGRAMS)
def test_measured_is_planned_and_no_higher(mesh: Any, name: str) -> None:
    torch.manual_seed(0)
    program, x = PROGRAMS[name](mesh), torch.randn(128, 32)
    with no_kernels(), config.patch(NO_CACHE), enabled(time_limit=2, min_gain=0, measure=True):
        compiled = torch.compile(program, fullgraph=True)
        for _ in range(2):
            run(name, compiled, x)
    records = plugins.records()
    assert len(records) == 1 + (name != "gathers")
    for record in records:
        assert record.planned == record.measured
        assert record.before is not None
        assert record.planned is not None
        assert (record.bound or 0) <= record.planned <= record.before


@pytest.mark.parametrize("seed", range(6))
def test_launches_keep_their_sequence_and_hide_as_much(mesh: Any, seed: int) -> None:
    """Random branches are gathered and reduced: as many calls run between launch and wait."""
    draw = random.Random(seed)
    group = mesh.get_group()
    wide = [draw.choice((16, 64, 256)) for _ in range(5)]
    kinds = [draw.choice(("gather", "reduce", "none")) for _ in wide]

    def program(x: Any, weights: Any) -> Any:
        total = x.new_zeros(64, 64)
        for kind, weight in zip(kinds, weights, strict=True):
            y = (x @ weight).sin()
            if kind == "gather":
                y = collectives.all_gather_tensor(y, 0, group)[:64]
            elif kind == "reduce":
                y = collectives.all_reduce(y, "sum", group)
            total = total + y @ weight.t()
        return total

    x, weights = torch.randn(64, 64), [torch.randn(64, n) for n in wide]
    codes = []
    for planned in (False, True):
        torch._dynamo.reset()
        with no_kernels(), config.patch(NO_CACHE), torch.no_grad():
            if planned:
                with enabled(time_limit=2, min_gain=0):
                    _, code = run_and_get_code(torch.compile(program), x, weights)
            else:
                _, code = run_and_get_code(torch.compile(program), x, weights)
        codes.append(windows(code[0]))
    stock, ours = codes
    assert len(stock) == sum(kind != "none" for kind in kinds)
    assert [launch for launch, _ in ours] == [launch for launch, _ in stock]
    assert all(b >= a for (_, a), (_, b) in zip(stock, ours, strict=True))


class Target:
    """An op of another library, as far as the test for known collectives looks at it."""

    op_overload = torch.ops.aten.add.Tensor

    def get_output_spec(self) -> Any:
        return None


class Inner:
    def __init__(self, target: Any) -> None:
        self.node = target

    def get_name(self) -> str:
        return "op0"

    def get_nodes(self) -> list[Inner]:
        return [self]


def test_what_is_not_known_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    layout = ir.CommBufferLayout(
        ir.FixedLayout(torch.device("cpu"), torch.float32, [2], [1]),
        ir.CommBufferType.SYMM_MEM,
        "0",
    )
    shared = Target()
    shared.get_output_spec = lambda: layout  # type: ignore[method-assign]
    with pytest.raises(KeptOrderError, match="node 'op0' uses symmetric memory"):
        reading.require_known_collectives([Inner(shared)])
    monkeypatch.setattr(reading, "is_collective", lambda target: True)
    with pytest.raises(KeptOrderError, match="node 'op0' is a collective of aten"):
        reading.require_known_collectives([Inner(Target())])
    known = Target()
    known.op_overload = torch.ops._c10d_functional.all_reduce.default
    reading.require_known_collectives([Inner(known)])
    with (
        config.patch(reorder_for_compute_comm_overlap=True),
        pytest.raises(KeptOrderError, match="reorder_for_compute_comm_overlap is on"),
    ):
        reading.require_known_collectives([Inner(known)])
