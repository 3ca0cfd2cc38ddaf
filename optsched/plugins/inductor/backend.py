"""The backend `optsched` of `torch.compile`: Inductor with orders of least memory.

Torch finds it by the entry point `torch_dynamo_backends` of this package, so nothing has to be
imported::

    torch.compile(model, backend="optsched", options={"time_limit": 5, "cuda": True})

Options are those of :func:`optsched.plugins.inductor.enabled` and of Inductor; `mode` is as for
Inductor.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from optsched.errors import UsageError
from optsched.plugins.inductor import enabled, options
from optsched.runtime.text import listed

OURS = tuple(inspect.signature(enabled).parameters)
"""Names of our options; all others are Inductor's."""


def compile_graph(
    graph_module: Any,
    example_inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Any:
    """Compile a graph of `torch.compile` with Inductor.

    Raise `UsageError` if an option is unknown or invalid, or another pass is installed where ours
    is called.

    `graph_module`, `example_inputs`: as torch gives them to every backend. `mode`: mode of
    Inductor, such as `reduce-overhead`. `options`: options of ours and of Inductor, by name.
    """
    from torch._inductor.compile_fx import compile_fx

    patches = settings(mode, options or {})
    return compile_fx(graph_module, example_inputs, config_patches=patches)


def settings(mode: str | None, chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of Inductor for a mode and options."""
    import torch
    from torch._inductor import config

    ours = {name: value for name, value in chosen.items() if name in OURS}
    theirs = {name: value for name, value in chosen.items() if name not in OURS}
    known = config.get_config_copy()
    for name in theirs:
        # Inductor accepts both spellings.
        if name.replace("-", "_") not in known:
            raise UsageError(
                f"backend 'optsched' has no option {name!r}: "
                f"it has {listed(OURS, len(OURS))} and those of Inductor"
            )
    # Torch's own wrapper knows what a mode means.
    inductor = torch._TorchCompileInductorWrapper(mode, theirs or None, None)
    return {**inductor.config, **options(**ours)}
