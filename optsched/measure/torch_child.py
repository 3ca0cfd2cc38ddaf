"""An exported program of PyTorch, compiled by TorchInductor without and with our plugin.

Bytes are those that torch's profiler sees allocated within the call of the compiled graph.

This module imports torch at its top: import it inside the function that needs it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from torch._inductor import config
from torch.utils import _pytree as pytree

from optsched.errors import FormatError
from optsched.measure.result import Held, Measurement
from optsched.measure.torch_calls import count_calls
from optsched.plugins import forget, records
from optsched.plugins.inductor import enabled

_SETTINGS = {"force_disable_caches": True, "profiler_mark_wrapper_call": True}
"""Settings with which each compilation is one, and its call is named in a profile."""


def run(path: str, seconds: float) -> Measurement:
    """Compile and run a program twice."""
    program = load_program(path)
    before, outputs = _run(program, None)
    forget()
    after, again = _run(program, seconds)
    # The bytes of several graphs cannot be compared with those of one call: then only the count is
    # told.
    record = records()[-1] if len(records()) == 1 else None
    notes = (str(record),) if record else (f"{len(records())} graphs were compiled",)
    return Measurement(
        Path(path).stem,
        f"torch.compile {torch.__version__}",
        Held(record.before if record else None, before),
        Held(record.planned if record else None, after),
        same_outputs=outputs == again,
        weights=weight_bytes(program),
        notes=notes,
    )


def load_program(path: str) -> Any:
    """Read an exported program with its example inputs.

    Raise `FormatError` if PyTorch cannot read it, or it has no example inputs.
    """
    try:
        program = torch.export.load(path)
    except Exception as error:
        raise FormatError(f"torch.export.load cannot read it ({type(error).__name__})") from None
    if program.example_inputs is None:
        raise FormatError("the program has no example inputs: export it with the inputs to run")
    return program


def weight_bytes(program: Any) -> int:
    """Return the bytes of parameters and buffers."""
    return sum(x.numel() * x.element_size() for x in program.state_dict.values())


def digest(outputs: Any) -> str:
    """Return a digest of all tensors of an output."""
    found = sha256()
    for value in pytree.tree_leaves(outputs):
        is_tensor = isinstance(value, torch.Tensor)
        data = value.detach().contiguous().view(-1).view(torch.uint8) if is_tensor else value
        # As raw bytes: numpy has no bfloat16, and equal bits are asked for, not equal numbers.
        found.update(data.numpy().tobytes() if is_tensor else repr(data).encode())
    return found.hexdigest()


def _run(program: Any, seconds: float | None) -> tuple[int, str]:
    """Compile and run a program; return the bytes held in its second call, and its outputs."""
    # Else the second compilation would find the code of the first, without our plugin.
    torch._dynamo.reset()
    arguments, named = program.example_inputs
    with _settings(seconds), torch.no_grad():
        compiled = torch.compile(program.module())
        compiled(*arguments, **named)
        outputs: list[Any] = []
        # The first call compiles, and allocates what stays for all calls: only the second is
        # counted.
        calls = count_calls(lambda: outputs.append(compiled(*arguments, **named)))
    return max((call.rise for call in calls), default=0), digest(outputs)


@contextmanager
def _settings(seconds: float | None) -> Iterator[None]:
    with ExitStack() as stack:
        stack.enter_context(config.patch(_SETTINGS))
        if seconds is not None:
            # The default leaves small savings alone; here each saving, however small, is run.
            stack.enter_context(enabled(time_limit=seconds, min_gain=0))
        yield
