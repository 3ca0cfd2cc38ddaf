"""Compiled kernels on the disk: never trusted unseen, never needed.

A kernel compiled for one signature is one file: a SHA-256 digest, then numba's serialised form of
it, which is looked at only if the digest is that of the rest and of the file's name. The name says
what the code was made of, so a file is never out of date. The folders are one beside the sources
and one in the user's cache folder (one in `NUMBA_CACHE_DIR` where that is set); one that other
users may write to is not used, since reading a kernel runs what it says.

Whatever goes wrong (no folder, a full disk, a file that is empty, cut or garbled) costs time only:
it is said once on standard error, and the kernel is compiled in memory.
"""

from __future__ import annotations

import hashlib
import os
import stat
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, TextIO

from optsched.runtime.compile import made_by
from optsched.runtime.interrupt import take_interrupt
from optsched.runtime.text import plain

DIGEST_BYTES = 32
"""Length of what a file begins with."""
POLL_SECONDS = 0.02
"""Between two looks whether another process has done compiling."""

SHARED = stat.S_IWGRP | stat.S_IWOTH
"""Mode of a folder that other users may write to."""

_said: list[str] = []


def folders() -> list[Path]:
    """Return where compiled kernels may be, in the order in which to look and to write."""
    given = os.environ.get("NUMBA_CACHE_DIR")
    if given:
        return [Path(given) / "optsched_kernels"]
    found = [Path(__file__).parents[1] / "__pycache__" / "kernels"]
    home = os.path.expanduser(os.environ.get("XDG_CACHE_HOME") or "~/.cache")
    if os.path.isabs(home):
        found.append(Path(home) / "optsched" / "kernels")
    with suppress(OSError):  # there may be no place for temporary files either
        temporary = Path(tempfile.gettempdir())
        if os.name != "nt" and _keeps_folders(temporary):
            found.append(temporary / f"optsched_kernels_{os.geteuid()}")
    return found


def _keeps_folders(place: Path) -> bool:
    """Return True if no other user can put another folder in the place of one that is there."""
    mode = place.stat().st_mode
    return bool(mode & stat.S_ISVTX) or not mode & SHARED


def has_file(name: str) -> bool:
    """Whether a kernel of this name and fingerprint is kept, for some signature."""
    kept = (file for folder in _trusted_folders() for file in os.listdir(folder))
    return any(file.startswith(f"{name}-") for file in kept)


def is_writable() -> bool:
    """Whether there is a folder to keep kernels in, as far as can be told without writing."""
    return any(os.access(folder, os.W_OK) for folder in _made_folders([]))


def warn_if_nowhere() -> None:
    """Say so if compiled kernels cannot be kept: every run then starts as slowly as this one."""
    if not _said and not is_writable():
        _say(
            "there is no folder for compiled kernels, so every run searches slowly at first: "
            "set NUMBA_CACHE_DIR to one of your own"
        )


@contextmanager
def turn(name: str, patience: float) -> Iterator[float]:
    """Wait while another process compiles a kernel, some seconds at most; then have others wait.

    What was waited is given to the block.
    """
    file = _lock_file(name)
    begun, waited = time.monotonic(), 0.0
    try:
        while file is not None and not _try_lock(file) and waited < patience:
            take_interrupt()
            time.sleep(POLL_SECONDS)
            waited = time.monotonic() - begun
        yield waited
    finally:
        if file is not None:
            with suppress(OSError):  # it may be gone, and not every system removes an open file
                Path(file.name).unlink()
            file.close()


def _lock_file(name: str) -> TextIO | None:
    for folder in _made_folders([]):
        with suppress(OSError):  # nobody is told then, nor can anything be kept
            return (folder / f".{name}.lock").open("w")
    return None


def _try_lock(file: TextIO) -> bool:
    """Lock a file until it is closed, or its process ends; return whether that was possible."""
    try:
        import fcntl
    except ImportError:  # there every process compiles for itself
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _trusted_folders() -> Iterator[Path]:
    """Yield the folders that exist and that only this user, or the administrator, may write to."""
    for folder in folders():
        try:
            found = folder.lstat()  # a link may be anyone's, and its mode says that all may write
        except OSError:
            continue
        if os.name == "nt" or (found.st_uid in (0, os.geteuid()) and not found.st_mode & SHARED):
            yield folder


