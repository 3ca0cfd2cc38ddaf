"""Models whose variables have meanings: the value of each in a given point, so in any hint.

Example: the variable `before[0, 1]` means that op 0 runs before op 1. In the point of the order `1
0` its value is 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from ortools.sat.python import cp_model

Meaning = Callable[..., int]
"""Function that returns the value of a variable in a point."""
Literal = Any
"""A boolean variable of CP-SAT, its negation, or one of the constants 0 and 1."""


Point = TypeVar("Point")


def negated(literal: Literal) -> Literal:
    """Return the negation of a literal or constant."""
    return 1 - literal if isinstance(literal, int) else ~literal


class HintedModel(Generic[Point]):
    """A model whose variables have meanings, so that every hint is complete."""

    def __init__(self) -> None:
        self.model = cp_model.CpModel()
        self.meanings: list[tuple[Any, Meaning]] = []

    def add_hint(self, point: Point) -> None:
        """Add a hint for every variable with its value in a point."""
        for variable, meaning in self.meanings:
            self.model.add_hint(variable, int(meaning(point)))
        # CP-SAT represents constants as variables, and requires values for them in a complete hint.
        hinted = {variable.index for variable, _ in self.meanings}
        for index, made in enumerate(self.model.proto.variables):
            if index not in hinted:
                self.model.add_hint(self.model.get_int_var_from_proto_index(index), made.domain[0])

    def boolean(self, name: str, meaning: Meaning, *key: int | str) -> Any:
        """Add the boolean variable `name[key]`."""
        return self.integer(0, 1, name, meaning, *key)

    def integer(self, low: int, high: int, name: str, meaning: Meaning, *key: int | str) -> Any:
        """Add the integer variable `name[key]`; `meaning` takes a point and the key."""
        variable = self.model.new_int_var(low, high, name + "".join(f"[{x}]" for x in key))
        self.meanings.append((variable, lambda point: meaning(point, *key)))
        return variable
