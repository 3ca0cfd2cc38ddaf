"""Orders in which XLA walks through a module: computations, and the instructions of one.

Example: the root adds `f(x)` and `g(y)`. The post-order is x, f, y, g, root.
"""

from __future__ import annotations

from collections.abc import Mapping

from optsched.formats.hlo.allocation.value import HANDED_ON
from optsched.formats.hlo.read import CALLERS
from optsched.formats.hlo.shapes import parts_of
from optsched.formats.hlo.text import Computation, HloModule, Instruction


def walk(module: HloModule, name: str) -> list[str]:
    """Return a computation after all computations that it calls, the first call first."""
    found: dict[str, None] = {}
    for made in module.computations[name].instructions.values():
        # Only calls that run instructions of the module; a reduction's function is inside its op.
        for callee in made.called if made.opcode in CALLERS else ():
            found.update(dict.fromkeys(walk(module, callee)))
    return [*found, name]


def count_thread_local(module: HloModule) -> int:
    """Return the number of values in computations that run inside an op, such as a reduction's.

    XLA gives each an allocation. What a fusion computes on the way has none.
    """
    computations = module.computations
    waiting = walk(module, module.entry)
    seen, fused = set(waiting), set(waiting)
    while waiting:
        for made in computations[waiting.pop()].instructions.values():
            found = [name for name in made.called if name not in seen]
            fused.update(found if made.opcode == "fusion" else ())
            seen.update(found)
            waiting += found
    inside = (x for name in seen - fused for x in computations[name].instructions.values())
    return sum(len(list(parts_of(x.shape))) for x in inside if x.opcode not in HANDED_ON)


def post_order(computation: Computation) -> dict[str, int]:
    """Return the place of each instruction in a depth-first walk, the first operand first."""
    found: dict[str, None] = {}
    # The root first; instructions it does not need follow in the order of the text.
    for name in (computation.root, *computation.instructions):
        put(name, computation.instructions, found)
    return {name: number for number, name in enumerate(found)}


def put(name: str, instructions: Mapping[str, Instruction], done: dict[str, None]) -> None:
    """Append an instruction after all that it needs: control predecessors first, then operands."""
    # Iterative, as a module may be thousands of instructions deep.
    waiting = [name]
    while waiting:
        made = instructions[waiting[-1]]
        missing = [x for x in (*made.control[::-1], *made.operands) if x not in done]
        if missing:
            waiting += reversed(missing)
        else:
            done[waiting.pop()] = None


def only_parameter(computation: Computation) -> Instruction:
    """Return the only parameter of a loop's computation."""
    return next(x for x in computation.instructions.values() if x.opcode == "parameter")
