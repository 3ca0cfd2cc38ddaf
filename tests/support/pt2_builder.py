"""Writes exported programs of PyTorch as `.pt2` archives, without PyTorch."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

FLOAT32, INT64, STRIDED = 7, 5, 7
Size = int | str


def symbol(name: str) -> str:
    """Return a symbol as SymPy represents it."""
    return f"Symbol('{name}', positive=True, integer=True)"


def tensor(*names: str) -> dict[str, Any]:
    """Return an argument that is a tensor, or a list of several."""
    named = [{"name": name} for name in names]
    return {"as_tensor": named[0]} if len(names) == 1 else {"as_tensors": named}


def _size(size: Size) -> dict[str, Any]:
    return {"as_int": size} if isinstance(size, int) else {"as_expr": {"expr_str": size}}


@dataclass
class ProgramBuilder:
    """Collects what the JSON of an exported program holds."""

    inputs: list[Any] = field(default_factory=list)
    nodes: list[Any] = field(default_factory=list)
    values: dict[str, Any] = field(default_factory=dict)
    ranges: dict[str, Any] = field(default_factory=dict)

    def value(
        self,
        name: str,
        shape: Sequence[Size],
        strides: Sequence[Size] | None = None,
        dtype: int = FLOAT32,
        **fields: Any,
    ) -> str:
        """Add a tensor; without strides it is contiguous, and so of numbers."""
        if strides is None:
            strides = [prod(shape[i + 1 :]) for i in range(len(shape))]  # type: ignore[arg-type]
        self.values[name] = {
            "dtype": dtype,
            "sizes": [_size(x) for x in shape],
            "requires_grad": False,
            "device": {"type": "cpu", "index": None},
            "strides": [_size(x) for x in strides],
            "storage_offset": {"as_int": 0},
            "layout": STRIDED,
            **fields,
        }
        return name

    def input(self, name: str, shape: Sequence[Size], kind: str = "user_input", **more: Any) -> str:
        """Add an input; `kind` is `parameter`, `buffer` or `tensor_constant` for a constant."""
        arg = tensor(name) if kind == "user_input" else {"name": name}
        self.inputs.append({kind: {"arg": arg}})
        return self.value(name, shape, **more)

    def node(
        build,  # noqa: N805 (`self` is the name of an argument of most operators)
        target: str,
        outputs: Mapping[str, Sequence[int]],
        *,
        name: str | None = None,
        listed: bool = False,
        makes: Sequence[Any] = (),
        strides: Sequence[int] | None = None,
        **arguments: Any,
    ) -> None:
        """Add a node; texts among the arguments are tensors."""
        for output, shape in outputs.items():
            build.value(output, shape, strides)
        given = [
            {"name": key, "arg": tensor(x) if isinstance(x, str) else x, "kind": 1}
            for key, x in arguments.items()
        ]
        made = [tensor(*outputs)] if listed else [tensor(x) for x in outputs]
        first = next(iter(outputs), f"node_{len(build.nodes)}")
        entry = {"target": f"torch.ops.{target}", "inputs": given, "outputs": [*made, *makes]}
        build.nodes.append({**entry, "metadata": {}, "name": name or first})

    def graph(self, *outputs: str) -> dict[str, Any]:
        """Return the graph alone, as a node that runs it holds it."""
        given = [next(iter(entry.values()))["arg"] for entry in self.inputs]
        return {
            "inputs": [x if "as_tensor" in x else {"as_tensor": x} for x in given],
            "outputs": [tensor(name) for name in outputs],
            "nodes": self.nodes,
            "tensor_values": self.values,
            "sym_int_values": {},
            "sym_bool_values": {},
        }

    def document(self, *outputs: str) -> dict[str, Any]:
        """Return the program."""
        signature = {"input_specs": self.inputs, "output_specs": []}
        return {
            "graph_module": {"graph": self.graph(*outputs), "signature": signature},
            "range_constraints": self.ranges,
            "schema_version": {"major": 8, "minor": 20},
        }

    def archive(self, *outputs: str) -> bytes:
        """Return the file."""
        return archive_of(self.document(*outputs))


def archive_of(document: Any, name: str = "net/models/model.json", **members: bytes) -> bytes:
    """Return an archive that holds a program, and further files."""
    text = document if isinstance(document, bytes) else json.dumps(document).encode()
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("net/archive_format", "pt2")
        archive.writestr(name, text)
        for member, data in members.items():
            archive.writestr(member, data)
    return made.getvalue()
