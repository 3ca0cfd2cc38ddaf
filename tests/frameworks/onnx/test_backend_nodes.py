"""The node tests of onnx's backends: each model is planned, or refused with the true reason.

The sizes of the outputs of each planned model are those of the arrays that come with the test.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from functools import cache
from typing import Any

import pytest

onnx = pytest.importorskip("onnx", reason="the extra onnx is not installed")

import numpy as np  # noqa: E402

from optsched.errors import FormatError  # noqa: E402
from optsched.formats.format import Source  # noqa: E402
from optsched.formats.onnx.read import read_onnx  # noqa: E402
from optsched.model.graph import Graph  # noqa: E402

MOST_REFUSED = {
    "depends on the values of": 50,
    "depends on the tensors of a sequence": 9,
    "depends on the data that it reads": 7,
    "follows from that of": 9,
    "open": 12,
}
"""Refused models by their reason: figures of onnx 1.23 with its 1,884 models."""
OPEN = re.compile(r"^\d+ dimensions? (is|are) open: .*; try (--dim \S+=\d+ ?)+$")
NAMED = re.compile(r"^op '[^']+' \(\w+\): the size of its output '[^']+' (?P<reason>.*); give --")


@cache
def cases() -> list[Any]:
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found: list[Any] = collect_testcases(None)
    return found


def planned(case: Any, dims: dict[str, int] | None = None) -> Graph:
    return read_onnx(Source(case.model.SerializeToString(), case.name), dims=dims)


@cache
def results() -> dict[str, Graph | str]:
    """Return the graph of each model, or the message that refuses it."""
    found: dict[str, Graph | str] = {}
    for case in cases():
        try:
            found[case.name] = planned(case)
        except FormatError as error:
            found[case.name] = str(error)
    return found


def test_each_model_is_planned_or_refused_with_its_reason() -> None:
    found = results()
    messages = [message for message in found.values() if isinstance(message, str)]
    reasons = Counter(map(reason, messages))
    assert len(found) >= 1_884
    assert not reasons - Counter(MOST_REFUSED)


def reason(message: str) -> str:
    """Return the reason in a message, which must name the op and its output."""
    if OPEN.match(message):
        return "open"
    named = NAMED.match(message)
    assert named is not None, message
    return next(x for x in MOST_REFUSED if named["reason"].startswith(x))


def test_the_bytes_of_outputs_are_those_of_the_arrays() -> None:
    compared = 0
    for case in cases():
        graph = results()[case.name]
        if isinstance(graph, Graph) and case.data_sets:
            for value, array in zip(case.model.graph.output, case.data_sets[0][1], strict=True):
                compared += is_compared(graph, value, array)
    assert compared >= 1_900


def is_compared(graph: Graph, value: Any, array: Any) -> bool:
    """Compare a result with the bytes that are planned for it; False if there are none."""
    number = graph.buffer_ids.get(value.name)
    if number is None or not isinstance(array, np.ndarray) or array.dtype == object:
        return False
    bits = {"int4": 4, "uint4": 4, "float4_e2m1fn": 4, "int2": 2, "uint2": 2}
    size = -(-array.size * bits.get(str(array.dtype), 8 * array.itemsize) // 8)
    assert graph.buffers[graph.roots[number]].size == size, value.name
    return True


def test_the_line_to_try_opens_a_model_or_leaves_another_reason() -> None:
    refused = [c for c in cases() if OPEN.match(str(results()[c.name]))]
    reasons = Counter(map(retried, refused))
    assert reasons["planned"] >= 7
    assert "open" not in reasons


def retried(case: Any) -> str:
    """Return the reason for which a model is refused with the line that its message suggests."""
    line = str(results()[case.name]).rpartition("; try ")[2].split()[1::2]
    dims = {name: int(size) for name, size in (x.split("=") for x in line)}
    try:
        planned(case, dims)
    except FormatError as error:
        return reason(str(error))
    return "planned"
