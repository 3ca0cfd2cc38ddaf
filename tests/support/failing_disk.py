"""A file system under SQLite that fails where a test says: killed, torn or full at the n-th write.

SQLite calls its own virtual file system, in which some functions have been replaced, through
`ctypes`; so every write, truncation, sync and deletion is met, of any cause.
"""

from __future__ import annotations

import _sqlite3
import ctypes
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

_FULL = 13
"""SQLITE_FULL"""

_Pointer = ctypes.c_void_p
_File = ctypes.POINTER(_Pointer)
_Open = ctypes.CFUNCTYPE(
    ctypes.c_int, _Pointer, _Pointer, _File, ctypes.c_int, ctypes.POINTER(ctypes.c_int)
)
_Write = ctypes.CFUNCTYPE(ctypes.c_int, _File, _Pointer, ctypes.c_int, ctypes.c_int64)
_Truncate = ctypes.CFUNCTYPE(ctypes.c_int, _File, ctypes.c_int64)
_Sync = ctypes.CFUNCTYPE(ctypes.c_int, _File, ctypes.c_int)
_Delete = ctypes.CFUNCTYPE(ctypes.c_int, _Pointer, _Pointer, ctypes.c_int)


class _Methods(ctypes.Structure):
    """`sqlite3_io_methods`, version 3."""

    _fields_ = [
        ("version", ctypes.c_int),
        *((name, _Pointer) for name in ("close", "read", "write", "truncate", "sync")),
        *((f"more{i}", _Pointer) for i in range(13)),
    ]


class _System(ctypes.Structure):
    """`sqlite3_vfs`, version 3."""

    _fields_ = [
        *((name, ctypes.c_int) for name in ("version", "file_size", "path_size")),
        ("next", _Pointer),
        ("name", ctypes.c_char_p),
        *((name, _Pointer) for name in ("data", "open", "delete")),
        *((f"more{i}", _Pointer) for i in range(14)),
    ]


@dataclass
class FailingDisk:
    """Behavior of the writes of this process from now on."""

    fail_at: int | None = None
    """The write, truncation, sync or deletion that fails, the first being 1; None for none."""
    how: str = "kill"
    """`kill` ends the process by SIGKILL before it, `tear` in its middle; `full` lets it and all
    that follow say that the disk is full."""
    count: int = 0
    """Number of them."""
    kept: list[Any] = field(default_factory=list)
    """Objects that SQLite points to, which must not be deleted."""

    def meets(self) -> bool:
        """Count an operation; return whether it is to fail."""
        self.count += 1
        if self.fail_at is None or self.count < self.fail_at:
            return False
        if self.how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        return True


def install(disk: FailingDisk) -> None:
    """Let SQLite work on this disk, in this process, for all files that are opened from now on."""
    library = ctypes.CDLL(_sqlite3.__file__)
    library.sqlite3_vfs_find.restype = ctypes.POINTER(_System)
    real = library.sqlite3_vfs_find(None)
    # A copy of SQLite's own file system, in which two functions are replaced below.
    made = _System.from_buffer_copy(real.contents)
    made.name = b"failing"
    open_really, delete_really = _Open(real.contents.open), _Delete(real.contents.delete)

    def open_file(_: Any, name: Any, file: Any, flags: int, out: Any) -> int:
        code: int = open_really(ctypes.addressof(real.contents), name, file, flags, out)
        # The opened file points to its table of methods: give it a table of ours.
        if code == 0 and file[0]:
            methods = _failing_methods(disk, _Methods.from_address(file[0]))
            file[0] = ctypes.addressof(methods)
        return code

    def delete(_: Any, name: Any, sync: int) -> int:
        if disk.meets():
            return _fail(disk)
        code: int = delete_really(ctypes.addressof(real.contents), name, sync)
        return code

    made.open = _pointer(disk, _Open(open_file))
    made.delete = _pointer(disk, _Delete(delete))
    disk.kept.append(made)
    assert library.sqlite3_vfs_register(ctypes.byref(made), 1) == 0


def _failing_methods(disk: FailingDisk, real: _Methods) -> _Methods:
    made = _Methods.from_buffer_copy(real)
    write_really, truncate_really = _Write(real.write), _Truncate(real.truncate)
    sync_really = _Sync(real.sync)

    def write(file: Any, data: Any, count: int, offset: int) -> int:
        if disk.meets():
            # Half the bytes reach the disk, as when power fails.
            return _fail(disk, lambda: write_really(file, data, count // 2, offset))
        code: int = write_really(file, data, count, offset)
        return code

    def truncate(file: Any, size: int) -> int:
        if disk.meets():
            return _fail(disk)
        code: int = truncate_really(file, size)
        return code

    def sync(file: Any, flags: int) -> int:
        if disk.meets():
            return _fail(disk)
        code: int = sync_really(file, flags)
        return code

    made.write = _pointer(disk, _Write(write))
    made.truncate = _pointer(disk, _Truncate(truncate))
    made.sync = _pointer(disk, _Sync(sync))
    disk.kept.append(made)
    return made


def _fail(disk: FailingDisk, half: Callable[[], object] = lambda: None) -> int:
    """End in the middle of a write, or say that the disk is full."""
    if disk.how == "tear":
        half()
        os.kill(os.getpid(), signal.SIGKILL)
    return _FULL


def _pointer(disk: FailingDisk, function: Any) -> int | None:
    # ctypes frees a callback that Python no longer refers to, while SQLite would still call it.
    disk.kept.append(function)
    return ctypes.cast(function, _Pointer).value
