"""XLA's scheduling of modules against a transcription of its source.

    python -m tests.fuzz xla_modules --count 2000 --seed 0

Each random module of HLO text is scheduled by one of XLA's schedulers. Compared are the sequence of
every computation, `memory_by_computation`, and the bytes that the whole module needs on XLA's heap,
without fragmentation and with. One that differs is an error.
"""

from __future__ import annotations

from heuristics.xla_module import heap_size, minimum_memory_for_module, schedule_module
from optsched.formats.format import Source
from optsched.formats.hlo.logical import read_logical_module
from optsched.formats.hlo.text import parse_module
from optsched.model.logical import LogicalModule
from tests.heuristics.reference_xla_module import ReferenceScheduler, best_fit
from tests.support.random_hlo import random_hlo

METHODS = ("xla_list", "xla_dfs", "xla_post_order", "xla_default")


def main(count: int = 2_000, seed: int = 0) -> int:
    calls = sum(compare(number) for number in range(seed, seed + count))
    print(f"{count} modules, {calls} calls: all as the source has it")
    return 0


def read(text: str, pointer_bytes: int = 8) -> LogicalModule:
    """Read HLO text as XLA's schedulers see it."""
    return read_logical_module(Source(text.encode(), "m"), pointer_bytes=pointer_bytes)


def compare(seed: int) -> int:
    """Compare one random module with the transcription; return how many instructions call."""
    text, pointer_bytes = random_hlo(seed), (8, 0, 3)[seed % 3]
    module, method = read(text, pointer_bytes), METHODS[seed % 4]
    found = schedule_module(module, method)
    reference = ReferenceScheduler(parse_module(text), pointer_bytes)
    reference.schedule(method)
    ops = {name: [x.name for x in graph.ops] for name, graph in module.graphs.items()}
    assert found.memory_by_computation == reference.memory
    for name, order in found.orders.items():
        assert [ops[name][v] for v in order] == reference.sequences[name]
    heap = reference.module_heap()
    assert minimum_memory_for_module(module, found.orders) == heap.largest
    assert heap_size(module, found.orders, alignment=4) == best_fit(heap.rows, 4)
    return len(module.calls)
