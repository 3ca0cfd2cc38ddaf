"""Figures published in the notes, and the lowerings made again for them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from experiments.capture_inductor.names import variant_name
from optsched.plugins.inductor.capture import Phase

BUDGET = 0.5
"""Share of activations kept under checkpointing; the notes do not say theirs."""


@dataclass(frozen=True, slots=True)
class Published:
    """A row of the notes' tables.

    Parameters
    ----------
    title
        Name in the notes.
    batch
        Batch size.
    checkpointed
        True if the row is of the table with compiler-based activation checkpointing.
    baseline, new
        Peak memory in GB as printed, measured on a GPU.
    """

    title: str
    batch: int
    checkpointed: bool
    baseline: str
    new: str


PUBLISHED: dict[str, Published] = {
    "alexnet_bs128": Published("alexnet", 128, False, "1.17", "0.99"),
    "vgg16_bs64": Published("vgg16", 64, False, "4.10", "3.57"),
    "debertav2_qa_bs1": Published("DebertaV2ForQuestionAnswering", 1, False, "11.60", "10.56"),
    "albert_mlm_bs4": Published("AlbertForMaskedLM", 4, True, "6.87", "6.43"),
    "albert_qa_bs4": Published("AlbertForQuestionAnswering", 4, True, "8.69", "7.76"),
    "mobilebert_qa_bs128": Published("MobileBertForQuestionAnswering", 128, True, "4.67", "3.90"),
}
"""All six rows, by the name of the model in `experiments.capture_inductor`."""


@dataclass(frozen=True, slots=True)
class SeedSetup:
    """One lowering of a model of the notes: one capture, of one graph or of two."""

    model: str
    phase: Phase
    budget: float | None
    fake_cuda: bool

    @property
    def files(self) -> tuple[str, ...]:
        """Names of the files that a capture gives for a model that does not break in parts."""
        variant = variant_name(self.model, self.budget, self.fake_cuda)
        phases = ("fwd", "bwd") if self.phase == "train" else ("infer",)
        return tuple(f"{variant}.{phase}.json.gz" for phase in phases)


def all_setups() -> Iterator[SeedSetup]:
    """Yield each model for both devices: training, training checkpointed, inference."""
    for fake_cuda in (False, True):
        for model in PUBLISHED:
            yield SeedSetup(model, "train", None, fake_cuda)
            yield SeedSetup(model, "train", BUDGET, fake_cuda)
            yield SeedSetup(model, "infer", None, fake_cuda)
