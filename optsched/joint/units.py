"""Units of a program: without loss for CP-SAT, rounded for floating-point solvers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd

from optsched.joint.order_program import OrderProgram


@dataclass(frozen=True, slots=True)
class Scale:
    """A value `x` of a program stands for `offset + unit * x` bytes."""

    offset: int
    unit: int

    def bytes(self, value: int) -> int:
        """Return the bytes that a value stands for."""
        return self.offset + self.unit * value

    def up(self, number: int) -> int:
        """Return the smallest value that stands for at least this number of bytes."""
        return -((self.offset - number) // self.unit)


def in_units(program: OrderProgram, unit: int) -> tuple[OrderProgram, Scale]:
    """Return the program relative to its base, in the largest units that lose nothing.

    `unit` are the bytes per unit of the given program.
    """
    sizes = [size for size, _ in program.shared] + [saving.size for saving in program.savings]
    # Divided by their common divisor, numbers stay as small as they can be without loss.
    scale = gcd(*program.rise, *program.delta, *sizes) or 1
    made = OrderProgram(
        0,
        program.preds,
        tuple(x // scale for x in program.rise),
        tuple(x // scale for x in program.delta),
        tuple((size // scale, users) for size, users in program.shared),
        tuple(replace(saving, size=saving.size // scale) for saving in program.savings),
    )
    return made, Scale(program.base * unit, scale * unit)


def shrunk(program: OrderProgram, divisor: int) -> OrderProgram:
    """Return a program whose loads, times `divisor`, are at most those of the given one.

    Terms added to a load are rounded down, subtracted ones up.
    """
    if divisor == 1:
        return program
    return OrderProgram(
        # `//` rounds down negative numbers, too: a load must never grow.
        program.base // divisor,
        program.preds,
        tuple(x // divisor for x in program.rise),
        tuple(x // divisor for x in program.delta),
        tuple((-(-size // divisor), users) for size, users in program.shared),
        tuple(replace(x, size=-(-x.size // divisor)) for x in program.savings),
    )
