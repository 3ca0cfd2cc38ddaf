"""One capture of the study, under the conditions that all of them share."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch

from experiments.capture_inductor.models import MODELS
from experiments.capture_inductor.names import variant_name
from optsched.plugins.inductor.capture import CapturedGraph, Observe, Phase, capture

THREADS = 2
"""For which Inductor lowers: with one thread it makes other choices (scatters), with two or more
the same ones. No kernel runs here."""


def capture_model(
    name: str,
    phase: Phase,
    budget: float | None = None,
    fake_cuda: bool = False,
    observe: Observe | None = None,
    settings: Mapping[str, Any] | None = None,
    parts: bool = False,
) -> list[CapturedGraph]:
    """Capture a model of the study; budget and device become part of its name, settings do not."""
    torch.set_num_threads(THREADS)
    graphs = capture(
        MODELS[name],
        phase=phase,
        activation_memory_budget=budget,
        fake_cuda=fake_cuda,
        model=variant_name(name, budget, fake_cuda),
        observe=observe,
        settings=settings,
        parts=parts,
    )
    for graph in graphs:
        graph.document["extra"].update(
            activation_memory_budget=budget,
            threads=THREADS,
            transformers=_version("transformers"),
        )
    return graphs


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
