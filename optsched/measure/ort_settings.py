"""Settings with which a planned ONNX model holds fewest bytes, as measured in ONNX Runtime.

Without fusions the runtime runs the planned ops, and holds the planned bytes. With them it runs
other ops, which may need less scratch or may lose the order: which of the two holds less depends on
the model, so both are run.

Example: a speech model is planned with 7,987,352 bytes. Without fusions it holds 34,623,552, most
of them scratch of its convolutions, and with them 7,987,200; its file holds 16,781,376 by default.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from typing import Any, Final

from optsched.errors import OptschedError
from optsched.measure.onnxruntime import BASIC, IN_ORDER, describe_inputs, request, run_all
from optsched.model.graph import Graph

LEVELS: Final = ("ORT_ENABLE_ALL", BASIC)
"""Levels of optimization that are tried; among equals the first is chosen, which is faster."""


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """Settings of a session, and the bytes that it holds.

    Parameters
    ----------
    level
        Level of optimization for the planned model, which runs in the order of its file.
    held, default
        Bytes that the planned model holds with these settings, and those that the model holds
        without a plan in a session with default settings.
    """

    level: str
    held: int
    default: int

    def __str__(self) -> str:
        text = f"measured: holds {self.held:,} bytes"
        if self.held <= self.default:
            return f"{text}, the default session of the original model {self.default:,}"
        return f"{text}, more than the default session of the original model ({self.default:,})"

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return asdict(self)


def find_settings(path: str, planned: str, graph: Graph) -> SessionSettings | None:
    """Return the settings with which a planned model holds fewest bytes.

    None if they cannot be measured here: without ONNX Runtime, Linux or a C compiler, or if the
    runtime does not run the model.

    Parameters
    ----------
    path, planned
        Paths of the model, and of the file with its plan.
    graph
        Graph of the model, with the sizes of its open dimensions.
    """
    is_here = find_spec("onnxruntime") is not None and shutil.which("cc") is not None
    if not is_here or sys.platform != "linux":
        return None
    try:
        inputs = describe_inputs(path, dict(graph.dims))
        # The original model as users run it by default, then the planned one at each level.
        runs = [request(path, inputs)]
        for level in LEVELS:
            settings = {**IN_ORDER, "graph_optimization_level": level}
            runs.append(request(planned, inputs, **settings))
        with tempfile.TemporaryDirectory() as folder:
            default, *found = run_all(runs, folder)
    except OptschedError:
        return None
    # A level at which the runtime fails is left out; the other may still run.
    held = {level: run["held"] for level, run in zip(LEVELS, found, strict=True) if "held" in run}
    if not held or "held" not in default:
        return None
    best = min(held, key=held.__getitem__)
    return SessionSettings(best, held[best], default["held"])
