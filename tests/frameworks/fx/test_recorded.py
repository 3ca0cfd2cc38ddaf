"""Graphs that were recorded of real models, made again: the same ops, the same peaks."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the extra torch is not installed")

from optsched import from_fx, peak_memory  # noqa: E402
from optsched.formats.fx import aliases  # noqa: E402
from optsched.formats.fx.graph import build_graph  # noqa: E402
from optsched.formats.fx.live import read_module  # noqa: E402
from tests.frameworks.fx.recorded_models import MODELS, Vit, joint_graph, parted_graphs  # noqa: E402

RECORDED = Path(__file__).parents[4] / "shared/instances/frameworks"
POLICIES = ("excluded", "freed", "kept")


def recorded(name: str) -> dict[str, Any]:
    path = RECORDED / f"fx__{name}.json.gz"
    if not path.exists():
        pytest.skip("no recorded graph of this model beside the project")
    extra: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes()))["extra"]
    return extra


def peaks_of(module: Any) -> tuple[list[int], list[str]]:
    """Return the peaks of the program's order where inputs are not counted, freed and kept."""
    graphs = [from_fx(module, inputs=policy) for policy in POLICIES]
    kinds = [op.kind.removeprefix("aten.") for op in graphs[0].ops]
    return [peak_memory(graph, range(len(graph.ops))) for graph in graphs], kinds


def naive(extra: dict[str, Any]) -> list[int]:
    return [extra["naive"][key] for key in ("peak_act", "peak_all", "peak_caller")]


@pytest.mark.parametrize("name", ["unet_train", "moe_mlp_train", "resnet18_train"])
def test_joint_graphs_of_training_steps(name: str) -> None:
    extra = recorded(f"{name}_joint")
    peaks, kinds = peaks_of(joint_graph(MODELS[name]))
    assert kinds == extra["ops"]
    assert peaks == naive(extra)


def test_the_two_parts_of_a_training_step() -> None:
    graphs = parted_graphs(MODELS["unet_train"])
    for module, part in zip(graphs, ("fw", "bw"), strict=True):
        extra = recorded(f"unet_train_mincut_{part}")
        peaks, kinds = peaks_of(module)
        assert kinds == extra["ops"]
        assert peaks == naive(extra)


def test_the_decoder_whose_recorder_took_unsafe_view_for_a_copy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """PyTorch returns a view there, so inputs that are freed are freed later than recorded."""
    extra = recorded("gpt2like_4l_train_joint")
    module = joint_graph(MODELS["gpt2like_4l_train"])
    peaks, kinds = peaks_of(module)
    assert kinds == extra["ops"]
    assert peaks[0] == extra["naive"]["peak_act"]
    assert peaks[1:] == [64_088_064, 68_973_568]
    monkeypatch.setattr(aliases, "VIEWS", aliases.VIEWS - {"_unsafe_view"})
    found = []
    for policy in POLICIES:
        program = read_module(module, inputs=policy)
        apart = {key: replace(x, storage=None) for key, x in program.values.items()}
        graph = build_graph(replace(program, values=apart), "as recorded")
        found.append(peak_memory(graph, range(len(graph.ops))))
    assert found == naive(extra)


def test_an_exported_network() -> None:
    extra = recorded("hf_vit_4l_infer")
    with torch.no_grad():
        program = torch.export.export(Vit().eval(), (torch.rand(1, 3, 224, 224),))
    graph = from_fx(program.run_decompositions({}))
    assert [op.kind.removeprefix("aten.") for op in graph.ops] == extra["ops"]
    assert peak_memory(graph, range(len(graph.ops))) == extra["naive"]["peak_act"]
