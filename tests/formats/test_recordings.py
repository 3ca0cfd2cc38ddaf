"""Recorded runs of PyTorch: profiler's traces and allocator's snapshots as live ranges."""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from optsched.check.packing import check_packing
from optsched.cli import main
from optsched.errors import FormatError
from optsched.formats import read_graph, read_packing
from optsched.formats.plain_pickle import parse_plain_pickle
from optsched.solver.pack import pack
from tests.support.commands import Cli

SHARED: list[object] = [1, 2]
PLAIN = {
    "none": None,
    "flags": [True, False],
    "numbers": [0, -1, 255, 65536, 2**40, -(2**70), 1.5],
    "texts": ["", "ä", "x" * 300, b"bytes"],
    "nested": {"tuple": (1, (2, 3, 4, 5), ()), 7: {}, (1, 2): [SHARED, SHARED]},
    "many": list(range(2_000)),
}


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_plain_containers_are_read_as_they_were_written(protocol: int) -> None:
    value = {key: x for key, x in PLAIN.items() if protocol > 2 or key != "texts"}
    assert parse_plain_pickle(pickle.dumps(value, protocol)) == value


class Command:
    """Action that a hostile pickle requests from its reader."""

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
        return os.system, ("touch /nowhere",)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (Command(), r"byte \d+ asks for '(posix|nt) system'"),
        ({"a": {1, 2}}, "asks for EMPTY_SET"),
        ([len], r"'builtins len' \(STACK_GLOBAL\)"),
        ([FormatError], "FormatError"),
        ([bytearray(b"x")], "bytearray"),
        ([complex(1, 2)], "complex"),
    ],
    ids=["command", "set", "function", "class", "bytearray", "complex"],
)
@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_what_would_run_code_is_refused_by_name(value: object, words: str, protocol: int) -> None:
    with pytest.raises(FormatError, match="only plain containers") as found:
        parse_plain_pickle(pickle.dumps(value, protocol))
    assert "\n" not in str(found.value)
    if protocol == 4:
        assert found.match(words)


def test_a_pickle_that_is_cut_off_anywhere_is_refused() -> None:
    whole = pickle.dumps(PLAIN, 4)
    for length in [*range(60), *range(60, len(whole), 211), len(whole) - 1]:
        with pytest.raises(FormatError):
            parse_plain_pickle(whole[:length])
    with pytest.raises(FormatError, match="ends at byte"):
        parse_plain_pickle(whole + b"more")


def test_malformed_pickles_are_one_line() -> None:
    for text in (b"}}.", b"(.", b"a.", b"]K\x01K\x02u.", b"h\x05.", b"(K\x01d.", b"K\x01e.", b"0."):
        with pytest.raises(FormatError) as found:
            parse_plain_pickle(b"\x80\x04" + text)
        assert "\n" not in str(found.value)


def event(action: str, address: int, size: int, name: str = "") -> dict[str, Any]:
    return {
        "action": action,
        "addr": address,
        "size": size,
        "stream": 0,
        "frames": [{"filename": "m.py", "line": 1, "name": name}] if name else [],
    }


SNAPSHOT: dict[str, Any] = {
    "device_traces": [
        [
            event("segment_alloc", 0x1000, 4096),
            event("alloc", 0x1000, 1024, "conv"),
            event("free_completed", 0x9000, 512),
            event("segment_free", 0x9000, 2048),
            event("alloc", 0x1400, 512),
            event("free_requested", 0x1000, 1024),
            event("free_completed", 0x1000, 1024),
            event("alloc", 0x1000, 512),
            {"action": "snapshot", "addr": 0, "size": 0, "stream": 0, "frames": []},
        ],
        [],
    ],
    "segments": [
        {
            "device": 0,
            "address": 0x1000,
            "total_size": 4096,
            "stream": 0,
            "blocks": [
                {"size": 512, "state": "active_allocated", "requested_size": 500, "frames": []},
                {"size": 512, "state": "inactive", "frames": []},
                {"size": 512, "state": "active_allocated", "requested_size": 500, "frames": []},
                {"size": 2560, "state": "active_awaiting_free", "frames": []},
            ],
        }
    ],
    "allocator_settings": {"expandable_segments": False},
}


def written(document: object, path: Path) -> Path:
    path.write_bytes(pickle.dumps(document))
    return path


