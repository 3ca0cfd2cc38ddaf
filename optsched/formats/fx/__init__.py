"""PyTorch's programs: `.pt2` files of `torch.export`, and live `GraphModule`s.

`archive` finds the program in a file, `exported` and `live` make an :class:`FxProgram` of it,
`aliases` says which tensors share bytes, `graph` makes the graph.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from optsched.formats.format import Source
from optsched.formats.fx.archive import read_program_json
from optsched.formats.fx.exported import EDGE, read_program, read_targets
from optsched.formats.fx.graph import build_graph
from optsched.formats.fx.live import from_fx
from optsched.model.graph import Graph

__all__ = ["from_fx", "read_orders", "read_pt2"]


def read_pt2(source: Source, *, dims: Mapping[str, int] | None = None) -> Graph:
    """Make a graph of a `.pt2` file; PyTorch is not needed, and no pickle inside is opened.

    `dims` are numbers for sizes that the program leaves open, by symbol or as `INPUT.AXIS`. It
    raises `FormatError` if the archive is damaged, holds no program, or the size of a tensor is
    unknown, `UsageError` if the program has no dimension of a name that is given.
    """
    return build_graph(read_program(_document(source), dims or {}), source.name)


def _document(source: Source) -> Mapping[str, Any]:
    inner = Source(read_program_json(source.data))
    if inner.trouble is not None:
        raise inner.trouble
    return inner.document


def read_orders(source: Source) -> dict[str, tuple[int, ...]]:
    """Return the order of the program, which the interpreter of FX follows, and ExecuTorch."""
    targets = read_targets(_document(source))
    names = ["fx", "executorch"] if any(x.startswith(EDGE) for x in targets) else ["fx"]
    return dict.fromkeys(names, tuple(range(len(targets))))
