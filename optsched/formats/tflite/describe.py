"""Facts about a TFLite model that need no sizes, for models that cannot be planned."""

from __future__ import annotations

from collections import Counter

from optsched.formats.format import FileFacts, Source
from optsched.formats.tflite.model import Tensor, read_model


def describe(source: Source) -> FileFacts:
    """Return inputs, outputs and operators of a model's first subgraph."""
    model = read_model(source.data)
    return FileFacts(
        inputs=tuple(_tensor(model.tensors[t]) for t in model.inputs),
        outputs=tuple(_tensor(model.tensors[t]) for t in model.outputs),
        ops=Counter(op.kind for op in model.operators),
    )


def _tensor(tensor: Tensor) -> str:
    return f"{tensor.name} [{', '.join(map(str, tensor.signature or tensor.shape))}]"
