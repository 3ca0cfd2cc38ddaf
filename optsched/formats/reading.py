"""Options for reading graphs: memory model and order rules, as users give them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from optsched.errors import OpenDimensionsError, OptschedError, UnknownDimensionError, UsageError
from optsched.formats import FRAMEWORK, Content, alignment_of, read_graph, read_module, sniff_file
from optsched.model.graph import Graph
from optsched.model.limits import parse_limits
from optsched.model.memory_model import MemoryModel, parse_alignment
from optsched.model.module import Module
from optsched.model.order_rules import OrderRules
from optsched.model.regions import ConstantsRegion

Read = TypeVar("Read", Graph, Module)


@dataclass(frozen=True, slots=True)
class GraphReading:
    """Options that determine a graph besides its file.

    Raise `UsageError` if `align` has another value.
    """

    input_bytes: str = "recorded"
    dims: tuple[tuple[str, int], ...] = ()
    profile: str = ""
    """`input_bytes`, `dims` and `profile`: as for :func:`optsched.formats.read_graph`: size of
    freed inputs, sizes of open dimensions by name, and path of a runtime's profile (empty for
    none)."""
    dims_by_file: tuple[tuple[str, str, int], ...] = ()
    """Sizes for single files: path, or its end, dimension and size."""
    shared_dims: bool = False
    """True if `dims` are for several files: each file uses those that it has."""
    inplace: bool | None = None
    align: str = ""
    workspace_apart: bool = False
    constants: str = "outside"
    streams: int | None = None
    below: tuple[str, ...] = ()
    """`inplace`, `align`, `workspace_apart`, `constants`, `streams` and `below`: as for
    :class:`MemoryModel`; `below` has texts such as `x=4096`; `align` is a number of bytes,
    :data:`FRAMEWORK` for the alignment of the file's framework, or empty."""
    first: tuple[str, ...] = ()
    last: tuple[str, ...] = ()
    keep_order: tuple[tuple[str, ...], ...] = ()
    """`first`, `last` and `keep_order`: as for :meth:`OrderRules.match`: names or patterns of ops
    to run first or last, and groups that keep their sequence."""

    def __post_init__(self) -> None:
        if self.align not in ("", FRAMEWORK):
            # Parsed once, so that equal options are equal texts.
            object.__setattr__(self, "align", str(parse_alignment(self.align)))
        object.__setattr__(self, "below", tuple(self.below))

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
        return self._memory_model(path).apply(self._read(read_graph, path))

    def _read(self, read: Callable[..., Read], path: str | Path) -> Read:
        """Read a file with the sizes of open dimensions that are meant for it."""
        dims = dict(self.dims) | {
            name: size for end, name, size in self.dims_by_file if _ends_with(path, end)
        }
        # Each turn drops a size or fills in all of them, so the last one reads or raises.
        for _ in range(len(dims) + 1):
            try:
                return read(path, **self.options | {"dims": dims})
            except UnknownDimensionError as error:
                if not self.shared_dims or error.dimension not in dict(self.dims):
                    raise
                dims.pop(error.dimension, None)
        return read(path, **self.options | {"dims": dims})

    def suggested_dims(self, path: str | Path) -> dict[str, int]:
        """Return sizes of dimensions that a file leaves open, as its reader suggests them.

        The sizes in `dims` that the file has are among them; other files have none.
        """
        try:
            # A pipe can be read only once: where it is planned.
            if Path(path).is_file():
                self._read(read_graph, path)
        except OpenDimensionsError as error:
            return dict(error.sizes or {})
        # All other errors are reported where the file is planned.
        except OptschedError:
            return {}
        return {}

    def require_used_dims(self, paths: Iterable[str | Path]) -> None:
        """Raise `UsageError` for a size of a dimension that is in no file."""
        for name, size in self.dims if self.shared_dims else ():
            alone = replace(self, dims=((name, size),), shared_dims=False)
            if not any(map(alone._knows_dims, paths)):
                raise UsageError(
                    f"no file has an open dimension {name!r}; leave out --dim {name}={size}"
                )

    def _knows_dims(self, path: str | Path) -> bool:
        # A pipe can be read only once: where it is planned.
        if not Path(path).is_file():
            return True
        try:
            read_graph(path, **self.options)
        except UnknownDimensionError:
            return False
        # All other errors are reported where the file is planned.
        except OptschedError:
            return True
        return True

    def read_module(self, path: str | Path) -> Module:
        """Read all computations of a file in this memory model; most files have only one.

        Raises
        ------
        UsageError
            If separate regions or levels are requested for a module with calls: the workspace and
            constants of a called computation are part of its block.
        """
        module, model = self._read(read_module, path), self._memory_model(path)
        apart = model.workspace_apart or model.constants is not ConstantsRegion.OUTSIDE
        # A region for workspace or constants belongs to the whole module, not to one computation.
        if module.calls and apart:
            raise UsageError(f"{path}: called computations cannot have separate regions")
        if module.calls and self.streams is not None:
            raise UsageError(f"{path}: called computations cannot have levels")
        if module.calls and self.below:
            raise UsageError(f"{path}: called computations cannot have upper limits of addresses")
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
        below = tuple(parse_limits(self.below).items())
        return MemoryModel(
            self.inplace, align, self.workspace_apart, constants, self.streams, below
        )

    def record(self) -> dict[str, str | bool | None]:
        """Return the options as JSON values."""
        dims = ",".join(f"{name}={size}" for name, size in self.dims)
        # Lists as texts, as in a command line.
        rules = {
            "first": ",".join(self.first),
            "last": ",".join(self.last),
            "keep_order": ";".join(map(",".join, self.keep_order)),
            "below": ",".join(self.below),
        }
        found = {**asdict(self), "dims": dims, "align": self.align or None, **rules}
        apart = {x: n for x, n in found.items() if x not in _HOW_DIMS_ARE_GIVEN}
        by_file = ",".join(f"{end}:{name}={size}" for end, name, size in self.dims_by_file)
        return apart | {"dims": ",".join(x for x in (dims, by_file) if x)}


_HOW_DIMS_ARE_GIVEN = ("dims_by_file", "shared_dims")


def _ends_with(path: str | Path, end: str) -> bool:
    """Return True if the last parts of a path are those of `end`."""
    wanted = Path(end).parts
    return Path(path).parts[-len(wanted) :] == wanted


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
