"""Common parts of all kinds of plan files: the question, the answer, and proved bounds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from optsched.check.claims import Unverified
from optsched.errors import FormatError, UsageError
from optsched.formats.format import Content, Format, Source
from optsched.formats.layout import PlanLayout, layout_of
from optsched.formats.opening import open_source, read_file, read_module_file
from optsched.formats.reading import AS_RECORDED, GraphReading
from optsched.formats.source import errors_named, label_of
from optsched.formats.table import find_format
from optsched.model.graph import Graph
from optsched.model.memory_model import MemoryModel
from optsched.model.module import Module, module_of
from optsched.runtime.limits import Objective

if TYPE_CHECKING:
    from optsched.check.replay import Replayed
    from optsched.model.fused import FusedGraph
    from optsched.model.plan import Plan

READING = frozenset({"--dim", "--profile", "--input-bytes"})
MODEL = frozenset(f"--{x.name.replace('_', '-')}" for x in fields(MemoryModel))
RULES = frozenset({"--first", "--last", "--keep-order", "--baseline", "--max-moved"})
REPEATS = frozenset({"--cost", "--costs", "--loss", "--peak"})
QUESTION = READING | MODEL | RULES | REPEATS | {"--replay"}
"""Options that ask something of a plan file; each kind takes some of them."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The question of a caller: a graph and options, never the words of a plan's file."""

    graph: str | Path | Graph | Module
    """Graph or module, or the path of its file."""
    how: GraphReading = AS_RECORDED
    """Reading of the file, and order rules."""
    near: str | Path | None = None
    """Path of the plan whose order is the baseline; None for the order of the graph."""
    max_moved: int | None = None
    """Ops of the baseline that may move."""
    loss: tuple[str, ...] = ()
    peak: int | None = None
    """`loss` and `peak`: ops that make the loss, and most live bytes, for plans with repeats;
    found, and those of the plan, by default."""
    price: Callable[[Graph], Graph] = field(default=lambda graph: graph)
    """Gives a graph the costs of one more run of each op."""
    given: tuple[str, ...] = ()
    """Options that the caller has given, such as `--first`."""
    options: Mapping[str, Any] | None = None
    """Options of readers in place of `how`, where no memory model is asked for."""
    adapts: bool = False
    """True if the plan's file may say that ops write in place, where only its bytes matter."""
    verb: str = "check"
    """Word for the use of the plan in messages."""
    file: str | Path | None = None
    """Path of the file of a `graph` that is read already; None if it has none."""

    def one_graph(self) -> Graph:
        """Return the graph, without order rules."""
        if isinstance(self.graph, Module):
            return self.graph.graphs[self.graph.entry]
        if isinstance(self.graph, Graph):
            return self.graph
        if self.options is None:
            return self.how.read_unordered(self.graph)
        found: Graph = read_file(self.graph, Content.GRAPH, **self.options)
        return found

    def module(self) -> Module:
        """Return all computations of the file."""
        if isinstance(self.graph, Graph):
            return module_of(self.graph)
        if isinstance(self.graph, Module):
            return self.graph
        if self.options is None:
            return self.how.read_module(self.graph)
        return read_module_file(self.graph, self.options)

    def writes_in_place(self, path: str, *, planned: bool, allowed: bool) -> bool:
        """Return True if ops write in place; raise `UsageError` if only the plan's file does."""
        if planned and not allowed and not self.adapts:
            # Without the option the plan would fail in a way that nobody understands.
            raise UsageError(f"{path}: an in-place plan: {self.verb} it with --inplace")
        return planned if self.adapts else allowed


@dataclass(frozen=True, slots=True)
class Proved:
    """A lower bound with a valid certificate, and the plans that it is about."""

    bound: int | None
    """Bytes, or the cost of repeats; None if no such plan exists at all."""
    words: str
    """The whole statement, with the plans that it is about."""
    covers: bool
    """True if all plans that the question asks for are among these."""
    proof: str = ""
    """Kind of proof; empty where there is only one."""
    among: str = ""
    """The plans that the bound is about; empty if they are all plans."""
    of_file: int = 0
    """The bound as far as it proves what the plan's file claims of its own question."""
    quantity: Objective = Objective.PEAK
    """Quantity of the bound."""

    def record(self) -> dict[str, Any]:
        """Return the bound for JSON: as a bound only if it is one of the question asked."""
        fields = {"bound": self.bound} | ({"bound_proof": self.proof} if self.proof else {})
        fields |= {"among": self.among} if self.among else {}
        return fields if self.covers else {"restricted_bound": fields}


class Answer(ABC):
    """A valid plan of a file, and what is known about it.

    `path`, `holds`, `row`, `source`: name, kind, format and data of the file. `asked`: the
    question.

    Attributes
    ----------
    planned
        The graph, module or fused graph.
    record, lines
        Measured figures, for JSON and in words.
    parts
        Graph and plan of each computation whose order and offsets the file has, the entry first;
        with one op per run for plans with repeats.
    claims
        Fields of the file beside its plan, of the entry.
    """

    takes: ClassVar[frozenset[str]]
    """Options of the question that this kind of plan answers to."""
    certificate: ClassVar[Content]
    """Content of the certificates that are about such plans."""
    planned: Graph | Module | FusedGraph
    record: dict[str, Any]
    lines: list[str]
    claims: Mapping[str, Any]
    parts: Mapping[str, tuple[Graph, Plan]]

    def __init__(
        self, path: str, holds: Content, row: Format, source: Source, asked: Asked
    ) -> None:
        self.path, self.holds, self.row, self.source, self.asked = path, holds, row, source, asked
        self.parts, self.claims = {}, {}
        self.subject()
        with errors_named(path):
            self.read()

    @abstractmethod
    def subject(self) -> None:
        """Read the graph, and set :attr:`planned`."""

    @abstractmethod
    def read(self) -> None:
        """Read the file, check its plan and its claims, and set the other attributes."""

    @abstractmethod
    def proved(self, certificate: Any) -> Proved:
        """Check a certificate, and return its bound with the plans that it is about."""

    @abstractmethod
    def unverified(self, proved: Proved | None) -> Sequence[Unverified]:
        """Return the claims of the file that nothing has shown, beside those that are refuted."""

    def replay(self) -> Replayed:
        """Execute the plan on patterns of bytes."""
        raise NotImplementedError

    @property
    def restriction(self) -> str:
        """The plans that the file's own bounds are about, in words; empty for all plans."""
        return ""

    def layout(self, name: str) -> PlanLayout:
        """Return the layout of a computation by names."""
        return layout_of(*self.parts[name])

    @property
    def order(self) -> Iterator[str] | None:
        """Names of the ops of a graph's plan as they run; None for a plan of several graphs."""
        if "" not in self.parts:
            return None
        graph, plan = self.parts[""]
        return (graph.ops[v].name for v in plan.order)

    @property
    def orders(self) -> Sequence[Sequence[Sequence[int]]]:
        """Orders of groups that the file has, for plans of fused nodes."""
        return ()

    @abstractmethod
    def read_proof(self, row: Format, source: Source) -> Any:
        """Return the certificate of a file."""

    def prove(self, path: str | Path) -> Proved:
        """Check the certificate of a file, and return its bound with the plans it is about."""
        source = open_source(path)
        with errors_named(label_of(path)):
            row = find_format(source)
            if row.holds is not self.certificate:
                got = f"{row.title or row.holds} ({row.name})"
                raise FormatError(f"expected {self.certificate}, got {got}")
            return self.proved(self.read_proof(row, source))
