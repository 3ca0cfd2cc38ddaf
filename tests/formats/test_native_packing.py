"""Packings with pairs kept apart and groups that share an offset: as JSON and as CSV."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jsonschema import Draft202012Validator

from optsched.errors import FormatError, GraphError
from optsched.formats import packing_of, read_packing, write_packing
from optsched.formats.minimalloc import PackingTable, minimalloc_text, read_minimalloc, with_pools
from optsched.formats.native_packing import packing_document, read_packing_document
from optsched.model.packing_problem import PackingProblem
from tests.formats.test_minimalloc import AWKWARD
from tests.support.packing_instances import random_problem
from tests.support.schemas import schema

COLUMNS = ("start", "end", "size", "alignment", "pin", "below", "keep_apart")


def is_same(one: PackingTable, other: PackingTable) -> bool:
    a, b = one.problem, other.problem
    return (
        all(getattr(a, what).tolist() == getattr(b, what).tolist() for what in COLUMNS)
        and (a.names, a.must_share) == (b.names, b.must_share)
        and [gaps for gaps in a.gaps if gaps] == [gaps for gaps in b.gaps if gaps]
        and (one.pools or ()) == (other.pools or ())
    )


@pytest.mark.parametrize("suffix", ["csv", "json", "json.gz"])
def test_nothing_is_lost(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"packing.{suffix}"
    for seed in range(60):
        random = np.random.default_rng([2, seed])
        problem = random_problem(random, "".join(x for x in "apgwks" if random.random() < 0.7))
        table = packing_of(problem)
        if seed % 2:
            table = with_pools(table, ["fast" if i % 2 else "" for i in range(len(problem))])
        write_packing(table, path)
        found = read_packing(path, pins=suffix == "csv")
        assert is_same(found, table)
        offsets = np.arange(len(problem)) * 7
        write_packing(found, path, offsets)
        again = read_packing(path)
        assert again.offsets is not None
        assert again.offsets.tolist() == offsets.tolist()


@pytest.mark.parametrize("suffix", ["csv", "json"])
def test_offsets_up_to_the_last_byte_go_through_files(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"packing.{suffix}"
    table = packing_of(PackingProblem(size=[1, 1], start=[0, 0], end=[1, 1]))
    write_packing(table, path, np.array([0, 2**63 - 2]))
    found = read_packing(path).offsets
    assert found is not None
    assert found.tolist() == [0, 2**63 - 2]
    path.write_text(path.read_text().replace(str(2**63 - 2), str(2**63)))
    with pytest.raises(FormatError, match=r"offset 9223372036854775808 exceeds 2\*\*63 - 1"):
        read_packing(path)


HUGE = [
    ({"alignment": [2**62 + 1]}, "alignment 4611686018427387905 is above the limit of 2\\*\\*62"),
    ({"pin": [2**63 - 3]}, "pinned to 9223372036854775805 it ends beyond 2\\*\\*63 - 1"),
    ({"start": [-(2**63)]}, "live range .* is outside -2\\*\\*62 to 2\\*\\*62"),
    ({"end": [2**63 - 1]}, "live range .* is outside -2\\*\\*62 to 2\\*\\*62"),
]


@pytest.mark.parametrize(("change", "said"), HUGE)
def test_what_would_overflow_is_named(change: dict[str, Any], said: str) -> None:
    with pytest.raises(GraphError, match=f"^buffer 'b0': {said}"):
        PackingProblem(**{"size": [4], "start": [0], "end": [1], **change})


@pytest.mark.parametrize(
    ("what", "limit"), [("size", "2**62"), ("alignment", "2**62"), ("pin", "2**63 - 1")]
)
def test_what_has_no_place_in_an_array_is_refused_with_its_limit(what: str, limit: str) -> None:
    said = f"{what}: 9223372036854775808 is above the limit of {limit}"
    with pytest.raises(GraphError, match=f"^{re.escape(said)}$"):
        PackingProblem(**{"size": [4], "start": [0], "end": [1], what: [2**63]})


@pytest.mark.parametrize("name", [*AWKWARD, "two words", " ", "a b'c,d"])
def test_any_name_may_stand_in_a_pair(name: str) -> None:
    problem = PackingProblem(
        names=(name, "b", "c"),
        size=[1, 2, 3],
        start=[0, 1, 2],
        end=[1, 2, 3],
        keep_apart=[(1, 0), (2, 0)],
        must_share=[("b", "c")],
    )
    table = packing_of(problem)
    assert is_same(read_minimalloc(minimalloc_text(table)), table)
    assert is_same(read_packing_document(packing_document(problem)), table)


def test_columns_may_be_filled_from_either_side() -> None:
    text = "id,lower,upper,size,apart,share\na,0,1,4,c b,x\nb,1,2,4,a,\nc,2,3,4,,y\nd,3,4,1,,x\n"
    problem = read_minimalloc(text + "e,4,5,1,,y\n").problem
    assert problem.keep_apart.tolist() == [[0, 1], [0, 2]]
    assert problem.must_share == ((0, 3), (2, 4))


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ("a,0,1,4,x,\n", "line 2: buffer 'a': apart names 'x', which is not an id"),
        ("a,0,1,4,a,\n", "line 2: buffer 'a': apart names the buffer itself"),
        ("a,0,1,4,,g\n", "line 2: buffer 'a': share 'g' appears only once"),
        (
            "a,0,1,4,b,g\nb,1,2,4,,g\n",
            "buffers 'a' and 'b' must share an offset and must be kept apart",
        ),
    ],
)
def test_bad_columns_are_named(rows: str, said: str) -> None:
    with pytest.raises((FormatError, GraphError)) as caught:
        read_minimalloc("id,lower,upper,size,apart,share\n" + rows)
    assert str(caught.value) == said


DOCUMENT: dict[str, Any] = {
    "format": "optsched-packing/1",
    "name": "p",
    "capacity": 64,
    "buffers": [
        {"name": "a", "start": 0, "end": 2, "size": 8, "alignment": 4, "pin": 4},
        {"name": "b", "start": 2, "end": 6, "size": 8, "below": 40, "gaps": [[3, 4], [4, 5, 0, 2]]},
        {"name": "c", "start": 6, "end": 7, "size": 4, "pool": "fast", "offset": 12},
    ],
    "keep_apart": [["a", "c"]],
    "must_share": [["b", "c"]],
}


def test_the_schema_agrees_with_the_reader() -> None:
    check = Draft202012Validator(schema("packing-1"))
    check.check_schema(schema("packing-1"))
    check.validate(DOCUMENT)
    assert packing_document(read_packing_document(DOCUMENT)) == DOCUMENT
    for seed in range(20):
        problem = random_problem(np.random.default_rng(seed), "apgwks")
        check.validate(packing_document(problem))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"extra": 1}, "packing: unknown key 'extra'; this file may need a newer optsched"),
        ({"format": "optsched-packing/2"}, "this optsched reads 'optsched-packing/1'"),
        ({"buffers": 3}, "packing: buffers must be an array, got 3"),
        ({"buffers": [{"name": ""}]}, "buffer number 0: name is empty"),
        ({"buffers": [{"name": "a", "start": 0, "end": 1}]}, "buffer 'a': size is missing"),
        ({"capacity": -1}, "packing: capacity must be at least 0, got -1"),
        ({"keep_apart": [["a"]]}, "keep apart: expected two buffers, got 'a'"),
        ({"keep_apart": [["a", "x"]]}, "keep apart: unknown buffer 'x'"),
        ({"keep_apart": [[0, 1]]}, "packing: keep_apart holds [0, 1], expected lists of names"),
        ({"must_share": ["ab"]}, "packing: must_share holds 'ab', expected lists of names"),
        ({"must_share": [["a", "c"]]}, "must share an offset and must be kept apart"),
    ],
)
def test_bad_documents_are_named(change: dict[str, Any], said: str) -> None:
    with pytest.raises((FormatError, GraphError)) as caught:
        read_packing_document({**DOCUMENT, **change})
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_bad_gaps_are_named() -> None:
    for gap in ([1], [1, 2, 3], ["a", 2], [True, 2], [0, -1], 5):
        broken = json.loads(json.dumps(DOCUMENT))
        broken["buffers"][1]["gaps"] = [gap]
        with pytest.raises(FormatError, match=r"buffer 'b': expected a gap \[start, end\]"):
            read_packing_document(broken)
