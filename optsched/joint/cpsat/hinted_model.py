"""A model of CP-SAT in which each variable has a meaning: the value it has in a given plan."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ortools.sat.python import cp_model

from optsched.joint.cpsat.point import ModelPoint

Meaning = Callable[[ModelPoint], int]


class HintedModel:
    """A model and its variables; a hint is complete by construction."""

    def __init__(self) -> None:
        self.model = cp_model.CpModel()
        self.meanings: list[tuple[Any, Meaning]] = []

    def add_hint(self, point: ModelPoint) -> None:
        """Hint every variable at the value it has in a point."""
        for variable, meaning in self.meanings:
            self.model.add_hint(variable, int(meaning(point)))
        # CP-SAT makes variables of constants; they count when it asks whether a hint is complete.
        hinted = {variable.index for variable, _ in self.meanings}
        for index, made in enumerate(self.model.proto.variables):
            if index not in hinted:
                self.model.add_hint(self.model.get_int_var_from_proto_index(index), made.domain[0])

    def boolean(self, name: str, meaning: Meaning) -> Any:
        """Add a boolean variable."""
        variable = self.model.new_bool_var(name)
        self.meanings.append((variable, meaning))
        return variable

    def integer(self, low: int, high: int, name: str, meaning: Meaning) -> Any:
        """Add an integer variable."""
        variable = self.model.new_int_var(low, high, name)
        self.meanings.append((variable, meaning))
        return variable
