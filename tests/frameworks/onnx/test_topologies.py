"""The nine networks that come with the onnx package, and what others recorded of them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

onnx = pytest.importorskip("onnx", reason="the extra onnx is not installed")

from optsched import Plan, check_plan, peak_memory, read_graph, solve  # noqa: E402

LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"
RECORDED = Path(__file__).parents[4] / "shared/instances/frameworks"
PEAKS = {
    "bvlc_alexnet": (4_525_632, 4_525_632),
    "densenet121": (8_429_568, 8_429_568),
    "inception_v1": (9_341_248, 9_341_248),
    "inception_v2": (6_422_528, 6_422_528),
    "resnet50": (9_633_792, 9_633_792),
    "shufflenet": (3_110_912, 3_110_912),
    "squeezenet": (6_308_352, 3_928_576),
    "vgg19": (25_690_112, 25_690_112),
    "zfnet512": (18_439_360, 18_439_360),
}
"""Peak of the file's order, without in-place and with it."""


def path_of(name: str) -> Path:
    path = LIGHT / f"light_{name}.onnx"
    if not path.exists():
        pytest.skip("this onnx package comes without its light models")
    return path


@pytest.mark.parametrize("name", PEAKS)
def test_peak_of_the_files_order(name: str) -> None:
    graph = read_graph(path_of(name))
    order = tuple(range(len(graph.ops)))
    apart = graph.without_inplace()
    assert (peak_memory(apart, order), peak_memory(graph, order)) == PEAKS[name]


@pytest.mark.parametrize(
    "name", ["densenet121", "inception_v2", "resnet50", "shufflenet", "squeezenet"]
)
def test_the_recorded_graph_of_the_same_file_has_the_same_ops_and_peak(name: str) -> None:
    recorded = RECORDED / f"onnx__{name}.json.gz"
    if not recorded.exists():
        pytest.skip("no recorded graph of this network beside the project")
    document = json.loads(gzip.decompress(recorded.read_bytes()))
    graph = read_graph(path_of(name)).without_inplace()
    assert [op.kind for op in graph.ops] == document["extra"]["ops"]
    peak = peak_memory(graph, tuple(range(len(graph.ops))))
    inputs = sum(b.size for b in graph.buffers if b.input is not None)
    naive = document["extra"]["naive"]
    assert (peak, peak + inputs) == (naive["peak_act"], naive["peak_caller"])


def test_shufflenets_least_peak_is_below_its_files() -> None:
    graph = read_graph(path_of("shufflenet")).with_inplace()
    result = solve(graph, objective="peak", time_limit=20)
    assert isinstance(result.plan, Plan)
    check_plan(graph, result.plan)
    assert (result.peak, result.peak_bound) == (2_885_120, 2_885_120)