def test_live_ranges_of_a_snapshot(tmp_path: Path) -> None:
    table = read_packing(written(SNAPSHOT, tmp_path / "s.pickle"))
    rows = zip(
        table.problem.names,
        table.problem.start.tolist(),
        table.problem.end.tolist(),
        table.problem.size.tolist(),
        strict=True,
    )
    assert list(rows) == [
        ("0 conv", 0, 3, 1024),
        ("1 from before", 0, 1, 512),
        ("2", 2, 5, 512),
        ("3", 4, 5, 512),
        ("4 throughout", 0, 5, 2560),
    ]
    # Before the second segment went, both were held: 4096 of the first and 2048 of the other.
    assert table.reserved == {"cuda:0": 6144}
    assert table.pools is None


def test_one_command_says_what_the_allocator_wasted(tmp_path: Path, cli: Cli) -> None:
    path = str(written(SNAPSHOT, tmp_path / "s.pickle"))
    text = cli("pack", path)
    assert "slab  4,096 bytes" in text
    assert "cuda:0: the allocator reserved 6,144 bytes, 2,048 (33.3 %) more than this slab" in text
    record = cli.json("pack", path, "-o", tmp_path / "out.csv")
    # Segments of these sizes are not the allocator's, so other settings are not tried.
    recorded = record["recorded"]["cuda:0"]
    assert "2,099,200 bytes would have been reserved" in recorded.pop("not_replayed")
    assert recorded == {"reserved": 6144, "slab": 4096, "wasted": 2048}
    back = read_packing(tmp_path / "out.csv")
    assert back.offsets is not None
    assert check_packing(back.problem, back.offsets.tolist()) == 4096


def test_devices_are_pools(tmp_path: Path, cli: Cli) -> None:
    two = {**SNAPSHOT, "device_traces": [SNAPSHOT["device_traces"][0], [event("alloc", 1, 8)]]}
    record = cli.json("pack", written(two, tmp_path / "s.pickle"))
    assert record["recorded"]["cuda:0"]["slab"] == 4096
    recorded = record["recorded"]["cuda:1"]
    assert recorded.pop("not_replayed") == "the file has no segment with an address"
    assert recorded == {"reserved": 0, "slab": 8, "wasted": -8}


def test_one_command_says_what_would_have_lowered_the_reserve(tmp_path: Path, cli: Cli) -> None:
    """Two requests of 11 MiB, and once both are freed one of 21 MiB, which fits neither block."""
    mib = 1 << 20
    trace = [
        *(event("segment_alloc", at, 12 * mib) for at in (1 << 30, 2 << 30)),
        event("segment_alloc", 3 << 30, 22 * mib),
    ]
    blocks = [(1 << 30, 11 * mib), (2 << 30, 11 * mib), (3 << 30, 21 * mib)]
    one, two, three = (event("alloc", *block) for block in blocks)
    events = [trace[0], one, trace[1], two]
    events += [event("free_completed", *block) for block in blocks[:2]]
    events += [trace[2], three]
    segments = [
        {
            "device": 0,
            "address": x["addr"],
            "total_size": x["size"],
            "stream": 0,
            "segment_type": "large",
            "blocks": [{"size": x["size"], "requested_size": 21 * mib, "state": state}],
        }
        for x, state in zip(trace, ["inactive", "inactive", "active_allocated"], strict=True)
    ]
    document = {"device_traces": [events], "segments": segments}
    path = str(written(document, tmp_path / "s.pickle"))
    text = cli("pack", path)
    assert "23,068,672 bytes were live at one time: only another order of ops needs fewer" in text
    assert "expandable_segments would have saved 6,291,456 and slab would have saved" in text
    recorded = cli.json("pack", path)["recorded"]["cuda:0"]
    assert recorded["reserved"] == 46 * mib
    assert recorded["slab"] == recorded["live"] == 22 * mib
    assert recorded["expandable_segments"] == 40 * mib
    assert recorded["saved_by"] == {"expandable_segments": 6 * mib, "slab": 24 * mib}


MIB = 1 << 20


def segment(address: int, size: int, *blocks: tuple[int, str], device: int = 0) -> dict[str, Any]:
    """A large segment with blocks of these sizes and states."""
    rows = [{"size": x, "requested_size": x, "state": state} for x, state in blocks]
    kind = {"segment_type": "large", "stream": 0, "device": device}
    return {**kind, "address": address, "total_size": size, "blocks": rows}


def packed(document: object, path: Path, capsys: pytest.CaptureFixture[str]) -> tuple[str, Any]:
    """Pack a snapshot; return the text and the record of the first device."""
    file = str(written(document, path / "s.pickle"))
    assert main(["pack", file]) == 0
    text = capsys.readouterr().out
    assert main(["pack", file, "--json"]) == 0
    return text, next(iter(json.loads(capsys.readouterr().out)["recorded"].values()))


