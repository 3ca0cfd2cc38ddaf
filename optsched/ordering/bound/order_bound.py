"""The interface of bounds on orders to the search, to certificates and to explanations.

A bound of this kind names bytes that are live in every order while one of some ops runs. A subclass
is a row of the table (:mod:`optsched.ordering.bound.table`), its instances are found in a graph.
The checker of certificates knows nothing of it: it verifies the step by rules of its own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Self

from optsched.check.certificate import Step
from optsched.ordering.bound.closure import Bottleneck
from optsched.ordering.bound.flow import FlowNetwork
from optsched.ordering.context import SearchContext
from optsched.ordering.kernels.cut import Flags
from optsched.ordering.kernels.max_flow import UNBOUNDED


class OrderBound(Bottleneck, ABC):
    """A bottleneck at one of several ops; `above` is the transitive closure of the problem."""

    __slots__ = ()
    name: ClassVar[str]
    """Its key in explanations, and a noun: `set`, for a set of ops."""
    source: ClassVar[str]
    """Name of the event that raises the bound in a search."""

    @classmethod
    @abstractmethod
    def find(
        cls, context: SearchContext, above: Flags, bound: int, enough: int = UNBOUNDED
    ) -> Self | None:
        """Return the best one above `bound` bytes, or the first with `enough`; None without one."""

    @abstractmethod
    def again(self, context: SearchContext, above: Flags) -> Self:
        """Return it for a problem in which buffers have other sizes."""

    @abstractmethod
    def step(self, network: FlowNetwork, budget: int) -> Step | None:
        """Return the step of a certificate that refutes a budget; None if a flow is missing."""

    @abstractmethod
    def record(self, ops: Sequence[str]) -> dict[str, Any]:
        """Return its JSON form; `ops` has the names of all ops."""

    @staticmethod
    @abstractmethod
    def lines(record: dict[str, Any]) -> list[str]:
        """Return the lines of an explanation above the list of live buffers."""

    @abstractmethod
    def moment(self, ops: Sequence[str]) -> str:
        """Return when the bytes are live, such as `the last of ops a and b`."""
