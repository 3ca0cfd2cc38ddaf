"""Options for reading graphs: memory model and order rules, as users give them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from optsched.errors import OptschedError, UsageError
from optsched.formats import (
    FRAMEWORK,
    Content,
    alignment_of,
    read_graph,
    read_module,
    sniff_file,
)
from optsched.model.graph import Graph
from optsched.model.memory_model import MemoryModel, parse_alignment
from optsched.model.module import Module
from optsched.model.order_rules import OrderRules
from optsched.model.regions import ConstantsRegion


@dataclass(frozen=True, slots=True)
class GraphReading:
    """Options that determine a graph besides its file.

    Parameters
    ----------
    input_bytes, dims, profile
        As for :func:`optsched.formats.read_graph`: size of freed inputs, sizes of open dimensions
        by name, and path of a runtime's profile (empty for none).
    inplace, align, workspace_apart, constants, streams
        As for :class:`MemoryModel`; `align` is a number of bytes, :data:`FRAMEWORK` for the
        alignment of the file's framework, or empty.
    first, last, keep_order
        As for :meth:`OrderRules.match`: names or patterns of ops to run first or last, and groups
        that keep their sequence.

    Raises
    ------
    UsageError
        If `align` has another value.
    """

    input_bytes: str = "recorded"
    dims: tuple[tuple[str, int], ...] = ()
    profile: str = ""
    inplace: bool | None = None
    align: str = ""
    workspace_apart: bool = False
    constants: str = "outside"
    streams: int | None = None
    first: tuple[str, ...] = ()
    last: tuple[str, ...] = ()
    keep_order: tuple[tuple[str, ...], ...] = ()

    def __post_init__(self) -> None:
        if self.align not in ("", FRAMEWORK):
            # Parsed once, so that equal options are equal texts.
            object.__setattr__(self, "align", str(parse_alignment(self.align)))

    @property
    def options(self) -> dict[str, Any]:
        """Options for the readers of graphs."""
        profile = self.profile or None
        return {"input_bytes": self.input_bytes, "dims": dict(self.dims), "profile": profile}

    def read(self, path: str | Path) -> Graph:
        """Read a graph in this memory model, under the order rules."""
        graph = self.read_unordered(path)
        return self.order_rules(graph).apply(graph)

    @property
    def has_rules(self) -> bool:
        """True if orders must keep rules."""
        return bool(self.first or self.last or self.keep_order)

    def order_rules(self, graph: Graph, baseline: Sequence[int] | None = None) -> OrderRules:
        """Return the rules for a graph's ops; groups keep the sequence of `baseline`, if given."""
        return OrderRules.match(
            graph, first=self.first, last=self.last, groups=self.keep_order, baseline=baseline
        )

    def read_unordered(self, path: str | Path) -> Graph:
        """Read a graph in this memory model, without order rules."""
        graph = read_graph(path, **self.options)
        return self._memory_model(path).apply(graph)

    def read_module(self, path: str | Path) -> Module:
        """Read all computations of a file in this memory model; most files have only one.

        Raises
        ------
        UsageError
            If separate regions or levels are requested for a module with calls: the workspace and
            constants of a called computation are part of its block.
        """
        module, model = read_module(path, **self.options), self._memory_model(path)
        apart = model.workspace_apart or model.constants is not ConstantsRegion.OUTSIDE
        # A region for workspace or constants belongs to the whole module, not to one computation.
        if module.calls and apart:
            raise UsageError(f"{path}: called computations cannot have separate regions")
        if module.calls and self.streams is not None:
            raise UsageError(f"{path}: called computations cannot have levels")
        return module.with_graphs(model.apply)

    def read_ordered_module(self, path: str | Path) -> Module:
        """Read all computations of a file in this memory model, under the order rules.

        Raises
        ------
        UsageError
            As :meth:`read_module`; also for order rules with calls.
        """
        module = self.read_module(path)
        if module.calls and self.has_rules:
            raise UsageError(
                f"{path}: order rules do not apply to a file with several computations"
            )
        return module.with_graphs(lambda graph: self.order_rules(graph).apply(graph))

    def _memory_model(self, path: str | Path) -> MemoryModel:
        align = alignment_of(path, self.align) if self.align else None
        constants = ConstantsRegion(self.constants)
        return MemoryModel(self.inplace, align, self.workspace_apart, constants, self.streams)

    def record(self) -> dict[str, str | bool | None]:
        """Return the options as JSON values."""
        dims = ",".join(f"{name}={size}" for name, size in self.dims)
        # Lists as texts, as in a command line.
        rules = {
            "first": ",".join(self.first),
            "last": ",".join(self.last),
            "keep_order": ";".join(map(",".join, self.keep_order)),
        }
        return {**asdict(self), "dims": dims, "align": self.align or None, **rules}


AS_RECORDED = GraphReading()
"""Default options: the graph as recorded in the file."""


def is_broken_graph(path: str) -> bool:
    """Return True if an unreadable file is a broken graph, not another known kind of file."""
    if not Path(path).is_file():
        return False
    try:
        return sniff_file(path).holds is Content.GRAPH
    except OptschedError:
        return True
