"""Safe input and output of bytes, text and JSON.

Files may come from anywhere, so every content is checked here. Any defect of a file is reported in
one line that starts with the file's name. No file can run code, and no file larger than the limit
is kept in memory.
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

from optsched.errors import FormatError, GraphError, PlanError, UsageError
from optsched.formats.pipes import STANDARD_STREAM, is_pipe, read_pipe
from optsched.runtime.interrupt import released_interrupts
from optsched.runtime.text import decoded, is_stand_in

MAX_BYTES = 2**30
"""Maximum bytes of a file, on disk and decompressed, unless its ending has its own."""

MORE_BYTES = {".onnx": 2**31}
"""Maximum bytes by ending: protobuf's own limit for a model."""

MAX_JSON_VALUES = 2**25
"""Maximum number of values in JSON: each takes about 70 bytes of memory, but only 3 in a file."""

_GZIP_MAGIC = b"\x1f\x8b"
_CHUNK = 2**20
_MAX_DIGITS = 40
_ZEROS = bytes.maketrans(b"123456789", b"000000000")
_HALF_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


@contextmanager
def errors_named(label: str) -> Iterator[None]:
    """Prefix errors raised in this block with the file's name."""
    try:
        yield
    except (FormatError, GraphError, PlanError) as error:
        named = type(error)(f"{label}: {error}")
        vars(named).update(vars(error))
        raise named from None


def label_of(path: str | Path) -> str:
    """Return the name of a file in messages: its path as given, made safe for one line."""
    text = "<stdin>" if str(path) == STANDARD_STREAM else decoded(str(path))
    return text if text.isprintable() else repr(text)


def read_bytes(path: str | Path, *, limit: int | None = None, compressed: bool = True) -> bytes:
    """Return the content of a file, decompressed if its first bytes are those of gzip.

    `limit` is the maximum number of bytes, before and after decompression; by default that of the
    file's ending. With `compressed=False`, the bytes are returned as stored. `FormatError` is
    raised if the file does not exist, cannot be read, is too large (before it is read, if its size
    is known), or is damaged gzip.
    """
    if limit is None:
        limit = MORE_BYTES.get(Path(str(path).removesuffix(".gz")).suffix.lower(), MAX_BYTES)
    with errors_named(label_of(path)):
        try:
            data = _read_raw(path, limit)
        except (OSError, ValueError) as error:
            raise FormatError(_reason(error)) from None
        return unpack(data, limit=limit) if compressed else data


# A pipe may keep the reader waiting, and Ctrl-C must end that.
@released_interrupts()
def _read_raw(path: str | Path, limit: int) -> bytes:
    if is_pipe(path):
        return read_pipe(path, lambda file: _read_up_to(file, limit))
    with open(path, "rb") as file:
        # A pipe or a device has the size 0, so it is measured while it is read.
        if (size := os.fstat(file.fileno()).st_size) > limit:
            raise FormatError(_too_large(limit, f" ({size:,})", Path(path).suffix.lower()))
        return _read_up_to(file, limit)


def _too_large(limit: int, size: str = "", ending: str = "") -> str:
    """Return the reason why a file is too large, and for a model what helps."""
    text = f"larger than the limit of {limit:,} bytes{size}"
    if ending == ".onnx":
        text += ": save its weights as external data, which plans do not need"
    elif ending in (".pt2", ".pte", ".tflite"):
        text += ": save it without its weights, which plans do not need"
    return text


def _read_up_to(file: BinaryIO, limit: int) -> bytes:
    # Read in chunks: a single read of `limit` bytes would allocate that much memory for any file.
    pieces, size = [], 0
    while piece := file.read(_CHUNK):
        pieces.append(piece)
        size += len(piece)
        if size > limit:
            raise FormatError(_too_large(limit))
    return b"".join(pieces)


def _reason(error: OSError | ValueError) -> str:
    match error:
        case FileNotFoundError() | NotADirectoryError():
            return "no such file"
        case IsADirectoryError():
            return "is a directory, expected a file"
        case PermissionError():
            return "permission denied"
        case OSError():
            return (error.strerror or "cannot be opened").lower()
    return "not a valid path"


def is_compressed(data: bytes) -> bool:
    """Return True if data starts like gzip."""
    return data.startswith(_GZIP_MAGIC)


