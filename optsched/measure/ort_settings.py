"""Settings with which a planned ONNX model holds fewest bytes, as measured in ONNX Runtime.

Without fusions the runtime runs the planned ops, and holds the planned bytes. With them it runs
other ops, which may need less scratch or may lose the order: which of the two holds less depends on
the model, so both are run. Even the basic level puts a Gemm in the place of MatMul and Add, which
then runs after all other ops; the planned order is certain only without any optimization.

Example: a speech model is planned with 7,987,352 bytes. Without fusions it holds 34,623,552, most
of them scratch of its convolutions, and with them 7,987,200; its file holds 16,781,376 by default.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from optsched.formats.onnx.session import session_of
from optsched.model.graph import Graph

_CLASSES: Final = {
    "execution_order": "ExecutionOrder",
    "graph_optimization_level": "GraphOptimizationLevel",
}
"""Classes of ONNX Runtime that settings are members of."""


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """Settings of a session, and the bytes that it holds."""

    settings: Mapping[str, Any]
    """Attributes of the session's options by name; none for a default session."""
    held: int
    default: int
    """`held` and `default`: bytes that the planned model holds with these settings, and those that
    the model holds without a plan in a session with default settings."""
    model: str = ""
    """Path of the planned model."""

    @property
    def load(self) -> str:
        """Instruction to load the file with the plan: a program, if settings are needed."""
        if not self.settings:
            return "Load with the default settings of a session: no others hold fewer bytes"
        named = (f"options.{name} = {_value(name, value)}" for name, value in self.settings.items())
        lines = ("import onnxruntime", "", "options = onnxruntime.SessionOptions()", *named)
        last = f"session = onnxruntime.InferenceSession({self.model!r}, options)"
        return "\n".join(("Load with:", *lines, last))

    def __str__(self) -> str:
        text = f"measured: holds {self.held:,} bytes"
        if self.held <= self.default:
            return f"{text}, the default session of the original model {self.default:,}"
        return f"{text} at best, the default session of the original model {self.default:,}"

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return {**asdict(self), "settings": dict(self.settings)}


def _value(name: str, value: Any) -> str:
    return f"onnxruntime.{_CLASSES[name]}.{value}" if name in _CLASSES else str(value)


def find_settings(graph: Graph, order: Sequence[int], output: str) -> SessionSettings | None:
    """Return the settings with which a planned model holds fewest bytes.

    None if they cannot be measured here: without ONNX Runtime, Linux or a C compiler, or if the
    runtime does not run the model.

    `graph`: graph of the model, with the sizes of its open dimensions. `order`: op ids of the plan,
    first to run first. `output`: path of the file with the plan.
    """
    session = session_of(graph)
    default = session.held()
    best = session.best([graph.ops[v].name for v in order], None)
    if isinstance(default, str) or isinstance(best, str):
        return None
    return SessionSettings(best.settings, best.held, default, output)
