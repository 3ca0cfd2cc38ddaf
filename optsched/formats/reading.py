"""How files of graphs are read, and by which rules the graphs are planned, as users ask for it."""

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
from optsched.model.question import restriction_words
from optsched.model.regions import ConstantsRegion


@dataclass(frozen=True, slots=True)
class GraphReading:
    """What a graph depends on beside its file.

    Parameters
    ----------
    input_bytes, dims, profile
        As for :func:`optsched.formats.read_graph`: names and sizes of dimensions that model files
        leave open; a runtime's profile, empty without.
    inplace, align, workspace_apart, constants, streams
        As for :class:`MemoryModel`; `align` is a number of bytes, or :data:`FRAMEWORK` for what
        the file's framework rounds to, or empty.
    first, last, keep_order
        As for :meth:`OrderRules.match`: ops, or patterns, to run first or last, and groups that
        keep their sequence.

    Raises
    ------
    UsageError
        If `align` is none of these.
    """

    input_bytes: str = "recorded"
    dims: tuple[tuple[str, int], ...] = ()
    profile: str = ""
    inplace: bool = False
    align: str = ""
    workspace_apart: bool = False
    constants: str = "outside"
    streams: int | None = None
    first: tuple[str, ...] = ()
    last: tuple[str, ...] = ()
    keep_order: tuple[tuple[str, ...], ...] = ()

    def __post_init__(self) -> None:
        if self.align not in ("", FRAMEWORK):
            object.__setattr__(self, "align", str(parse_alignment(self.align)))

    @property
    def options(self) -> dict[str, Any]:
        """What the readers of graphs are told."""
        profile = self.profile or None
        return {"input_bytes": self.input_bytes, "dims": dict(self.dims), "profile": profile}

    def read(self, path: str | Path) -> Graph:
        """Read a graph in this memory model, under the order rules."""
        graph = self.read_unordered(path)
        return self.order_rules(graph).apply(graph)

    def order_rules(self, graph: Graph, baseline: Sequence[int] | None = None) -> OrderRules:
        """Return the rules for a graph's ops; groups keep the sequence of a baseline, if given."""
        return OrderRules.match(
            graph, first=self.first, last=self.last, groups=self.keep_order, baseline=baseline
        )

    @property
    def restriction(self) -> str:
        """The orders that the rules allow, in words; empty if these are all."""
        return restriction_words(OrderRules(self.first, self.last, self.keep_order))

    def read_unordered(self, path: str | Path) -> Graph:
        """Read a graph in this memory model, and without the order rules."""
        graph = read_graph(path, **self.options)
        return self._memory_model(path).apply(graph)

    def read_module(self, path: str | Path) -> Module:
        """Read all computations of a file in this memory model; of most files there is one.

        Raises
        ------
        UsageError
            If regions of their own are asked for, and there are calls: what is called has its
            workspace and constants in its block. If levels are asked for, and there are calls.
        """
        module, model = read_module(path, **self.options), self._memory_model(path)
        apart = model.workspace_apart or model.constants is not ConstantsRegion.OUTSIDE
        if module.calls and apart:
            raise UsageError(f"{path}: computations that are called have no regions of their own")
        if module.calls and self.streams is not None:
            raise UsageError(f"{path}: computations that are called go into no levels")
        return module.with_graphs(model.apply)

    def read_ordered_module(self, path: str | Path) -> Module:
        """Read all computations of a file in this memory model, under the order rules.

        Raises
        ------
        UsageError
            As :meth:`read_module`; and if there are order rules, and calls.
        """
        module = self.read_module(path)
        if module.calls and (self.first or self.last or self.keep_order):
            raise UsageError(f"{path}: has several computations, and takes no order rules")
        return module.with_graphs(lambda graph: self.order_rules(graph).apply(graph))

    def _memory_model(self, path: str | Path) -> MemoryModel:
        align = alignment_of(path, self.align) if self.align else None
        constants = ConstantsRegion(self.constants)
        return MemoryModel(self.inplace, align, self.workspace_apart, constants, self.streams)

    def record(self) -> dict[str, str | bool | None]:
        """Return it as JSON and tables show it."""
        dims = ",".join(f"{name}={size}" for name, size in self.dims)
        rules = {
            "first": ",".join(self.first),
            "last": ",".join(self.last),
            "keep_order": ";".join(map(",".join, self.keep_order)),
        }
        return {**asdict(self), "dims": dims, "align": self.align or None, **rules}


AS_RECORDED = GraphReading()
"""As the file has it."""


def is_broken_graph(path: str) -> bool:
    """Whether a file that can not be read is broken, and not simply something else we know."""
    if not Path(path).is_file():
        return False
    try:
        return sniff_file(path).holds is Content.GRAPH
    except OptschedError:
        return True
