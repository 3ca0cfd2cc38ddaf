"""Tiled models equal the untiled ones bit for bit, in arenas of the planned bytes.

Random networks of int8, int16 and floats run in random stages, bands and directions: in TFLite
Micro with the written offsets, and without them. The head of the arena is the planned slab to the
byte, the tail that of the model of it, and all outputs are equal.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator

import numpy as np

from optsched import pack
from optsched.check.packing import check_packing
from optsched.formats.tflite.graph import read_tflite
from optsched.formats.tflite.model import METADATA_NAME, read_model
from optsched.formats.tflite.rows import rows_of
from optsched.formats.tflite.tail import arena_tail
from optsched.formats.tflite.tiled import write_tiled
from optsched.model.places import placed, places_problem
from optsched.model.tiling import tiled_graph
from tests.support import tflm_runs
from tests.support.tiled_networks import random_network, random_tiling


def compare(seed: int, found: Counter[str]) -> Iterator[str]:
    """Yield differences between a random network and its tiled form; count what is tried."""
    rng = np.random.default_rng(seed)
    data = random_network(rng, int(rng.integers(3, 14))).bytes()
    made = read_tflite(data, "net")
    rows = rows_of(made, data)
    tiling = random_tiling(rng, rows)
    found["networks"] += 1
    found["stages"] += len(tiling.stages)
    found["upwards"] += sum(stage.upwards for stage in tiling.stages)
    if not tiling.stages:
        return
    tiled = tiled_graph(rows, tiling)
    order = np.arange(len(tiled.ops))
    problem, ids = places_problem(tiled, order)
    offsets = np.array(pack(problem, time_limit=2.0).offsets)
    check_packing(problem, offsets)
    plan = placed(tiled, order, ids, offsets)
    planned = tiled.head(plan)
    written = write_tiled(data, made, tiled, plan)
    model = made.model
    found[model.tensors[model.inputs[0]].type] += 1
    inputs = [
        tflm_runs.drawn(rng, model.tensors[t].shape, model.tensors[t].type) for t in model.inputs
    ]
    # An interpreter that does not know the name plans the tensors itself.
    bare = written.replace(METADATA_NAME, METADATA_NAME[::-1])
    files = [data, written, bare]
    untiled, *runs = tflm_runs.runs(files, inputs, len(model.outputs))
    if isinstance(untiled, str):
        yield f"{seed}: the untiled model fails: {untiled}"
        return
    for name, file, run in zip(("tiled", "bare"), files[1:], runs, strict=True):
        if isinstance(run, str):
            yield f"{seed}: {name} fails: {run}"
            continue
        head, tail, outputs = run
        found["runs"] += 1
        if name == "tiled" and head != planned:
            yield f"{seed}: the head is {head}, and {planned} are planned"
        if tail != arena_tail(read_model(file), 8).tail:
            yield f"{seed}: the tail of the {name} model is {tail}"
        if any(x.tobytes() != y.tobytes() for x, y in zip(untiled[2], outputs, strict=True)):
            yield f"{seed}: {name} outputs differ"


def fuzz(count: int, seed: int) -> tuple[Counter[str], list[str]]:
    """Return counts of the cases, and all differences."""
    found, wrong = Counter[str](), []
    for number in range(seed, seed + count):
        wrong += compare(number, found)
    return found, wrong


def main(count: int = 500, seed: int = 0) -> int:
    """Compare `count` random networks, and print the differences."""
    begun, found, wrong = time.monotonic(), Counter[str](), 0
    for number in range(seed, seed + count):
        for line in compare(number, found):
            wrong += 1
            print(line, flush=True)
    shown = ", ".join(f"{value} {name}" for name, value in sorted(found.items()))
    print(f"{shown}; {wrong} differ; {time.monotonic() - begun:.0f} s")
    return int(wrong > 0)
