"""Live programs: graph modules with shapes and without, edge programs, custom operators."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the extra torch is not installed")

from torch import Tensor, nn  # noqa: E402

from optsched import InputPolicy, OptschedError, from_fx, peak_memory, read_graph  # noqa: E402
from optsched.formats import read_recorded  # noqa: E402
from tests.frameworks.fx.recorded_models import MODELS, parted_graphs  # noqa: E402


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.line = nn.Linear(8, 8)
        self.mask = torch.ones(8)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.line(x)).add_(1) * self.mask


def traced() -> Any:
    return torch.fx.symbolic_trace(Small())


def test_a_module_without_shapes_is_traced_with_example_inputs() -> None:
    graph = from_fx(traced(), [torch.zeros(4, 8)], name="small")
    assert graph.name == "small"
    kinds = {op.kind for op in graph.ops}
    assert {"aten.addmm.default", "aten.relu.default", "aten.add_.Tensor"} <= kinds
    assert any(b.mutates for b in graph.buffers)
    constants = [b.size for b in graph.buffers if b.input is InputPolicy.CONSTANT]
    assert sorted(constants) == [32, 32, 256]
    assert peak_memory(graph, range(len(graph.ops))) == 256


def test_a_program_is_the_same_as_its_module_traced() -> None:
    with torch.no_grad():
        exported = torch.export.export(Small(), (torch.zeros(4, 8),))
    graph = from_fx(exported)
    assert peak_memory(graph, range(len(graph.ops))) == 256
    assert [b.input for b in graph.buffers[:3]] == [InputPolicy.CONSTANT] * 3


def test_what_torch_compile_hands_to_a_backend() -> None:
    seen: list[Any] = []

    def backend(module: Any, inputs: Any) -> Any:
        seen.append(from_fx(module, inputs))
        return module.forward

    torch._dynamo.reset()
    with torch.no_grad():
        torch.compile(Small(), backend=backend, dynamic=False)(torch.zeros(4, 8))
    assert len(seen) == 1
    assert peak_memory(seen[0], range(len(seen[0].ops))) == 256


def test_saved_tensors_of_a_backward_graph_are_freed_and_others_are_the_callers() -> None:
    _, backward = parted_graphs(MODELS["unet_train"])
    graph = from_fx(backward)
    policies = {b.name: b.input for b in graph.buffers if b.input is not None}
    assert policies["relu_1"] is InputPolicy.FREED
    assert policies["tangents_1"] is policies["primals_1"] is InputPolicy.EXCLUDED
    assert "saved tensors freed" in graph.memory_model
    kept = from_fx(backward, inputs="kept")
    assert {b.input for b in kept.buffers} == {None, InputPolicy.KEPT}


def test_a_reshape_after_dropout_that_drops_nothing_is_a_copy_as_when_it_runs(
    tmp_path: Path,
) -> None:
    class Dropped(nn.Module):
        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            made = x + 1
            # PyTorch records a contiguous copy here, but returns the strided half itself.
            half = nn.functional.dropout(made.chunk(2, -1)[0], 0.5, False)
            return made, half.mul_(2).reshape(-1)

    program = torch.export.export(Dropped(), (torch.zeros(4, 4),))
    torch.export.save(program, tmp_path / "dropped.pt2")
    for graph in (from_fx(program), read_graph(tmp_path / "dropped.pt2")):
        assert peak_memory(graph, range(len(graph.ops))) == 64 + 32
        assert graph.buffer("reshape").alias_of is None


def test_custom_operators_tell_what_they_overwrite() -> None:
    @torch.library.custom_op("optsched_test::scale_", mutates_args=("x",))
    def scale(x: Tensor, by: float) -> None:
        x.mul_(by)

    class Custom(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            made = x + 1
            before = made.sum()
            scale(made, 2.0)
            return made + before

    graph = from_fx(torch.export.export(Custom(), (torch.zeros(4),)))
    ids = graph.op_ids
    writer = next(v for v, op in enumerate(graph.ops) if "scale_" in op.kind)
    assert ids["sum_1"] in graph.predecessors[writer]
    assert writer in graph.predecessors[len(graph.ops) - 1]


def test_open_sizes_of_a_live_program() -> None:
    shapes = ({0: torch.export.Dim("rows", min=2, max=64)},)
    program = torch.export.export(Small(), (torch.zeros(4, 8),), dynamic_shapes=shapes)
    with pytest.raises(OptschedError, match=r"'x': its dimension 0 is open \(4 when"):
        from_fx(program)
    graph = from_fx(program, dims={"x.0": 16})
    assert peak_memory(graph, range(len(graph.ops))) == 1024
    with pytest.raises(OptschedError, match="at most 64, got 65"):
        from_fx(program, dims={"x.0": 65})


def test_an_edge_program_of_executorch(tmp_path: Path) -> None:
    exir = pytest.importorskip("executorch.exir", reason="the extra executorch is not installed")
    with torch.no_grad():
        edge = exir.to_edge(torch.export.export(Small(), (torch.zeros(4, 8),)))
    graph = from_fx(edge)
    assert {"aten.relu.default", "aten.permute_copy.default"} <= {op.kind for op in graph.ops}
    # The dialect has no views: the transposed weight is a copy beside the product.
    assert peak_memory(graph, range(len(graph.ops))) == 256 + 128
    torch.export.save(edge.exported_program(), tmp_path / "edge.pt2")
    assert read_graph(tmp_path / "edge.pt2").ops == graph.ops
    assert "executorch" in read_recorded(tmp_path / "edge.pt2")


class Sparse(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.to_sparse().to_dense() + 1


@pytest.mark.parametrize(
    ("program", "options", "said"),
    [
        (Small, {}, "a GraphModule or an ExportedProgram is wanted, not a Small"),
        (traced, {}, "nodes have no shapes; give example_inputs"),
        (
            traced,
            {"example_inputs": [torch.zeros(3, 5)]},
            "cannot trace the program with these inputs",
        ),
        (traced, {"inputs": "mine"}, "inputs must be one of excluded"),
        (lambda: 5, {}, "not a int"),
    ],
)
def test_what_makes_no_sense_is_one_line(program: Any, options: Any, said: str) -> None:
    with pytest.raises(OptschedError, match=said) as caught:
        from_fx(program(), **options)
    assert "\n" not in str(caught.value)


def test_sparse_tensors_are_refused_by_name() -> None:
    with pytest.raises(OptschedError, match=r"layout torch.sparse_coo, whose bytes are not known"):
        from_fx(torch.fx.symbolic_trace(Sparse()), [torch.eye(4)])
