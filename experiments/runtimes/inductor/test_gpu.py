"""The command for a real GPU, with the CPU and with made-up counters in the place of one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from optsched.model.caching_allocator import Usage
from optsched.plugins import CompiledGraph

torch = pytest.importorskip("torch", reason="needs torch: pip install '.[torch]'")

from torch._inductor import config  # noqa: E402

from experiments.runtimes.inductor import gpu  # noqa: E402
from tests.support.compiled_memory import NO_CACHE, no_kernels  # noqa: E402

GRAPH = CompiledGraph("inductor", "0/0 backward", 9, before=900, after=800, measured=800)
USAGE = Usage(1000, 1024, 4096)


def row(**changes: Any) -> gpu.GpuRow:
    figures = gpu.StepFigures(USAGE, 1.5)
    found = gpu._row("a step", "a device", GRAPH, figures, figures, 0.0)
    return replace(found, **changes)


@pytest.mark.parametrize(
    ("changes", "requested", "reason"),
    [
        ({}, 1000, ""),
        ({}, 1001, "the step requests 1 bytes more with the plugin"),
        ({"measured": 801}, 1000, "801 bytes measured, 800 planned"),
        ({"measured": 799}, 1000, "799 bytes measured, 800 planned"),
        ({"measured": None}, 1000, "the graph was planned, but not measured"),
        ({"after": None, "measured": None, "before": None, "reason": "streams"}, 1000, ""),
    ],
)
def test_a_difference_needs_a_reason(changes: dict[str, Any], requested: int, reason: str) -> None:
    ours = replace(USAGE, requested=requested)
    assert gpu.unexplained(replace(GRAPH, **changes), USAGE, ours) == reason


def test_kernels_that_could_not_be_called_explain_more_bytes_and_not_fewer() -> None:
    note = "what these kernels allocate while they run is not counted: 'flash'"
    graph = replace(GRAPH, note=note)
    assert not gpu.unexplained(replace(graph, measured=850), USAGE, USAGE)
    assert gpu.unexplained(replace(graph, measured=750), USAGE, USAGE)


@pytest.mark.parametrize("cuda", [None, "13.0"])
def test_without_a_gpu_it_says_so_in_one_line(
    cuda: str | None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A build with CUDA libraries is another reason than one without."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.version, "cuda", cuda)
    assert gpu.main([]) == 2
    out, err = capsys.readouterr()
    assert not out
    (line,) = err.splitlines()
    assert line.startswith(f"no GPU: torch {torch.__version__} ")
    assert ("built without CUDA" in line) is (cuda is None)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nothing"], "no step 'nothing'; there are gpt,"),
        (["--device", "tpu"], "argument --device: expected cuda or cpu, got 'tpu'"),
        (["--pairs", "0"], "argument --pairs: expected at least 1, got 0"),
    ],
)
def test_a_wrong_argument_is_one_line(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        gpu.main(arguments)
    assert stopped.value.code == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(("wrong", "code"), [("", 0), ("801 bytes measured, 800 planned", 1)])
def test_the_exit_code_says_if_all_is_explained(
    wrong: str, code: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [row(), row(graph="0/0 forward", unexplained=wrong, planned=-1)]
    monkeypatch.setattr(gpu, "measure_step", lambda *_: rows)
    assert gpu.main(["lstm", "--device", "cpu"]) == code
    out, err = capsys.readouterr()
    assert err == (f"a step 0/0 forward: {wrong}\n" if wrong else "")
    lines = out.splitlines()
    assert lines[0].startswith("step,graph,device,nodes,planned_own,")
    assert lines[-2].startswith("| a step | 0/0 backward | 900 | 800 | 800 | 1,000 | 1,000 |")
    # The figures of the step are in its first line alone.
    assert lines[-1].startswith("| a step | 0/0 forward | 900 | - | 800 |  |  |")


def test_a_step_on_the_cpu_is_planned_measured_and_explained(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with no_kernels(), config.patch(NO_CACHE):
        (forward, backward) = gpu.measure_step("layer_norms", "cpu", 1.0, 1)
    for found in (forward, backward):
        assert found.planned == found.measured > 0
        assert not found.unexplained
        assert found.requested <= found.requested_own
        assert found.requested <= found.allocated <= found.reserved
        assert found.milliseconds > 0
    assert backward.planned < backward.planned_own


class FakeGpu:
    """The functions of `torch.cuda` that the command calls."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *_: self.calls.append(name)

    def memory_stats(self, device: str) -> dict[str, int]:
        kinds = ("requested_bytes", "allocated_bytes", "reserved_bytes")
        return {f"{kind}.all.peak": 10 + i for i, kind in enumerate(kinds)}


def test_on_a_gpu_the_peaks_of_the_step_alone_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    device = FakeGpu()
    monkeypatch.setattr(gpu.torch, "cuda", device)
    found = gpu.peak_usage(lambda: device.calls.append("step"), "cuda")
    assert found == Usage(10, 11, 12)
    wanted = ["synchronize", "empty_cache", "reset_peak_memory_stats", "step", "synchronize"]
    assert device.calls == wanted
