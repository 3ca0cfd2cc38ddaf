"""TFLite models as read and planned, against TFLite Micro's interpreter.

    python -m tests.fuzz tflite_models --count 300

Each random model runs in the interpreter as it is, and with a plan inside. Compared with what the
interpreter says of its arena are the bytes that the file's own plan is said to hold, and the slab
of our plan. A model that differs is an error unless a cause is known, which a second measurement
confirms.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from optsched import Graph, read_graph, solve
from optsched.compare.saving import stock_plan
from optsched.errors import FormatError
from optsched.formats.tflite.apply import apply_tflite
from optsched.formats.tflite.graph import arena_head, holds_subgraphs, read_tflite, unused_bytes
from tests.support import tflm_report
from tests.support.random_tflite import UNUSED, random_model

EQUAL = "planned = held"


def main(count: int = 300, seed: int = 0) -> int:
    found, wrong = fuzz(count, seed)
    for name, number in sorted(found.items()):
        print(f"{number:6}  {name}")
    print("\n".join(wrong) or f"{count} models, none unexplained")
    return int(bool(wrong))


def fuzz(count: int, seed: int) -> tuple[Counter[str], list[str]]:
    """Compare models until `count` of them ran; return counts by result, and unexplained ones."""
    found, wrong, number = Counter[str](), [], seed
    while found["models"] < count:
        for result in compare(number, found):
            wrong.append(f"model {number}: {result}")
        number += 1
        if found["refused by the interpreter"] > max(10, count // 10):
            wrong.append("too many models do not run")
            break
    return found, wrong


def compare(number: int, found: Counter[str]) -> Iterator[str]:
    """Compare one model; yield what is unexplained."""
    net, features = random_model(number)
    data = net.bytes()
    before = tflm_report.arena(data)
    if isinstance(before, str):
        found["refused by the interpreter"] += 1
        return
    found["models"] += 1
    found.update(f"feature: {name}" for name in features)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.tflite")
        path.write_bytes(data)
        graph = read_graph(path)
        own = stock_plan(graph)
        assert own is not None
        if own.slab != before[0]:
            yield f"before: planned {own.slab:,}, held {before[0]:,} {features}"
        else:
            found[f"before: {EQUAL}"] += 1
        yield from _compare_plan(number, data, graph, path, found)


def _without_unused(number: int) -> int:
    """Return what a model with our plan holds if it has no tensor that nothing uses."""
    net, _ = random_model(number)
    net.tensors = [x for x in net.tensors if x.name != UNUSED]
    made = read_tflite(net.bytes(), "model")
    result = solve(made.graph, time_limit=2)
    assert result.plan is not None
    found = tflm_report.arena(apply_tflite(net.bytes(), made, result.plan))
    assert isinstance(found, tuple)
    return found[0]


def _compare_plan(
    number: int, data: bytes, graph: Graph, path: Path, found: Counter[str]
) -> Iterator[str]:
    result = solve(graph, time_limit=2)
    made = read_tflite(data, "model")
    assert result.plan is not None
    assert result.slab is not None
    try:
        planned = apply_tflite(data, made, result.plan)
    except FormatError as error:
        packed = holds_subgraphs(made.model) and "TFLite Micro takes no offsets" in str(error)
        name = "after: no offsets with several subgraphs, refused"
        found[name] += packed
        yield from () if packed else [f"after: {error}"]
        return
    after = tflm_report.arena(planned)
    if isinstance(after, str):
        yield f"after: the interpreter failed: {after[-200:]}"
        return
    path.write_bytes(planned)
    own = stock_plan(read_graph(path))
    assert own is not None
    if own.slab != after[0]:
        yield f"after: read as {own.slab:,}, held {after[0]:,}"
    if after[0] == result.slab:
        found[f"after: {EQUAL}"] += 1
    elif after[0] == unused_bytes(made.model) and _without_unused(number) == result.slab:
        found["after: tensors that nothing uses need more; without them, planned = held"] += 1
    elif holds_subgraphs(made.model) and after[0] < result.slab:
        # The order alone was stored, and our reading of the file says what the runtime packs.
        numbers = [op.number for v in result.plan.order if (op := made.operators[v]) is not None]
        assert arena_head(made.model, numbers) == after[0]
        found["after: fewer bytes, subgraphs lie between other tensors"] += 1
    else:
        yield f"after: planned {result.slab:,}, held {after[0]:,}"