def unpack(data: bytes, *, limit: int = MAX_BYTES) -> bytes:
    """Return data, decompressed if its first bytes are those of gzip.

    The output is measured before it is kept, so a zip bomb costs time but not memory.
    """
    if not is_compressed(data):
        return data
    try:
        size, first = 0, b""
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as stream:
            while chunk := stream.read(_CHUNK):
                first = first or chunk
                size += len(chunk)
                if size > limit:
                    raise FormatError(f"decompresses to more than the limit of {limit:,} bytes")
        # A second pass for more than one chunk: the first pass only counted.
        return first if len(first) == size else gzip.decompress(data)
    except EOFError:
        raise FormatError("gzip data is truncated") from None
    except (OSError, zlib.error):
        raise FormatError("gzip data is damaged") from None


def decode_text(data: bytes) -> str:
    """Return UTF-8 data as text, without a byte order mark."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FormatError(f"not UTF-8 text: byte {error.start} is invalid") from None


def parse_json(text: str, *, limit: int = MAX_JSON_VALUES) -> Any:
    """Parse JSON strictly.

    `FormatError` is raised for malformed text, a duplicate key in an object, a number that is not
    finite or far too long, half of a surrogate pair, nesting too deep for the parser, and more
    values than `limit`, which are estimated from the punctuation before any value is built.
    """
    # Every value but the first follows one of these characters; those in strings count too.
    if sum(map(text.count, "[{,:")) > limit:
        raise FormatError(f"JSON has more than {limit:,} values")
    try:
        value = json.loads(
            text,
            object_pairs_hook=_make_object,
            parse_constant=_refuse_constant,
            parse_float=_parse_float,
            parse_int=_parse_int if _may_be_long(text) else int,
        )
        # A pair of escapes is fine, and only encoding tells.
        if _HALF_SURROGATE.search(text):
            json.dumps(value, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        place = f"line {error.lineno} column {error.colno}"
        raise FormatError(f"invalid JSON: {error.msg} at {place}") from None
    except RecursionError:
        raise FormatError("JSON is nested too deeply") from None
    except UnicodeEncodeError:
        raise FormatError("JSON string contains half of a surrogate pair") from None
    return value


def _make_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    # Of two equal keys the last would win, and readers differ in that.
    made = dict(pairs)
    if len(made) != len(pairs):
        twice = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise FormatError(f"JSON object has a duplicate key {twice[:60]!r}")
    return made


def _refuse_constant(text: str) -> None:
    raise FormatError(f"{text} is not a JSON number")


def _parse_float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise FormatError(f"JSON number {text[:60]} is too large")
    return value


def _may_be_long(text: str) -> bool:
    """Return True if a text has a run of digits that is too long, or nearly, for an integer."""
    # A call per integer would take most of the time that a large file takes to parse.
    return b"0" * _MAX_DIGITS in text.encode(errors="surrogatepass").translate(_ZEROS)


def _parse_int(text: str) -> int:
    # Python takes quadratic time to read a long integer.
    if len(text) > _MAX_DIGITS:
        raise FormatError(f"JSON integer {text[:20]}... has {len(text)} digits")
    return int(text)


def write_bytes(path: str | Path, data: bytes) -> None:
    """Write a file completely or not at all, compressed if its name ends in .gz.

    The path "-" is standard output. Equal data give equal files, byte for byte. `FormatError` is
    raised if the file cannot be written; an existing file then remains.
    """
    with errors_named(label_of(path)):
        if str(path).endswith(".gz"):
            data = gzip.compress(data, mtime=0)
        try:
            if str(path) == STANDARD_STREAM:
                _write_out(data)
            else:
                # A link's target is replaced, not the link.
                _replace_file(Path(os.path.realpath(path)), data)
        except (OSError, ValueError) as error:
            raise FormatError(f"cannot be written: {_reason(error)}") from None


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
    """Write a temporary file and rename it, so that readers see either the old or the new bytes."""
    if path.is_dir():
        raise IsADirectoryError
    mode = path.stat().st_mode if path.exists() else None
    if mode is not None and not stat.S_ISREG(mode):
        # A device or a pipe is written to, never replaced.
        path.write_bytes(data)
        return
    # The random name cannot collide with a file left by a killed process.
    beside = path.with_name(f".optsched-{secrets.token_hex(8)}.tmp")
    with open(beside, "xb") as file:
        try:
            if mode is not None:
                os.chmod(beside, stat.S_IMODE(mode))
            file.write(data)
            file.flush()
            # On the disk before the rename, or a power cut could leave an empty file.
            os.fsync(file.fileno())
            os.replace(beside, path)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise


def check_call(call: str, path: object, thing: object, kinds: type | tuple[type, ...]) -> None:
    """Raise `UsageError` for arguments in another order; `call` is the correct call."""
    if not isinstance(path, str | os.PathLike) or not isinstance(thing, kinds):
        raise UsageError(
            f"expected {call}, got a {type(path).__name__} as path "
            f"and a {type(thing).__name__} to go with it"
        )