USED = segment(1 << 30, 20 * MIB, (20 * MIB, "active_allocated"))
FREE = segment(2 << 30, 40 * MIB, (40 * MIB, "inactive"))


@pytest.mark.parametrize(
    "snapshot",
    # As `_record_memory_history("state")` writes it, or none at all.
    [
        *(
            {"device_traces": traces, "segments": [USED, FREE]}
            for traces in ([[]], [], None, [[event("snapshot", 0, 0)]])
        ),
        # As `torch.cuda.memory_snapshot()` returns them.
        [USED, FREE],
    ],
)
def test_a_snapshot_without_events_has_the_blocks_in_use(
    snapshot: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, recorded = packed(snapshot, tmp_path, capsys)
    assert (recorded["slab"], recorded["reserved"]) == (20 * MIB, 60 * MIB)
    assert "no allocation or free was recorded" in text
    assert "would have saved" not in text


def test_devices_without_a_list_of_events_are_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = event("alloc", 5 << 30, 8)
    other = segment(3 << 30, 20 * MIB, (12 * MIB, "active_allocated"), device=2)
    document = {"device_traces": [[one]], "segments": [USED, other]}
    table = read_packing(written(document, tmp_path / "s.pickle"))
    assert table.pools == ("cuda:0", "cuda:0", "cuda:2")
    assert table.problem.size.tolist() == [8, 20 * MIB, 12 * MIB]
    assert table.traces["cuda:2"].notes[0].startswith("no allocation or free was recorded")
    assert "segments that were not recorded" in table.traces["cuda:0"].unlike


def test_a_trace_that_overflowed_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    events = [event("alloc", 2 << 30, 30 * MIB), event("free_completed", 2 << 30, 30 * MIB)]
    document = {"device_traces": [events], "segments": [USED, FREE]}
    text, _ = packed({**document, "trace_alloc_overflowed": [True]}, tmp_path, capsys)
    assert "the trace begins in the middle: its buffer of 2 entries overflowed" in text
    text, _ = packed({**document, "trace_alloc_overflowed": [False]}, tmp_path, capsys)
    assert "overflowed" not in text


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (15, "a slab would have had room in 31,457,280 reserved + 5,242,880 free on the device"),
        (20, "36,700,160 are within 31,457,280 reserved + 5,242,880 free on the device, but not"),
        (30, "are too few for both, however they are placed"),
    ],
)
def test_a_request_that_failed_is_named(
    size: int, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """15 MiB are live in a segment of 30 MiB; 20 MiB were in use before."""
    at = 1 << 30
    events = [
        event("segment_alloc", at, 30 * MIB),
        event("alloc", at, 20 * MIB),
        event("free_completed", at, 20 * MIB),
        event("alloc", at, 15 * MIB),
        {"action": "oom", "size": size * MIB, "device_free": 5 * MIB, "stream": 0},
    ]
    own = segment(at, 30 * MIB, (15 * MIB, "active_allocated"), (15 * MIB, "inactive"))
    text, recorded = packed({"device_traces": [events], "segments": [own]}, tmp_path, capsys)
    assert f"{size * MIB:,} bytes were refused with 15,728,640 live" in text
    assert words in text
    (refused,) = recorded["refused"]
    assert refused == {
        "size": size * MIB,
        "live": 15 * MIB,
        "reserved": 30 * MIB,
        "free": 5 * MIB,
    }


def test_blocks_end_at_their_request_if_no_free_was_completed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As `skip_actions=["free_completed"]` records it; the last block waits for its free."""
    at = 2 << 30
    events = [event("alloc", at, 30 * MIB), event("free_requested", at, 30 * MIB)] * 2
    document = {"device_traces": [events], "segments": [USED, FREE]}
    text, recorded = packed(document, tmp_path, capsys)
    assert recorded["slab"] == 50 * MIB
    assert "'free_completed' was not recorded: blocks end where their free was requested" in text
    waits = segment(at, 40 * MIB, (30 * MIB, "active_awaiting_free"), (10 * MIB, "inactive"))
    table = read_packing(written({**document, "segments": [waits]}, tmp_path / "w.pickle"))
    assert [table.problem.start.tolist(), table.problem.end.tolist()] == [[0, 2], [1, 3]]


@pytest.mark.parametrize(
    ("events", "segments", "words"),
    [
        ([event("free_completed", 64, 8)] * 2, [], "event 1 frees address 0x40, which event 0"),
        (
            [event("free_completed", 1 << 30, 20 * MIB)],
            [USED],
            "a block is in use at the end at address 0x40000000, which event 0 freed",
        ),
    ],
)
def test_allocations_that_were_not_recorded_are_refused(
    events: list[Any], segments: list[Any], words: str, tmp_path: Path
) -> None:
    path = written({"device_traces": [events], "segments": segments}, tmp_path / "s.pickle")
    with pytest.raises(FormatError, match=words):
        read_packing(path)


def changed(**more: Any) -> dict[str, Any]:
    return {**SNAPSHOT, **more}


@pytest.mark.parametrize(
    ("document", "words"),
    [
        (changed(segments=3), "segments must be an array"),
        (changed(device_traces=[7]), "entry 0 must be an array, got 7"),
        (changed(device_traces=[[{"action": "alloc", "addr": 1}]]), "event 0: size is missing"),
        (changed(device_traces=[[event("alloc", 1, -5)]]), "size must be at least 0, got -5"),
        (changed(device_traces=[[event("explode", 1, 5)]]), "unknown action 'explode'"),
        (
            changed(device_traces=[[event("alloc", 16, 5), event("alloc", 16, 6)]]),
            "event 1 allocates 6 bytes at address 0x10, where '0' of 5 bytes lives",
        ),
        (
            changed(device_traces=[[event("alloc", 16, 5), event("free_completed", 16, 6)]]),
            "event 1 frees 6 bytes at address 0x10, where '0' has 5",
        ),
        ([SNAPSHOT["segments"], "device_traces", "segments"], "expected an object"),
        ({"segments": [], "device_traces": [[Command()]]}, "only plain containers"),
    ],
)
def test_what_is_no_snapshot_is_one_line(
    document: object, words: str, tmp_path: Path, cli: Cli
) -> None:
    path = written(document, tmp_path / "s.pickle")
    error = cli.error("pack", path)
    assert words in error
    assert error.count("\n") == 1


def memory(ts: float, address: int, count: int, device: int = -1, **more: int) -> dict[str, Any]:
    args = {"Addr": address, "Bytes": count, "Device Type": 0 if device < 0 else 1}
    return {"name": "[memory]", "ts": ts, "tid": 1, "args": {**args, "Device Id": device, **more}}


def test_live_ranges_of_a_profile(tmp_path: Path) -> None:
    ops = [
        {"name": "aten::linear", "cat": "cpu_op", "ts": 0.0, "dur": 9.0, "tid": 1},
        {"name": "aten::addmm", "cat": "cpu_op", "ts": 1.0, "dur": 3.0, "tid": 1},
    ]
    events = [
        memory(2.0, 100, 64, **{"Total Reserved": 0}),
        memory(7.0, 100, -64),
        memory(5.0, 200, 32),
        memory(8.0, 100, 16),
        memory(9.5, 300, -8),
    ]
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": ops + events}))
    table = read_packing(path)
    problem = table.problem
    assert problem.names == ("0 aten::addmm", "1 aten::linear", "2 aten::linear", "3 from before")
    assert problem.start.tolist() == [0, 1, 3, 0]
    assert problem.end.tolist() == [2, 5, 5, 4]
    assert table.reserved == {}
    assert pack(table).slab == 104


def test_a_profile_of_two_devices_and_its_reserve(tmp_path: Path) -> None:
    events = [
        memory(1.0, 1, 64, 0, **{"Total Reserved": 2048}),
        memory(2.0, 1, 64, 1, **{"Total Reserved": 512}),
        memory(3.0, 1, -64, 0, **{"Total Reserved": 1024}),
    ]
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": events}))
    table = read_packing(path)
    assert table.reserved == {"cuda:0": 2048, "cuda:1": 512}
    assert table.pools == ("cuda:0", "cuda:1")


@pytest.mark.parametrize(
    ("event", "words"),
    [
        ({"name": "[memory]", "ts": "soon", "args": {}}, "ts must be a number, got 'soon'"),
        ({"name": "[memory]", "ts": 1}, "expected an object, got None"),
        ({"name": "[memory]", "ts": 1, "args": {"Bytes": 1.5}}, "must be an integer"),
        (memory(1, 1, 2**63), "above the limit"),
    ],
)
def test_a_malformed_profile_is_one_line(event: dict[str, Any], words: str, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": [event]}))
    with pytest.raises(FormatError, match=words):
        read_packing(path)
    with pytest.raises(FormatError, match="a packing"):
        read_graph(path)
