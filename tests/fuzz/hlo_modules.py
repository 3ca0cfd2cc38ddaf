"""HLO modules as read, against what XLA allocates for them on the CPU.

    python -m tests.fuzz hlo_modules --count 200

Random functions of jax and training steps are compiled, and the text of each module is read.
Compared are the bytes that XLA's own order is said to hold with what the executable allocates;
where the module calls no computations, also each value's live range with the one that XLA prints,
and XLA's offsets are checked as a plan of the graph. A module that differs is an error.
"""

from __future__ import annotations

import os
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from optsched import Graph, Module, check_plan
from optsched.compare.saving import stock_plan
from optsched.formats import read_plan
from optsched.formats.hlo.text import parse_module
from optsched.formats.reading import GraphReading
from tests.support.xla_live_ranges import both_live_ranges

AFTER = "cpu_after_optimizations"


def main(count: int = 200, seed: int = 0) -> int:
    found, wrong = fuzz(count, seed)
    for name, number in sorted(found.items()):
        print(f"{number:6}  {name}")
    print("\n".join(wrong) or f"{count} modules, none unexplained")
    return int(bool(wrong))


def fuzz(count: int, seed: int) -> tuple[Counter[str], list[str]]:
    """Compare modules; return counts by result, and what is unexplained."""
    found, wrong = Counter[str](), []
    with tempfile.TemporaryDirectory() as folder:
        options = f"--xla_dump_to={folder} --xla_dump_hlo_as_text"
        if "jax" not in sys.modules:
            os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {options}"
        for number in range(seed, seed + count):
            try:
                wrong += [f"module {number}: {x}" for x in compare(number, Path(folder), found)]
            finally:
                for path in Path(folder).glob("*.txt"):
                    path.unlink()
    return found, wrong


def function(number: int) -> Any:
    """Return one of two kinds of random functions."""
    from tests.support.random_jax import odd
    from tests.support.xla_varied import varied

    return varied(number // 2) if number % 2 else odd(number // 2)


def compare(number: int, folder: Path, found: Counter[str]) -> Iterator[str]:
    """Compare one module; yield what is unexplained."""
    made = function(number)
    with warnings.catch_warnings():
        # An argument may be donated that no result can take the place of.
        warnings.simplefilter("ignore")
        compiled = made.lower().compile()
    use = compiled.memory_analysis()
    held = use.temp_size_in_bytes + use.output_size_in_bytes
    path = folder / "module.hlo"
    path.write_text(compiled.as_text())
    module = GraphReading(inplace=True).read_module(path)
    found["modules"] += 1
    found["modules that call"] += bool(module.calls)
    found.update(f"feature: {name}" for name in made.features)
    own = _own(module)
    # The caller's table of pointers to the results is in no graph.
    held -= _table_bytes(compiled.as_text())
    if own == held:
        found["held: planned = held"] += 1
    else:
        yield f"held: planned {own}, held {held}, {made.features}, donated {made.donated}"
    dumps = sorted(folder.glob(f"*.{AFTER}-live-range.txt"))
    if dumps and not module.calls:
        yield from _compare_values(path, module.graphs[module.entry], dumps[-1], found)


def _table_bytes(text: str) -> int:
    parsed = parse_module(text)
    entry = parsed.computations[parsed.entry]
    shape = entry.instructions[entry.root].shape
    return 8 * len(shape) if isinstance(shape, tuple) else 0


def _own(module: Module) -> int | None:
    own = stock_plan(module if module.calls else module.graphs[module.entry])
    return None if own is None else own.slab


def _compare_values(path: Path, graph: Graph, dump: Path, found: Counter[str]) -> Iterator[str]:
    ours, theirs = both_live_ranges(graph, dump)
    different = [name for name in ours if ours[name] != theirs[name]]
    if different:
        name = different[0]
        yield f"live range of {name}: {ours[name]}, XLA has {theirs[name]}"
    else:
        found["live ranges: equal"] += 1
    assignment = Path(str(dump).replace("live-range", "buffer-assignment"))
    try:
        check_plan(graph, read_plan(assignment, graph))
        found["offsets of XLA: a plan of the graph"] += 1
    except Exception as error:
        yield f"offsets of XLA: {error}"