def keep_on_disk(dispatcher: Any, name: str) -> None:
    """Let numba's dispatcher keep compiled forms, and look for them before it compiles.

    The name is the kernel's, with the fingerprint of all that it is made of.
    """
    dispatcher._cache = _cache_class()(name)


@cache
def _cache_class() -> Any:
    # The form in which numba itself keeps compiled code is what this library reads.
    from numba.cloudpickle import loads
    from numba.core.caching import NullCache
    from numba.core.codegen import JITCodeLibrary
    from numba.core.compiler import CompileResult
    from numba.core.runtime import rtsys
    from numba.core.serialize import dumps

    class DiskCache(NullCache):  # type: ignore[misc]
        """Where numba keeps and finds the compiled forms of one function."""

        def __init__(self, name: str) -> None:
            self.name = name

        def load_overload(self, sig: Any, target_context: Any) -> Any:
            """Load without what only compiling needs: numba's typed library, and with it SciPy."""
            file = self._file(sig, target_context.codegen())
            payload = _read(file)
            if payload is None:
                return None
            rtsys.initialize(target_context)
            with made_by(target_context.codegen(), JITCodeLibrary):
                try:
                    return CompileResult._rebuild(target_context, *loads(payload))
                except Exception as error:  # by whatever it is made of having moved
                    _say(f"a compiled kernel could not be loaded and is compiled anew: {error!r}")
                    return None

        def save_overload(self, sig: Any, data: Any) -> None:
            """Keep a compiled kernel."""
            if not data.library.has_dynamic_globals:
                _write(self._file(sig, data.codegen), dumps(data._reduce()))

        def _file(self, sig: Any, codegen: Any) -> str:
            about = (*map(_described_type, sig), *codegen.magic_tuple(), *_versions())
            return f"{self.name}-{hashlib.sha256(repr(about).encode()).hexdigest()[:32]}"

    return DiskCache


def _versions() -> tuple[str, ...]:
    import llvmlite
    import numba

    return sys.implementation.cache_tag, sys.version, numba.__version__, llvmlite.__version__


def _described_type(kind: Any) -> tuple[object, ...]:
    """Return all that compiled code takes from a type: of a tuple also its class and its fields."""
    of = getattr(kind, "instance_class", type(None))
    parts = tuple(_described_type(part) for part in getattr(kind, "types", ()))
    return str(kind), of.__module__, of.__qualname__, getattr(of, "_fields", ()), parts


def _read(file: str) -> bytes | None:
    """Return what was kept under a name; None if there is nothing, or nothing whole."""
    for folder in _trusted_folders():
        try:
            content = (folder / file).read_bytes()
        except FileNotFoundError:
            continue
        except OSError as error:
            _say(f"compiled kernels can not be read from {folder}: {error.strerror}")
            continue
        digest, payload = content[:DIGEST_BYTES], content[DIGEST_BYTES:]
        if digest == _digest(file, payload):
            return payload
        _say(f"compiled anew, since damaged: {folder / file}")
    return None


def _write(file: str, payload: bytes) -> None:
    """Keep a payload under a name in the first folder that takes it."""
    failed = ["no folder for them"]
    for folder in _made_folders(failed):
        part = folder / f".{os.urandom(16).hex()}"
        try:
            try:
                part.write_bytes(_digest(file, payload) + payload)
                part.replace(folder / file)
            except BaseException:
                part.unlink(missing_ok=True)
                raise
            return
        except OSError as error:
            failed.append(f"{folder}: {error.strerror}")
    _say(f"compiled kernels are not kept: {failed[-1]}")


def _made_folders(failed: list[str]) -> Iterator[Path]:
    """Yield trusted folders, made where they were not; why others are left out goes to `failed`."""
    for number, folder in enumerate(folders()):
        try:
            # The first one may be that of an installation for all users.
            folder.mkdir(mode=0o700 if number else 0o755, parents=True, exist_ok=True)
        except OSError as error:
            failed.append(f"{folder}: {error.strerror}")
            continue
        if folder in _trusted_folders():
            yield folder
        else:
            failed.append(f"{folder}: other users may write to it")


def _digest(file: str, payload: bytes) -> bytes:
    return hashlib.sha256(file.encode() + b"\0" + payload).digest()


def _say(text: str) -> None:
    """Say the first thing that went wrong; the rest is most often the same."""
    if not _said:
        _said.append(text)
        print(f"optsched: {plain(text)}", file=sys.stderr, flush=True)
