"""Sizes that a program leaves open: expressions of symbols, worked out without running them.

PyTorch writes a size such as `2*s0` as `Mul(Integer(2), Symbol('s0', ...))`, and evaluates that
text as Python when it loads a file. Here it is parsed, and only arithmetic is known.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil, floor, prod
from typing import Final

from optsched.errors import FormatError, UsageError
from optsched.formats.fields import show, unknown_dimension
from optsched.model.elements import MAX_TOTAL_BYTES

MAX_TEXT: Final = 4096
"""Characters of the longest expression."""
_MAX_EXPONENT: Final = 64
_MAX_BITS: Final = 4096


class OpenSizeError(FormatError):
    """A size is an expression of symbols that have no number."""


def _power(base: Fraction, exponent: Fraction) -> Fraction:
    # A power of a power would fill the memory before any limit on its value.
    if exponent.denominator != 1 or abs(exponent) > _MAX_EXPONENT:
        raise ValueError
    return base ** int(exponent)


def _where(condition: Fraction, first: Fraction, second: Fraction) -> Fraction:
    return first if condition else second


_FUNCTIONS: Final[Mapping[str, Callable[..., Fraction | int]]] = {
    "Add": lambda *given: sum(given, Fraction(0)),
    "Mul": lambda *given: prod(given, start=Fraction(1)),
    "Pow": _power,
    "PowByNatural": _power,
    "Rational": operator.truediv,
    "FloorDiv": operator.floordiv,
    "CleanDiv": operator.floordiv,
    "CeilDiv": lambda a, b: -(-a // b),
    "IntTrueDiv": operator.truediv,
    "FloatTrueDiv": operator.truediv,
    "Mod": operator.mod,
    "PythonMod": operator.mod,
    "ModularIndexing": lambda a, b, c: a // b % c,
    "Max": max,
    "Min": min,
    "Abs": abs,
    "floor": floor,
    "ceiling": ceil,
    "FloorToInt": floor,
    "CeilToInt": ceil,
    "TruncToInt": int,
    "RoundToInt": round,
    "ToFloat": lambda a: a,
    "Identity": lambda a: a,
    "Where": _where,
}


@dataclass
class OpenSizes:
    """Numbers for the symbols of a program, `given` by the symbol's name or by `INPUT.AXIS`."""

    given: Mapping[str, int]
    numbers: dict[str, int] = field(default_factory=dict)
    names: dict[str, None] = field(default_factory=dict)
    axes: dict[str, str] = field(default_factory=dict)
    _known: dict[str, int] = field(default_factory=dict)

    def take_input(self, name: str, axes: Sequence[str | int]) -> None:
        """Note the symbols that an input's axes are; all inputs come before any value is asked.

        Two numbers for one symbol are refused.
        """
        for axis, size in enumerate(axes):
            symbol = self._symbol(size)
            if symbol is None:
                continue
            self.axes[f"{name}.{axis}"] = symbol
            # Either name may be given, the symbol's or the axis'.
            for key in (symbol, f"{name}.{axis}"):
                self.names[key] = None
                if (
                    key in self.given
                    and self.numbers.setdefault(symbol, self.given[key]) != (self.given[key])
                ):
                    raise UsageError(
                        f"dimension {show(key)} is {self.given[key]}, but {show(symbol)} is "
                        f"{self.numbers[symbol]} already"
                    )

    def declare(self, symbols: Mapping[str, tuple[int | None, int | None]]) -> None:
        """Take the symbols of the program with the least and the largest number of each.

        A number out of its range is refused, and a dimension that the program does not have.
        """
        for symbol, (least, most) in symbols.items():
            self.names[symbol] = None
            if symbol in self.given:
                self.numbers.setdefault(symbol, self.given[symbol])
            number = self.numbers.get(symbol)
            if number is None:
                continue
            # A size is at least 0, also without a range.
            if number < (least or 0) or (most is not None and number > most):
                upper = "" if most is None else f" and at most {most}"
                raise UsageError(
                    f"dimension {show(symbol)} must be at least {least or 0}{upper}, got {number}"
                )
        for name in self.given:
            if name not in self.names:
                raise unknown_dimension(name, list(self.names))

    def number(self, size: str | int, what: str, hint: int | None = None) -> int:
        """Return the value of a size: a number, or an expression as SymPy represents it.

        `what` is its name in messages, `hint` its value at export. `OpenSizeError` is raised if a
        symbol has no value, and `FormatError` if the text is not an expression of sizes or its
        value is not a size.
        """
        if isinstance(size, int):
            found: Fraction | int = size
        # The same expression stands at many tensors.
        elif size in self._known:
            return self._known[size]
        else:
            found = self._evaluate(size, what, hint)
        # A half of an odd size shows a wrong number for a symbol.
        if found.denominator != 1 or not 0 <= found <= MAX_TOTAL_BYTES:
            raise FormatError(f"{what} is {show(str(found))}, which is not a size")
        if isinstance(size, str):
            self._known[size] = int(found)
        return int(found)

    def _evaluate(self, text: str, what: str, hint: int | None) -> Fraction:
        tree = _parse(text, what)
        try:
            return self._value(tree)
        # `_value` looks up symbols, so that a KeyError is a symbol without a number.
        except KeyError as error:
            symbol = str(error.args[0])
            was = "" if hint is None else f" ({hint} when it was exported)"
            keys = [symbol, *(key for key, x in self.axes.items() if x == symbol)][:2]
            how = " or ".join(f"--dim {key}=N" for key in keys)
            raise OpenSizeError(
                f"{what} is open{was}: it depends on {symbol}; give {how}"
            ) from None
        except (ArithmeticError, IndexError, TypeError, ValueError, RecursionError):
            raise FormatError(f"{what} is not an expression of sizes: {show(text)}") from None

    def _value(self, tree: ast.expr) -> Fraction:
        # Nothing but calls of known names, so that no code of the file is run.
        if not isinstance(tree, ast.Call) or not isinstance(tree.func, ast.Name):
            raise ValueError
        name, arguments = tree.func.id, tree.args
        if name in ("Symbol", "Integer"):
            value = arguments[0].value if isinstance(arguments[0], ast.Constant) else None
            if name == "Symbol" and isinstance(value, str):
                return Fraction(self.numbers[value])
            return Fraction(_integer(arguments[0]))
        if name == "Rational":
            return Fraction(*map(_integer, arguments))
        if name not in _FUNCTIONS:
            raise ValueError
        found = Fraction(_FUNCTIONS[name](*map(self._value, arguments)))
        # Before it grows further: the next multiplication would double it.
        if found.numerator.bit_length() + found.denominator.bit_length() > _MAX_BITS:
            raise ValueError
        return found

    @staticmethod
    def _symbol(size: str | int) -> str | None:
        """Return the name of a size that is a single symbol."""
        if isinstance(size, int) or not size.startswith("Symbol("):
            return None
        tree = _parse(size, "a dimension")
        plain = isinstance(tree, ast.Call) and len(tree.args) == 1
        value = tree.args[0] if plain and isinstance(tree, ast.Call) else None
        text = value.value if isinstance(value, ast.Constant) else None
        return text if isinstance(text, str) else None


def _parse(text: str, what: str) -> ast.expr:
    # ast.parse is recursive: a long text could exhaust the stack.
    if len(text) > MAX_TEXT:
        raise FormatError(f"{what} is an expression of {len(text)} characters")
    try:
        return ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise FormatError(f"{what} is not an expression of sizes: {show(text)}") from None


def _integer(tree: ast.expr) -> int:
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub):
        return -_integer(tree.operand)
    if not isinstance(tree, ast.Constant) or type(tree.value) is not int:
        raise ValueError
    return tree.value
