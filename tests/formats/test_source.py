"""Hostile and damaged files: one line that starts with the file's name, and no harm done."""

from __future__ import annotations

import gzip
import io
import os
import sys
import time
import tracemalloc
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from optsched.errors import FormatError
from optsched.formats.format import Source
from optsched.formats.source import decode_text, parse_json, read_bytes, unpack, write_bytes


def refused(path: Path | str, **options: int) -> str:
    """Return the one line that reading a file gives, without the file's name."""
    with pytest.raises(FormatError) as caught:
        decode_text(read_bytes(path, **options))
    line = str(caught.value)
    assert "\n" not in line
    return line.removeprefix(f"{path}: ")


@pytest.mark.parametrize(
    ("text", "message"),
    {
        "empty": ("", "invalid JSON: Expecting value at line 1 column 1"),
        "cut": ('{"a": [1, 2', "invalid JSON: Expecting ',' delimiter at line 1 column 12"),
        "second line": ('{"a": 1,\n}', "at line 2 column 1"),
        "duplicate": ('{"a": {"x\\ny": 1, "b": 2, "x\\ny": 3}}', r"duplicate key 'x\ny'"),
        "nan": ('{"a": NaN}', "NaN is not a JSON number"),
        "infinity": ('{"a": Infinity}', "Infinity is not a JSON number"),
        "minus infinity": ("[-Infinity]", "-Infinity is not a JSON number"),
        "overflow": ("[1e999]", "JSON number 1e999 is too large"),
        "digits": (f"[{'9' * 5000}]", "JSON integer 99999999999999999999... has 5000 digits"),
        "surrogate": (r'{"\ud800": 1}', "half of a surrogate pair"),
        "control character": ('["a\nb"]', "invalid JSON: Invalid control character"),
    }.values(),
    ids=str,
)
def test_json_is_strict(text: str, message: str) -> None:
    with pytest.raises(FormatError) as caught:
        parse_json(text)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_whole_surrogate_pairs_are_text() -> None:
    assert parse_json(r'{"\ud83d\ude00": 1}') == {"\N{GRINNING FACE}": 1}


@pytest.mark.parametrize("bracket", ["[", '{"a":'])
def test_deep_nesting_is_refused_at_once(bracket: str) -> None:
    text = bracket * (3 * 10**7 // len(bracket))
    started = time.process_time()
    with pytest.raises(FormatError, match="JSON is nested too deeply"):
        parse_json(text)
    assert time.process_time() - started < 2


def test_gzip_is_known_by_content(tmp_path: Path) -> None:
    path = tmp_path / "graph.json"
    path.write_bytes(gzip.compress(b"[1]"))
    assert read_bytes(path) == b"[1]"
    path.write_bytes(gzip.compress(b"[1,") + gzip.compress(b"2]"))
    assert read_bytes(path) == b"[1,2]"


def test_damaged_gzip(tmp_path: Path) -> None:
    path = tmp_path / "graph.json.gz"
    whole = gzip.compress(bytes(range(256)) * 4, mtime=0)
    for length in range(2, len(whole)):
        path.write_bytes(whole[:length])
        assert refused(path) == "gzip data is truncated"
    path.write_bytes(whole[:-5] + b"x" + whole[-4:])
    assert refused(path) == "gzip data is damaged"
    path.write_bytes(whole[:12] + b"\xff" * 9 + whole[21:])
    assert refused(path) == "gzip data is damaged"
    path.write_bytes(whole + b"tail")
    assert refused(path) == "gzip data is damaged"


def test_zip_bomb_costs_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "bomb.json.gz"
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    path.write_bytes(b"".join(packer.compress(bytes(2**20)) for _ in range(40)) + packer.flush())
    tracemalloc.start()
    assert refused(path, limit=2**25) == "decompresses to more than the limit of 33,554,432 bytes"
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 2**23


def test_large_plain_file(tmp_path: Path) -> None:
    path = tmp_path / "large.json"
    path.write_bytes(bytes(101))
    assert refused(path, limit=100) == "larger than the limit of 100 bytes (101)"
    assert len(read_bytes(path, limit=101)) == 101
    assert refused("/dev/zero", limit=1000) == "larger than the limit of 1,000 bytes"


@pytest.mark.parametrize(
    ("name", "most", "helps"),
    [
        ("graph.json", 2**30, ""),
        ("model.onnx", 2**31, ": save its weights as external data, which plans do not need"),
        ("model.tflite", 2**30, ": save it without its weights, which plans do not need"),
    ],
)
def test_a_large_file_is_refused_by_its_size(
    name: str, most: int, helps: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    with path.open("wb") as file:
        # No block of it is on the disk.
        file.truncate(most + 1)
    tracemalloc.start()
    said = f"larger than the limit of {most:,} bytes ({most + 1:,}){helps}"
    assert refused(path) == said
    _, used = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert used < 2**20


def test_text() -> None:
    assert decode_text(b"\xef\xbb\xbfid") == "id"
    with pytest.raises(FormatError, match="not UTF-8 text: byte 2 is invalid"):
        decode_text(b"ab\xff")
    with pytest.raises(FormatError, match="not UTF-8 text"):
        decode_text("id".encode("utf-16"))


def test_paths_that_are_no_files(tmp_path: Path) -> None:
    assert refused(tmp_path / "missing.json") == "no such file"
    assert refused(tmp_path) == "is a directory, expected a file"
    with pytest.raises(FormatError, match="not a valid path"):
        read_bytes("a\0b")
    (tmp_path / "file").write_bytes(b"")
    assert refused(tmp_path / "file" / "below") == "no such file"
    with pytest.raises(FormatError, match=r"\\nb\.json': no such file"):
        read_bytes(tmp_path / "a\nb.json")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_unreadable_file(tmp_path: Path) -> None:
    path = tmp_path / "secret.json"
    path.touch(mode=0)
    assert refused(path) == "permission denied"


def test_standard_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stream:
        buffer = io.BytesIO(gzip.compress(b"[1]"))

    monkeypatch.setattr(sys, "stdin", Stream())
    assert read_bytes("-") == b"[1]"
    Stream.buffer = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", Stream())
    write_bytes("-", b"[2]")
    assert Stream.buffer.getvalue() == b"[2]"


def test_writing_is_whole_and_repeatable(tmp_path: Path) -> None:
    path = tmp_path / "plan.json.gz"
    write_bytes(path, b"one")
    first = path.read_bytes()
    write_bytes(path, b"one")
    assert path.read_bytes() == first
    assert unpack(first) == b"one"
    assert [p.name for p in tmp_path.iterdir()] == ["plan.json.gz"]


def test_files_that_a_kill_left_behind_are_in_nobodys_way(tmp_path: Path) -> None:
    left = tmp_path / f".plan.json.{os.getpid()}.tmp"
    left.write_bytes(b"half")
    write_bytes(tmp_path / "plan.json", b"data")
    assert (left.read_bytes(), (tmp_path / "plan.json").read_bytes()) == (b"half", b"data")


def test_threads_that_write_one_file_leave_one_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    texts = [bytes([65 + i]) * 20_000 for i in range(8)]

    def write(data: bytes) -> None:
        for _ in range(20):
            write_bytes(path, data)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, texts))
    assert path.read_bytes() in texts
    assert [p.name for p in tmp_path.iterdir()] == ["plan.json"]


