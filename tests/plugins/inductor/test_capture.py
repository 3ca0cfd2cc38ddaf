"""Small models are captured during the test; torch's own figures are computed again."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from optsched.errors import MissingDependencyError, OptschedError, UsageError

torch = pytest.importorskip("torch", reason="captures need torch: pip install '.[torch]'")

from optsched.plugins.inductor import capture as inductor_capture  # noqa: E402
from optsched.plugins.inductor.capture import Built, CapturedGraph, capture, write  # noqa: E402
from tests.support.small_networks import Broken  # noqa: E402

METHODS = ("baseline", "lpmf", "bfs", "dfs")


def peak(document: Mapping[str, Any], order: Sequence[int]) -> int:
    """Peak memory of an order, from `nodes` and `buffers` alone."""
    step_of = {node: step for step, node in enumerate(order)}
    producer = {b: v for v, node in enumerate(document["nodes"]) for b in node["buffer_names"]}
    last_use: dict[str, int] = {}
    for buffer in document["buffers"]:
        for read in buffer["deps"]:
            reader = step_of[producer[buffer["name"]]]
            last_use[read] = max(last_use.get(read, 0), reader)
    change = [0] * (len(order) + 1)
    for buffer in document["buffers"]:
        birth = 0 if buffer["is_input"] else step_of[producer[buffer["name"]]]
        change[birth] += buffer["size_alloc"]
        if not buffer["is_output"]:
            change[last_use.get(buffer["name"], birth) + 1] -= buffer["size_free"]
    live = highest = 0
    for difference in change:
        live += difference
        highest = max(highest, live)
    return highest


def build_mlp() -> Built:
    layers = [layer for _ in range(4) for layer in (torch.nn.Linear(32, 32), torch.nn.GELU())]
    return torch.nn.Sequential(*layers), (torch.randn(16, 32),), {}


def build_conv() -> Built:
    """Batch norm writes its running statistics in place; dropout draws random numbers."""
    network = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3),
        torch.nn.BatchNorm2d(8),
        torch.nn.ReLU(inplace=True),
        torch.nn.MaxPool2d(2),
        torch.nn.Flatten(),
        torch.nn.Dropout(),
        torch.nn.Linear(8 * 7 * 7, 10),
    )
    return network, (torch.randn(4, 3, 16, 16),), {}


class Filter(torch.nn.Module):  # type: ignore[misc]
    """A convolution in one dimension of a transposed half, as state-space models have them."""

    def __init__(self) -> None:
        super().__init__()
        self.widen = torch.nn.Linear(16, 128)
        self.filter = torch.nn.Conv1d(64, 64, 4, padding=3, groups=64)

    def forward(self, x: Any) -> Any:
        kept, gate = self.widen(x).transpose(1, 2).chunk(2, dim=1)
        return (self.filter(kept)[..., :16] * gate).sum()


def build_filter() -> Built:
    return Filter(), (torch.randn(2, 16, 16),), {}


class Ranker(torch.nn.Module):  # type: ignore[misc]
    """Ops of several outputs, a state that is mutated, and an argument by keyword."""

    def __init__(self) -> None:
        super().__init__()
        self.score = torch.nn.Linear(64, 64)
        self.register_buffer("seen", torch.zeros(8, 64))

    def forward(self, x: Any, *, scale: Any) -> Any:
        scores = self.score(x) * scale
        self.seen.add_(scores.detach())
        ranked, places = scores.sort(dim=1)
        best, _ = (ranked + self.seen).topk(5, dim=1)
        return best, places, ranked.cumsum(1).sum()


def build_ranker() -> Built:
    return Ranker(), (torch.randn(8, 64),), {"scale": torch.randn(8, 64)}


CASES = {
    "mlp train": (build_mlp, {"phase": "train"}),
    "mlp infer": (build_mlp, {"phase": "infer"}),
    "mlp checkpointed": (build_mlp, {"phase": "train", "activation_memory_budget": 0.3}),
    "conv train": (build_conv, {"phase": "train"}),
    "conv on the imagined GPU": (build_conv, {"phase": "train", "fake_cuda": True}),
    "filter on the imagined GPU": (build_filter, {"phase": "train", "fake_cuda": True}),
    "ranker train": (build_ranker, {"phase": "train"}),
    "ranker infer": (build_ranker, {"phase": "infer"}),
}


@pytest.fixture(scope="module")
def captured() -> dict[str, list[CapturedGraph]]:
    return {
        name: capture(build, model=name.split()[0], **options)
        for name, (build, options) in CASES.items()
    }


@pytest.fixture(params=CASES)
def graphs(
    request: pytest.FixtureRequest, captured: dict[str, list[CapturedGraph]]
) -> list[CapturedGraph]:
    return captured[request.param]


def test_phases_of_training_and_inference(captured: dict[str, list[CapturedGraph]]) -> None:
    for name, graphs in captured.items():
        phases = ["infer"] if name.endswith("infer") else ["fwd", "bwd"]
        assert [graph.phase for graph in graphs] == phases, name
        assert [graph.part for graph in graphs] == [1] * len(phases)


def test_peaks_of_torch_follow_from_the_file(graphs: list[CapturedGraph]) -> None:
    for graph in graphs:
        extra = graph.document["extra"]
        assert tuple(extra["peaks"]) == tuple(extra["orders"]) == METHODS
        for method in METHODS:
            assert peak(graph.document, extra["orders"][method]) == extra["peaks"][method]
        assert extra["peaks"][extra["chosen"]] == min(extra["peaks"].values())
        assert min(extra["peaks"].values()) > 0


def test_orders_keep_the_ordering_relation(graphs: list[CapturedGraph]) -> None:
    for graph in graphs:
        extra = graph.document["extra"]
        for order in extra["orders"].values():
            assert sorted(order) == list(range(len(graph.document["nodes"])))
            step = {node: i for i, node in enumerate(order)}
            for node, before in enumerate(extra["pred_nodes"]):
                assert all(step[other] < step[node] for other in before)


def test_one_entry_per_node_and_known_names(graphs: list[CapturedGraph]) -> None:
    for graph in graphs:
        document, extra = graph.document, graph.document["extra"]
        for key in ("pred_nodes", "unmet_dep_names", "kinds", "n_inner"):
            assert len(extra[key]) == len(document["nodes"])
        names = {b["name"] for b in document["buffers"]}
        freed = {b["name"] for b in document["buffers"] if b["is_input"]}
        assert set(extra["freeable_true_nbytes"]) == freed
        assert not freed & set(extra["nonfreeable_inputs"])
        outputs = {b["name"] for b in document["buffers"] if b["is_output"]}
        assert outputs <= set(extra["graph_outputs"])
        assert set(extra["layouts"]) | set(extra["aliases"]) <= names
        assert extra["torch"] == torch.__version__
        assert (extra["model"], extra["phase"]) == (graph.model, graph.phase)


def test_mutation_is_recorded(captured: dict[str, list[CapturedGraph]]) -> None:
    for name in ("conv train", "ranker train", "ranker infer"):
        document = captured[name][0].document
        renamed = document["extra"]["mutation_real_name"]
        sizes = {b["name"]: (b["size_alloc"], b["size_free"]) for b in document["buffers"]}
        assert renamed, name
        assert all(sizes.get(new, (0, 0)) == (0, 0) for new in renamed)


def test_outputs_of_one_op_are_allocated_by_it(captured: dict[str, list[CapturedGraph]]) -> None:
    document = captured["ranker infer"][0].document
    layouts = document["extra"]["layouts"]
    parents = [b for b in document["buffers"] if layouts.get(b["name"]) == "MultiOutputLayout"]
    assert parents
    for parent in parents:
        children = [
            b for b in document["buffers"] if parent["name"] in b["deps"] and not b["size_alloc"]
        ]
        assert parent["size_free"] == 0
        assert parent["size_alloc"] == sum(b["size_free"] for b in children) > 0


def test_input_bytes_are_those_of_the_tensors(captured: dict[str, list[CapturedGraph]]) -> None:
    sizes = captured["mlp infer"][0].document["extra"]["nonfreeable_inputs"].values()
    weight, bias, batch = 32 * 32 * 4, 32 * 4, 16 * 32 * 4
    assert sorted(sizes) == sorted([weight, bias] * 4 + [batch])


def test_budget_keeps_fewer_activations(captured: dict[str, list[CapturedGraph]]) -> None:
    def kept(graphs: list[CapturedGraph]) -> int:
        return sum(graphs[1].document["extra"]["freeable_true_nbytes"].values())

    assert kept(captured["mlp checkpointed"]) < kept(captured["mlp train"])


def test_the_imagined_gpu_fuses_otherwise_and_leaves_no_trace(
    captured: dict[str, list[CapturedGraph]],
) -> None:
    imagined, real = captured["conv on the imagined GPU"][0], captured["conv train"][0]
    assert imagined.document["extra"]["device"] == "cuda"
    assert imagined.document["extra"]["kinds"] != real.document["extra"]["kinds"]
    again = capture(build_conv, phase="train", model="conv")
    assert again[0].document == real.document


def test_parts_of_a_broken_graph_are_paired() -> None:
    graphs = capture(lambda: (Broken(), (torch.randn(4, 8),), {}), phase="train", model="broken")
    found = sorted(graph.file_name for graph in graphs)
    assert found == [
        f"broken{part}.{way}.json.gz" for part in ("", ".part2") for way in ("bwd", "fwd")
    ]
    for graph in graphs:
        extra = graph.document["extra"]
        assert all(peak(graph.document, extra["orders"][m]) == extra["peaks"][m] for m in METHODS)


def test_same_bytes_each_time(tmp_path: Path, captured: dict[str, list[CapturedGraph]]) -> None:
    first, second = tmp_path / "first.json.gz", tmp_path / "second.json.gz"
    write(first, captured["ranker train"][1])
    write(second, capture(build_ranker, phase="train", model="ranker")[1])
    assert first.read_bytes() == second.read_bytes()
    assert json.loads(gzip.decompress(first.read_bytes())) == captured["ranker train"][1].document


def test_constants_of_the_model_are_real_tensors() -> None:
    class Scaled(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            return x * torch.tensor([1.0, 2.0, 3.0])

    (graph,) = capture(lambda: (Scaled(), (torch.randn(4, 3),), {}), phase="infer")
    assert graph.document["extra"]["peaks"]["baseline"] == 4 * 3 * 4


def test_file_name() -> None:
    assert CapturedGraph("net_bs4", "fwd", 1, {}).file_name == "net_bs4.fwd.json.gz"
    assert CapturedGraph("net_bs4", "bwd", 2, {}).file_name == "net_bs4.part2.bwd.json.gz"


def test_wrong_arguments() -> None:
    with pytest.raises(UsageError, match="'test'"):
        capture(build_mlp, phase="test")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"1\.5"):
        capture(build_mlp, phase="train", activation_memory_budget=1.5)


def test_nothing_to_differentiate() -> None:
    def build() -> Built:
        return torch.nn.ReLU(), (torch.randn(4),), {}

    with pytest.raises(UsageError, match="gradient"):
        capture(build, phase="train")


def test_nothing_to_compile() -> None:
    with pytest.raises(OptschedError, match="no graph"):
        capture(lambda: (torch.nn.Identity(), (torch.randn(4),), {}), phase="infer")


def test_missing_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingDependencyError, match="run: pip install 'torch<"):
        capture(build_mlp, phase="infer")


def test_import_alone_loads_no_torch() -> None:
    code = f"import sys, {inductor_capture.__name__}; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_settings_reach_the_scheduler_and_observers_are_heard() -> None:
    def build() -> Built:
        return torch.nn.Sequential(torch.nn.Softmax(dim=1)), (torch.randn(8, 8),), {}

    def count(nodes: Sequence[Any], *_: object) -> Mapping[str, Any]:
        return {"node_count": len(nodes)}

    fused = capture(build, phase="infer", observe=count)[0].document
    apart = capture(build, phase="infer", observe=count, settings={"max_fusion_size": 1})[
        0
    ].document
    for document in (fused, apart):
        assert document["extra"]["node_count"] == len(document["nodes"])
    assert len(fused["nodes"]) < len(apart["nodes"])
    assert set(apart["extra"]["n_inner"]) == {1}


def test_scatters_of_views_on_the_imagined_gpu() -> None:
    class Shifted(torch.nn.Module):  # type: ignore[misc]
        """The gradient of the slices is scattered into the tensor they were cut from."""

        def __init__(self) -> None:
            super().__init__()
            self.score = torch.nn.Linear(8, 8)

        def forward(self, x: Any) -> Any:
            scores = self.score(x)
            wide = torch.cat([scores[:, 1:], scores[:, :-1]], dim=2)
            return wide.exp().sum()

    graphs = capture(
        lambda: (Shifted(), (torch.randn(4, 6, 8),), {}), phase="train", fake_cuda=True
    )
    assert [graph.phase for graph in graphs] == ["fwd", "bwd"]
