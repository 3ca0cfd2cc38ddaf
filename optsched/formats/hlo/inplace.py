"""Results of an instruction that are one of its operands, replace one, or may overwrite one.

The rules are XLA's own: what its alias analysis demands (updates of a part of an array), and what
its buffer assignment allows where the operand dies (elementwise, also through a loop fusion).

References
----------
xla/hlo/analysis/hlo_dataflow_analysis.cc, functions GetInPlaceInputOutputPairs and
CanShareOperandBufferWithUser.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from optsched.errors import FormatError
from optsched.formats.fields import show
from optsched.formats.hlo.shapes import Names, leaves
from optsched.formats.hlo.text import Computation, Instruction

SAME: Final = ("bitcast", "domain", "opt-barrier", "optimization-barrier", "add-dependency")
"""Instructions whose result is their first operand."""
UPDATES: Final = ("dynamic-update-slice", "scatter")
ELEMENTWISE: Final = frozenset(
    {
        *("abs", "add", "and", "atan2", "bitcast-convert", "cbrt", "ceil", "clamp", "compare"),
        *("convert", "copy", "cosine", "count-leading-zeros", "divide", "erf", "exponential"),
        *("exponential-minus-one", "floor", "imag", "is-finite", "log", "log-plus-one", "logistic"),
        *("maximum", "minimum", "multiply", "negate", "not", "or", "popcnt", "power", "real"),
        *("reduce-precision", "remainder", "round-nearest-afz", "round-nearest-even", "rsqrt"),
        *("select", "shift-left", "shift-right-arithmetic", "shift-right-logical", "sign", "sine"),
        *("sqrt", "stochastic-convert", "subtract", "tan", "tanh", "xor"),
    }
)


def passed_on(made: Instruction, read: list[Names]) -> Names | None:
    """Return the buffers of an instruction that owns no buffer itself; otherwise, return None."""
    if made.opcode == "tuple":
        return tuple(read)
    if made.opcode == "after-all":
        return ()
    if made.opcode not in (*SAME, "get-tuple-element"):
        return None
    if not read:
        raise FormatError(f"{show(made.name)}: {made.opcode} has no operand")
    if made.opcode != "get-tuple-element":
        return read[0]
    whole = read[0]
    if not isinstance(whole, tuple) or made.index >= len(whole):
        raise FormatError(
            f"{show(made.name)}: unknown part number {made.index} of {show(made.operands[0])}"
        )
    return whole[made.index]


def overwritten(
    made: Instruction, computations: Mapping[str, Computation]
) -> dict[tuple[int, ...], int]:
    """Return the leaves of a result that overwrite an operand, by number of the operand.

    A leaf is a path into a tuple, in XLA's notation: `()` for a result that is not a tuple.
    """
    if made.opcode in UPDATES:
        # A scatter has as many arrays as updates, and between them the indices.
        count = (len(made.operands) - 1) // 2 if made.opcode == "scatter" else 1
        # The result of one array is not a tuple.
        return {((i,) if count > 1 else ()): i for i in range(count)}
    found = dict(made.aliases)
    if made.opcode == "fusion" and made.called:
        fused = computations[made.called[0]]
        # A fusion is in place if its root updates a parameter.
        root = fused.instructions[fused.root]
        parts = root.operands if root.opcode == "tuple" else (root.name,)
        for i, name in enumerate(parts):
            number = _updated_parameter(fused, name)
            if number is not None and number < len(made.operands):
                found[(i,) if root.opcode == "tuple" else ()] = number
    return found


def _updated_parameter(fused: Computation, name: str) -> int | None:
    """Return the number of the parameter that a result of a fusion is an update of."""
    made = fused.instructions[name]
    # Layout changes without bytes may stand on either side.
    if made.opcode == "bitcast" and made.operands:
        made = fused.instructions[made.operands[0]]
    if made.opcode not in UPDATES or not made.operands:
        return None
    source = fused.instructions[made.operands[0]]
    if source.opcode == "bitcast" and source.operands:
        source = fused.instructions[source.operands[0]]
    is_parameter = source.opcode == "parameter" and source.literal.isdecimal()
    # Ten digits would be no parameter number.
    return int(source.literal) if is_parameter and len(source.literal) < 10 else None


def may_overwrite(
    made: Instruction,
    leaf: int,
    number: int,
    computations: Mapping[str, Computation],
    users: Mapping[str, int],
) -> bool:
    """Return True if a leaf of the result may overwrite an operand of equal shape, used last here.

    Leaf and operand are given by number; `users` has the number of instructions that read each one.
    """
    if made.opcode in ELEMENTWISE:
        return True
    if made.opcode == "sort":
        # A sort of several arrays writes each over itself, unless it is read elsewhere or twice.
        name = made.operands[number]
        return leaf == number and users[name] == 1 and made.operands.count(name) == 1
    # Only loop fusions write element by element.
    if made.opcode != "fusion" or made.kind != "kLoop" or not made.called:
        return False
    fused = computations[made.called[0]]
    parameters = (x for x in fused.instructions.values() if x.opcode == "parameter")
    parameter = next((x for x in parameters if x.literal == str(number)), None)
    return parameter is not None and _elementwise_from(fused, parameter)


def _elementwise_from(fused: Computation, parameter: Instruction) -> bool:
    """Return True if all values that depend on a parameter do so element by element."""
    dims = {shape.dims for shape in leaves(parameter.shape)}
    reached = {parameter.name}
    for made in fused.instructions.values():
        if reached.isdisjoint(made.operands):
            continue
        same_place = made.opcode in ELEMENTWISE or (
            # Parts that are not updated stay in their place.
            made.opcode == "dynamic-update-slice" and reached.isdisjoint(made.operands[1:])
        )
        if made.opcode != "tuple" and (
            # Another shape means another place for some element.
            not same_place or {x.dims for x in leaves(made.shape)} != dims
        ):
            return False
        reached.add(made.name)
    return True
