"""From a path to bytes, text or JSON, and back: nothing a file holds gets past here unchecked.

Files come from anywhere. Whatever is wrong with one is said in a single line that starts with its
name; no file runs code, and none is held that is larger than the limit.
"""

from __future__ import annotations

import gzip
import io
import json
import math
import os
import re
import secrets
import stat
import sys
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from optsched.errors import FormatError, GraphError, PlanError
from optsched.runtime.interrupt import released_interrupts
from optsched.runtime.text import decoded, is_stand_in

MAX_BYTES = 2**30
"""Files above this size, as they lie on disk or decompressed, are refused."""

MAX_JSON_VALUES = 2**25
"""JSON of more values is refused: each takes some 70 bytes of memory, a file 3 bytes for it."""

STANDARD_STREAM = "-"
"""Stands for standard input when reading, for standard output when writing."""

_GZIP_MAGIC = b"\x1f\x8b"
_CHUNK = 2**20
_MAX_DIGITS = 40
_HALF_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


@contextmanager
def errors_named(label: str) -> Iterator[None]:
    """Let errors that bad input raises in this block start with the file's name."""
    try:
        yield
    except (FormatError, GraphError, PlanError) as error:
        raise type(error)(f"{label}: {error}") from None


def label_of(path: str | Path) -> str:
    """Return how messages call a file: its path as given, made fit for one line."""
    text = "<stdin>" if str(path) == STANDARD_STREAM else decoded(str(path))
    return text if text.isprintable() else repr(text)


def read_bytes(path: str | Path, *, limit: int = MAX_BYTES, compressed: bool = True) -> bytes:
    """Return what a file holds, decompressed if it is gzip by its first bytes.

    `limit` is the most bytes to accept, before and after decompression; unless `compressed` the
    bytes are as they lie on disk. It raises `FormatError` if there is no such file, it can not be
    read, is too large, or is damaged gzip.
    """
    with errors_named(label_of(path)):
        try:
            data = _read_raw(path, limit)
        except (OSError, ValueError) as error:
            raise FormatError(_reason(error)) from None
        return unpack(data, limit=limit) if compressed else data


@released_interrupts()
def _read_raw(path: str | Path, limit: int) -> bytes:
    if str(path) == STANDARD_STREAM:
        if sys.stdin is None:
            raise FormatError("standard input is closed")
        return _read_up_to(sys.stdin.buffer, limit)
    with open(path, "rb") as file:
        return _read_up_to(file, limit)


def _read_up_to(file: BinaryIO, limit: int) -> bytes:
    # Piece by piece: one read of `limit` bytes would take that much memory for the smallest file.
    pieces, size = [], 0
    while piece := file.read(_CHUNK):
        pieces.append(piece)
        size += len(piece)
        if size > limit:
            raise FormatError(f"larger than the limit of {limit} bytes")
    return b"".join(pieces)


def _reason(error: OSError | ValueError) -> str:
    match error:
        case FileNotFoundError() | NotADirectoryError():
            return "no such file"
        case IsADirectoryError():
            return "this is a directory, a file is wanted"
        case PermissionError():
            return "no permission to open it"
        case OSError():
            return (error.strerror or "can not be opened").lower()
    return "this is no path"


def is_compressed(data: bytes) -> bool:
    """Whether data is gzip by its first bytes."""
    return data.startswith(_GZIP_MAGIC)


def unpack(data: bytes, *, limit: int = MAX_BYTES) -> bytes:
    """Return data, decompressed if it is gzip by its first bytes.

    The output is measured before it is kept: a zip bomb costs time, not memory.
    """
    if not is_compressed(data):
        return data
    try:
        size = 0
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as stream:
            while chunk := stream.read(_CHUNK):
                size += len(chunk)
                if size > limit:
                    raise FormatError(f"decompresses to more than the limit of {limit} bytes")
        return gzip.decompress(data)
    except EOFError:
        raise FormatError("the gzip data ends early: the file is truncated") from None
    except (OSError, zlib.error):
        raise FormatError("the gzip data is damaged") from None


def decode_text(data: bytes) -> str:
    """Return UTF-8 data as text, without a byte order mark."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FormatError(f"no UTF-8 text: byte {error.start} is invalid") from None


def parse_json(text: str, *, limit: int = MAX_JSON_VALUES) -> Any:
    """Parse JSON strictly.

    It raises `FormatError` on malformed text, a key used twice in one object, a number that is not
    finite or of absurd length, half a surrogate pair, nesting too deep for the parser, and more
    values than the limit, estimated from the punctuation before any is built.
    """
    # Every value but the first follows one of these characters; in strings they count as well.
    if sum(map(text.count, "[{,:")) > limit:
        raise FormatError(f"JSON of more than the limit of {limit:,} values")
    try:
        value = json.loads(
            text,
            object_pairs_hook=_make_object,
            parse_constant=_refuse_constant,
            parse_float=_parse_float,
            parse_int=_parse_int,
        )
        if _HALF_SURROGATE.search(text):
            json.dumps(value, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        place = f"line {error.lineno} column {error.colno}"
        raise FormatError(f"no JSON: {error.msg} at {place}") from None
    except RecursionError:
        raise FormatError("JSON nested too deeply") from None
    except UnicodeEncodeError:
        raise FormatError("JSON with half of a surrogate pair in a string") from None
    return value


def _make_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        twice = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise FormatError(f"JSON object with the key {twice[:60]!r} twice")
    return made


def _refuse_constant(text: str) -> None:
    raise FormatError(f"{text} is no JSON number")


def _parse_float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise FormatError(f"JSON number {text[:60]} is too large")
    return value


def _parse_int(text: str) -> int:
    if len(text) > _MAX_DIGITS:
        raise FormatError(f"JSON integer {text[:20]}... has {len(text)} digits")
    return int(text)


def write_bytes(path: str | Path, data: bytes) -> None:
    """Write a file whole or not at all, as gzip if its name ends in .gz; "-" is standard output.

    The same data gives the same file, byte for byte. It raises `FormatError` if the file can not be
    written; one that was there before is then still there.
    """
    with errors_named(label_of(path)):
        if str(path).endswith(".gz"):
            data = gzip.compress(data, mtime=0)
        try:
            if str(path) == STANDARD_STREAM:
                _write_out(data)
            else:
                _replace_file(Path(os.path.realpath(path)), data)
        except (OSError, ValueError) as error:
            raise FormatError(f"can not be written: {_reason(error)}") from None


def _write_out(data: bytes) -> None:
    if sys.stdout is None or is_stand_in(sys.stdout):
        raise FormatError("standard output is closed")
    if hasattr(sys.stdout, "buffer"):
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    else:
        # A notebook's stream, or one that keeps text, takes no bytes.
        sys.stdout.write(data.decode("utf-8", "backslashreplace"))


def _replace_file(path: Path, data: bytes) -> None:
    """Write beside the file and rename, so that readers see the old bytes or the new ones."""
    if path.is_dir():
        raise IsADirectoryError
    mode = path.stat().st_mode if path.exists() else None
    if mode is not None and not stat.S_ISREG(mode):
        # A device or a pipe is written to, never replaced.
        path.write_bytes(data)
        return
    # Random, not of the process: what a kill left behind is in nobody's way.
    beside = path.with_name(f".optsched-{secrets.token_hex(8)}.tmp")
    with open(beside, "xb") as file:
        try:
            if mode is not None:
                os.chmod(beside, stat.S_IMODE(mode))
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            os.replace(beside, path)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise
