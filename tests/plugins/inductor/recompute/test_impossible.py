"""A peak below what a call returns is refused at once, with the bytes in the way."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from optsched import plugins

torch = pytest.importorskip("torch", reason="needs torch: pip install '.[torch]'")

from torch._functorch.aot_autograd import aot_function  # noqa: E402
from torch._functorch.partitioners import min_cut_rematerialization_partition  # noqa: E402
from torch._inductor import config  # noqa: E402

from optsched.plugins.inductor import enabled  # noqa: E402
from optsched.plugins.inductor.recompute.joint_step import JointStep  # noqa: E402
from optsched.plugins.inductor.recompute.least_bytes import least_bytes  # noqa: E402
from tests.support.compiled_memory import NO_CACHE, no_kernels  # noqa: E402


@pytest.mark.parametrize(
    ("rows", "width", "peak", "words"),
    [
        # A weight of 64 x 256 and one of 256 x 8, and their biases.
        (2, 8, 70_000, "the gradients alone need 74,784"),
        # Its operand of 256 columns and its result of 8.
        (1000, 8, 1_000_000, "op 'addmm_1' alone reads and writes 1,056,000"),
        (1000, 2048, 4_000_000, "op 'addmm_1' alone reads and writes 9,216,000"),
    ],
)
def test_bytes_in_the_way_are_named(
    rows: int, width: int, peak: int, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(JointStep, "memory", lambda *_: pytest.fail("a split was simulated"))
    torch._dynamo.reset()
    plugins.forget()
    network = torch.nn.Sequential(
        torch.nn.Linear(64, 256), torch.nn.Tanh(), torch.nn.Linear(256, width)
    )
    with no_kernels(), config.patch(NO_CACHE), enabled(peak=peak, time_limit=60):
        compiled: Any = torch.compile(network)
        compiled(torch.randn(rows, 64)).square().mean().backward()
    (record,) = (r for r in plugins.records() if "joint" in r.name)
    assert record.answer == f"no step fits {peak:,} bytes: {words}"
    assert record.seconds < 5
    assert record.answer in plugins.explain()


def joint_graphs(call: Any, *inputs: Any) -> list[tuple[Any, int]]:
    """Return the joint graphs of a step, each with its number of results."""
    found = []

    def partition(joint: Any, inputs: Any, **how: Any) -> Any:
        found.append((copy.deepcopy(joint), how["num_fwd_outputs"]))
        return min_cut_rematerialization_partition(joint, inputs, **how)

    keep = {"fw_compiler": lambda graph, _: graph, "partition_fn": partition}
    aot_function(call, **keep)(*inputs).sum().backward()
    return found


def test_a_product_needs_what_it_reads_and_makes_but_no_inputs_and_copies_of_them() -> None:
    a, b = (torch.randn(8, 8, requires_grad=True) for _ in range(2))

    def words(call: Any) -> list[str]:
        ((joint, outputs),) = joint_graphs(call, a, b)
        return [row.words for row in least_bytes(joint, outputs)]

    size = 8 * 8 * 4
    forward, backward = words(lambda a, b: torch.tanh(a) @ b)
    assert forward == f"op 'mm' alone reads and writes {2 * size}"
    # The gradients of both operands; the product that makes one of them reads tanh(a), and tangents
    # that may be the program's.
    assert backward == f"the gradients alone need {2 * size}"
    forward, _ = words(lambda a, b: a.clone() @ b.t())
    assert forward == f"the results of the forward graph alone need {size}"
