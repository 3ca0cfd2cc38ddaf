"""The captured graphs, kept in a folder so that each is captured once."""

from __future__ import annotations

import gzip
import json
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from experiments.seed_tables.setups import SeedSetup


def documents(setup: SeedSetup, folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield name and document of each graph of a lowering, captured if the folder lacks one."""
    if not is_captured(setup, folder):
        _capture(setup, folder)
    for name in setup.files:
        text = gzip.decompress((folder / name).read_bytes())
        yield name.removesuffix(".json.gz"), json.loads(text)


def is_captured(setup: SeedSetup, folder: Path) -> bool:
    """Return True if the folder has all graphs of a lowering."""
    return all((folder / name).exists() for name in setup.files)


def _capture(setup: SeedSetup, folder: Path) -> None:
    from experiments.capture_inductor.capture import capture_model
    from optsched.plugins.inductor.capture import write

    warnings.filterwarnings("ignore")
    folder.mkdir(parents=True, exist_ok=True)
    started = time.perf_counter()
    graphs = capture_model(setup.model, setup.phase, setup.budget, setup.fake_cuda, note_reads)
    for graph in graphs:
        write(folder / graph.file_name, graph)
    names = " ".join(graph.file_name for graph in graphs)
    print(f"{names}: captured in {time.perf_counter() - started:.0f} s", file=sys.stderr)


def note_reads(
    nodes: Sequence[Any],
    name_to_buf: object,
    name_to_fused_node: object,
    graph_inputs: Sequence[str],
    graph_outputs: object,
) -> dict[str, Any]:
    """Write down what the first version of the reordering saw and today's does not.

    Returns
    -------
    dict
        `all_reads`: per node, all names it reads. `read_bytes`: bytes of each graph input by the
        last read of it. `renamed_bytes`: bytes of each buffer that is a new name for a mutated
        one.
    """
    from torch._inductor.ir import MultiOutputLayout, NoneLayout
    from torch._inductor.utils import get_dtype_size
    from torch._inductor.virtualized import V

    inputs = set(graph_inputs)
    reads = [node.read_writes.reads for node in nodes]
    renamed = {}
    for node in nodes:
        for buffer in node.get_outputs():
            name, layout = buffer.get_name(), buffer.node.layout
            has_bytes = not isinstance(layout, (NoneLayout, MultiOutputLayout))
            if name in V.graph.scheduler.mutation_real_name and has_bytes:
                count = V.graph.sizevars.optimization_hint(buffer.node.get_numel(), fallback=0)
                renamed[name] = int(count) * get_dtype_size(buffer.node.get_dtype())
    return {
        "all_reads": [sorted({dep.name for dep in deps}) for deps in reads],
        "read_bytes": {
            dep.name: int(V.graph.get_dep_size_hint(dep))
            for deps in reads
            for dep in deps
            if dep.name in inputs
        },
        "renamed_bytes": renamed,
    }
