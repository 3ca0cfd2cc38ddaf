"""The notes' examples and whole models, lowered by Inductor with and without fusion."""

from __future__ import annotations

import contextlib
import gzip
import json
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from experiments.capture_inductor.names import variant_name
from optsched.plugins.inductor.capture import Built, CapturedGraph, capture

SIDE = 1024
"""Rows and columns of the examples' tensors."""
TERMS = 16
"""Tensors that are added up."""
TENSOR = 4 * SIDE * SIDE
"""Bytes of one tensor."""

NOTHING_FUSED: Mapping[str, Any] = {
    "max_fusion_size": 1,
    "realize_reads_threshold": 0,
    "realize_opcount_threshold": 0,
    "realize_cpu_opcount_threshold": 0,
    "realize_acc_reads_threshold": 1,
}
"""Settings without fusion in the scheduler or in the lowering: every result gets a buffer."""
_NO_LIMIT = 10**6

SETTINGS: dict[str, Mapping[str, Any]] = {
    "default": {},
    "no limit on reads": {
        "realize_reads_threshold": _NO_LIMIT,
        "realize_opcount_threshold": _NO_LIMIT,
        "realize_cpu_opcount_threshold": _NO_LIMIT,
        "realize_acc_reads_threshold": _NO_LIMIT,
    },
    "reads of 2 tensors": {"realize_acc_reads_size_threshold": 2 * TENSOR},
    "reads of 2 tensors, 4 buffers an op": {
        "realize_acc_reads_size_threshold": 2 * TENSOR,
        "max_fusion_unique_io_buffers": 4,
    },
    "no fusion in the scheduler": {"max_fusion_size": 1},
    "nothing fused": NOTHING_FUSED,
}
"""Settings of `torch._inductor.config` by what they do."""

MODELS: tuple[tuple[str, float | None], ...] = (
    ("alexnet_bs128", None),
    ("vgg16_bs64", None),
    ("resnet50_bs32", None),
    ("mobilenet_v2_bs96", None),
    ("unet_bs4", None),
    ("gpt2_bs4", None),
    ("albert_mlm_bs4", 0.5),
)
"""Of `experiments.capture_inductor`, with the budget of checkpointing; in training."""


@dataclass(frozen=True, slots=True)
class Lowered:
    """One graph: of what, lowered for which device, with which settings."""

    example: str
    device: str
    settings: str
    document: dict[str, Any]


def examples() -> Iterator[Lowered]:
    """Yield the examples of the notes for both devices under all settings that matter."""
    warnings.filterwarnings("ignore")
    makers: dict[str, Callable[[], Built]] = {
        "accumulate rand": _build_rand,
        "accumulate matmul": _build_matmul,
    }
    for fake_cuda in (False, True):
        for name, build in makers.items():
            for title, settings in SETTINGS.items():
                yield _lower(name, build, fake_cuda, title, settings)
        name = "two reductions"
        yield _lower(name, _build_reductions, fake_cuda, "default", {})
        # Shows what the rule of pull request 138756 is worth: the same graph without it.
        with _without_peak_rule():
            yield _lower(name, _build_reductions, fake_cuda, "without the rule", {})
        yield _lower(name, _build_reductions, fake_cuda, "nothing fused", NOTHING_FUSED)


def unfused_models(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield name and document of the models' graphs without fusion in the scheduler.

    They are captured into the folder if it lacks them.
    """
    from experiments.capture_inductor.capture import capture_model
    from optsched.plugins.inductor.capture import write

    warnings.filterwarnings("ignore")
    folder.mkdir(parents=True, exist_ok=True)
    settings = {"max_fusion_size": 1}
    for model, budget in MODELS:
        variant = variant_name(model, budget, fake_cuda=False)
        # Capturing takes minutes per model, so files are kept and used again.
        paths = [folder / f"{variant}.{phase}.json.gz" for phase in ("fwd", "bwd")]
        if not all(path.exists() for path in paths):
            for graph in capture_model(model, "train", budget, settings=settings):
                write(folder / graph.file_name, graph)
            print(f"{model}: captured", file=sys.stderr)
        for path in paths:
            document = json.loads(gzip.decompress(path.read_bytes()))
            yield path.name.removesuffix(".json.gz"), document


def without_local(document: dict[str, Any]) -> dict[str, Any]:
    """Give 0 bytes to buffers that only their own fused op reads: code generation drops them.

    Inductor's estimate, made before that, counts them at their op.
    """
    read = {b for buffer in document["buffers"] for b in buffer["deps"]}
    local = {
        b
        for node, count in zip(document["nodes"], document["extra"]["n_inner"], strict=True)
        for b in node["buffer_names"]
        if count > 1 and b not in read
    }
    gone = {"size_alloc": 0, "size_free": 0}
    buffers = [
        {**b, **gone} if b["name"] in local and not b["is_output"] else b
        for b in document["buffers"]
    ]
    return {**document, "buffers": buffers}


def _lower(
    name: str,
    build: Callable[[], Built],
    fake_cuda: bool,
    title: str,
    settings: Mapping[str, Any],
) -> Lowered:
    graph: CapturedGraph
    (graph,) = capture(build, phase="infer", fake_cuda=fake_cuda, model=name, settings=settings)
    return Lowered(name, "cuda" if fake_cuda else "cpu", title, graph.document)


@contextlib.contextmanager
def _without_peak_rule() -> Iterator[None]:
    """Let the scheduler fuse what pull request 138756 forbids for the sake of the peak."""
    from torch._inductor.scheduler import Scheduler

    with mock.patch.object(Scheduler, "can_fusion_increase_peak_memory", return_value=False):
        yield


def _build_rand() -> Built:
    import torch

    class Accumulate(torch.nn.Module):  # type: ignore[misc]
        def forward(self) -> Any:
            total = torch.rand(SIDE, SIDE)
            for _ in range(TERMS):
                total = total + torch.rand(SIDE, SIDE)
            return total

    return Accumulate(), (), {}


def _build_matmul() -> Built:
    import torch

    class Accumulate(torch.nn.Module):  # type: ignore[misc]
        def forward(self, xs: Any, y: Any, z: Any) -> Any:
            total = torch.zeros(SIDE, SIDE)
            for x in xs.unbind():
                total = total + (torch.matmul(x, y) + z)
            return total

    square = torch.rand(SIDE, SIDE)
    return Accumulate(), (torch.rand(TERMS, SIDE, SIDE), square, square.clone()), {}


def _build_reductions() -> Built:
    import torch

    class Reductions(torch.nn.Module):  # type: ignore[misc]
        def forward(self, a: Any, b: Any, c: Any) -> Any:
            return (a @ c).sum(dim=-1) + (b @ c).sum(dim=-1)

    tall = torch.rand(SIDE, 16)
    return Reductions(), (tall, tall.clone(), torch.rand(16, SIDE)), {}
