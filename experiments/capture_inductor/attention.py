"""Transformers of the package `transformers`, randomly initialized from their configurations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from optsched.plugins.inductor.capture import Built

CAUSAL = "labels"
"""Task: predict every token."""
ANSWER = "positions"
"""Task: find the first and last token of an answer."""


class Task(nn.Module):
    """A model of the package with one output: the loss in training, the scores otherwise."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, **inputs: torch.Tensor) -> Any:
        """Run the model on one batch."""
        output = self.model(**inputs)
        if self.training:
            return output.loss
        if "logits" in output:
            return output.logits
        return tuple(value for value in output.values() if isinstance(value, torch.Tensor))


@dataclass(frozen=True)
class Language:
    """Maker of a transformer with attention written out in plain ops, and of one batch for it."""

    family: str
    """Prefix of the configuration class."""
    head: str
    """Name of the model class."""
    batch: int
    length: int
    """`batch` and `length`: sequences, and tokens in each."""
    task: str
    """`CAUSAL` or `ANSWER`: the targets that the model is given."""
    settings: Mapping[str, Any]
    """Settings of the configuration."""

    def with_settings(self, **settings: Any) -> Language:
        """Return the maker with further settings of the configuration."""
        return replace(self, settings={**self.settings, **settings})

    def __call__(self) -> Built:
        """Build the model and the batch."""
        import transformers

        config = getattr(transformers, f"{self.family}Config")(**self.settings)
        config._attn_implementation = "eager"
        config.use_cache = False
        model = getattr(transformers, self.head)(config)
        # The package falls back on this too, with a warning that would break the graph in two.
        model.loss_type = model.loss_type or "ForCausalLM"
        batch, length = self.batch, self.length
        inputs = {"input_ids": torch.randint(0, config.vocab_size, (batch, length))}
        if self.task == CAUSAL:
            inputs["labels"] = torch.randint(0, config.vocab_size, (batch, length))
        else:
            inputs["start_positions"] = torch.randint(0, length, (batch,))
            inputs["end_positions"] = torch.randint(0, length, (batch,))
        return Task(model), (), inputs


def language(
    family: str, head: str, batch: int, length: int, task: str, **settings: Any
) -> Language:
    """Return the maker of a model of the package, with settings of its configuration."""
    return Language(family, head, batch, length, task, settings)