@pytest.mark.skipif(os.name != "posix", reason="looks at the permissions of POSIX")
def test_a_file_keeps_its_mode_and_a_new_one_has_the_usual_one(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.touch()
    old.chmod(0o640)
    write_bytes(old, b"data")
    assert old.stat().st_mode & 0o777 == 0o640
    before = os.umask(0o027)
    try:
        write_bytes(new, b"data")
    finally:
        os.umask(before)
    assert new.stat().st_mode & 0o777 == 0o640


def test_bytes_are_on_the_disk_before_the_name_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    for name in ("fsync", "replace"):
        real = getattr(os, name)
        monkeypatch.setattr(
            os, name, lambda *args, name=name, real=real: (done.append(name), real(*args))
        )
    write_bytes(tmp_path / "plan.json", b"data")
    assert done == ["fsync", "replace"]


def test_json_of_too_many_values_is_refused_before_any_is_built() -> None:
    text = "[" + "{}," * 2**20 + "{}]"
    tracemalloc.start()
    with pytest.raises(FormatError, match="JSON has more than 1,000,000 values"):
        parse_json(text, limit=10**6)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 2**20
    assert parse_json("[[1,2],{}]", limit=5) == [[1, 2], {}]


def test_streams_that_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    monkeypatch.setattr(sys, "stdout", None)
    with pytest.raises(FormatError, match="<stdin>: standard input is closed"):
        read_bytes("-")
    with pytest.raises(FormatError, match="standard output is closed"):
        write_bytes("-", b"data")


def test_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "plan.json"
    write_bytes(path, b"old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(FormatError, match=r"plan\.json: cannot be written: no space left"):
        write_bytes(path, b"new")
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["plan.json"]


def test_writing_follows_links_and_spares_devices(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "target")
    write_bytes(tmp_path / "link", b"data")
    assert (tmp_path / "target").read_bytes() == b"data"
    assert (tmp_path / "link").is_symlink()
    write_bytes("/dev/null", b"data")
    assert not Path("/dev/null").is_file()


def test_places_that_can_not_be_written(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="cannot be written: is a directory"):
        write_bytes(tmp_path, b"")
    with pytest.raises(FormatError, match="cannot be written: no such file"):
        write_bytes(tmp_path / "missing" / "plan.json", b"")


def test_bytes_that_no_text_has_are_not_searched_for_words() -> None:
    """A gigabyte of zeros took 95 s and five times its size, as all formats of text searched it."""
    source = Source(bytes(5_000))
    assert (source.text, source.document) == ("", {})
    assert "binary data" in str(source.trouble)
    assert Source(b"a" * 1024 + bytes(1)).trouble is None
