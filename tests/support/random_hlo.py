"""Random modules of HLO text: tuples, names of other values, computations that call others."""

from __future__ import annotations

import random


def random_hlo(seed: int, *, computations: int = 4, instructions: int = 7) -> str:
    """Return the text of a module whose last computation is its entry.

    A shape is the number of elements of an array of bytes, or a list of the shapes of a tuple.
    """
    draw = random.Random(seed)
    texts = [_fused()]
    known: list[str] = []
    count = draw.randint(1, computations)
    for number in range(count):
        name = f"c{number}"
        is_entry = number == count - 1
        texts.append(_computation(draw, name, known, draw.randint(1, instructions), entry=is_entry))
        known.append(name)
    return f"HloModule random{seed}\n\n" + "\n".join(texts)


def _fused() -> str:
    return "%fused (f: u8[4]) -> u8[4] {\n  ROOT %f = u8[4] parameter(0)\n}\n"


def _computation(
    draw: random.Random, name: str, known: list[str], count: int, *, entry: bool
) -> str:
    shapes: dict[str, object] = {}
    lines = []
    # Names decide between equals, and so must not be in the order of the text.
    names = iter(draw.sample(range(100, 1000), count + 2))
    for number in range(draw.randint(1, 2)):
        made = f"p{next(names)}"
        shapes[made] = _shape(draw)
        lines.append(f"%{made} = {_text(shapes[made])} parameter({number})")
    for _ in range(count):
        made = f"x{next(names)}"
        shape, text = _instruction(draw, shapes, known)
        before = [x for x in shapes if draw.random() < 0.08]
        control = ", ".join(f"%{x}" for x in before)
        text += f", control-predecessors={{{control}}}" if before else ""
        shapes[made] = shape
        lines.append(f"%{made} = {_text(shape)} {text}")
    root = draw.choice([len(lines) - 1, draw.randrange(len(lines))])
    lines[root] = f"ROOT {lines[root]}"
    head = f"{'ENTRY ' if entry else ''}%{name} (a: u8[1]) -> u8[1] {{"
    return "\n".join([head, *(f"  {line}" for line in lines), "}", ""])


def _instruction(
    draw: random.Random, shapes: dict[str, object], known: list[str]
) -> tuple[object, str]:
    values = list(shapes)
    tuples = [x for x in values if isinstance(shapes[x], list)]
    some = [draw.choice(values) for _ in range(draw.randint(1, 3))]
    one = some[0]
    kind = draw.choice(
        ["op", "op", "op", "tuple", "part", "part", "name", "copy", "constant", "call", "call"]
    )
    listed = ", ".join(f"%{x}" for x in some)
    if kind == "tuple":
        return [shapes[x] for x in some], f"tuple({listed})"
    if kind == "part" and tuples:
        whole = draw.choice(tuples)
        parts = shapes[whole]
        assert isinstance(parts, list)
        index = draw.randrange(len(parts))
        return parts[index], f"get-tuple-element(%{whole}), index={index}"
    if kind in ("name", "copy"):
        named = f"bitcast(%{one})", f"add-dependency({listed})"
        return shapes[one], f"copy(%{one})" if kind == "copy" else draw.choice(named)
    shape = _shape(draw)
    texts = [f"custom-call({listed})", f"fusion({listed}), calls=%fused"]
    if kind == "constant":
        shape, texts = draw.randint(1, 9), ["constant({...})"]
    elif kind == "call" and known:
        runs = [draw.choice(known) for _ in range(2)]
        texts = [
            f"while(%{one}), condition=%{runs[0]}, body=%{runs[1]}",
            f"call({listed}), to_apply=%{runs[0]}",
            f"conditional({listed}), branch_computations={{%{runs[0]}, %{runs[1]}}}",
            f"reduce({listed}), to_apply=%{runs[0]}",
        ]
    return shape, draw.choice(texts)


def _shape(draw: random.Random, depth: int = 0) -> object:
    if depth < 2 and draw.random() < 0.3:
        return [_shape(draw, depth + 1) for _ in range(draw.randint(1, 3))]
    return draw.choice([1, 2, 3, 4, 8, 8, 16, 30])


def _text(shape: object) -> str:
    if isinstance(shape, list):
        return f"({', '.join(map(_text, shape))})"
    return f"u8[{shape}]"
