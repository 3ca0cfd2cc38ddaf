"""Disk cache of compiled kernels: optional, and verified before use.

A kernel compiled for one signature is one file: a SHA-256 digest, followed by the serialized form
of the kernel as defined by numba. The rest of the file is used only if the digest matches it and
the file's name. The name contains a digest of everything the code depends on, so files are never
outdated. The candidate folders are one beside the sources, one in the user's cache folder, and one
for this user among temporary files, or only one in `NUMBA_CACHE_DIR` if that is set. Loading a
kernel executes its code, so folders that other users may write to are not used.

Any failure (no folder, a full disk, an empty, truncated or damaged file) only costs time: it is
reported once on standard error, and the kernel is compiled in memory.
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
"""Length of the digest at the beginning of a file."""
POLL_SECONDS = 0.02
"""Interval between checks whether another process has finished compiling."""

SHARED = stat.S_IWGRP | stat.S_IWOTH
"""Permission bits that let other users write to a folder."""

_said: list[str] = []


def folders() -> list[Path]:
    """Return the candidate folders, in the order in which they are searched and written."""
    given = os.environ.get("NUMBA_CACHE_DIR")
    if given:
        return [Path(given) / "optsched_kernels"]
    # Beside the sources first: an installation for all users can ship its kernels.
    found = [Path(__file__).parents[1] / "__pycache__" / "kernels"]
    home = os.path.expanduser(os.environ.get("XDG_CACHE_HOME") or "~/.cache")
    # By the rules for this variable, a relative path is ignored.
    if os.path.isabs(home):
        found.append(Path(home) / "optsched" / "kernels")
    with suppress(OSError):  # a folder for temporary files may not exist
        temporary = Path(tempfile.gettempdir())
        if os.name != "nt" and _keeps_folders(temporary):
            # The user's number is in the name, since all users share this folder.
            found.append(temporary / f"optsched_kernels_{os.geteuid()}")
    return found


def _keeps_folders(place: Path) -> bool:
    """Return True if no other user can replace an existing folder in this place."""
    mode = place.stat().st_mode
    # The sticky bit lets only the owner remove or rename what is in the folder.
    return bool(mode & stat.S_ISVTX) or not mode & SHARED


def has_file(name: str) -> bool:
    """Return True if the cache has a kernel of this name and fingerprint, for any signature."""
    kept = (file for folder in _trusted_folders() for file in os.listdir(folder))
    return any(file.startswith(f"{name}-") for file in kept)


def is_writable() -> bool:
    """Return True if kernels can probably be saved, as far as can be determined without writing."""
    return any(os.access(folder, os.W_OK) for folder in _made_folders([]))


def warn_if_nowhere() -> None:
    """Warn if kernels cannot be saved: every run then starts as slowly as this one."""
    if not _said and not is_writable():
        _say(
            "no folder for compiled kernels is writable, so every run is slow at first: "
            "set NUMBA_CACHE_DIR to a writable folder"
        )


@contextmanager
def turn(name: str, patience: float) -> Iterator[float]:
    """Wait until no other process compiles a kernel, at most `patience` seconds, then lock it.

    The context variable is the number of seconds waited.
    """
    file = _lock_file(name)
    begun, waited = time.monotonic(), 0.0
    try:
        # No error after `patience`: compiling twice costs time, waiting forever costs the run.
        while file is not None and not _try_lock(file) and waited < patience:
            take_interrupt()
            time.sleep(POLL_SECONDS)
            waited = time.monotonic() - begun
        yield waited
    finally:
        if file is not None:
            with suppress(OSError):  # the file may be gone, or the system may not remove open files
                # Removed while still locked, so that nobody can lock it between close and unlink.
                Path(file.name).unlink()
            file.close()


def _lock_file(name: str) -> TextIO | None:
    for folder in _made_folders([]):
        with suppress(OSError):  # without a writable folder there is no lock
            return (folder / f".{name}.lock").open("w")
    return None


def _try_lock(file: TextIO) -> bool:
    """Lock a file until it is closed or its process ends; return True if that was possible."""
    try:
        import fcntl
    except ImportError:  # without `fcntl` each process compiles for itself
        return True
    # The system releases this lock when the process ends, even if it is killed.
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _trusted_folders() -> Iterator[Path]:
    """Yield the existing folders to which only this user or the administrator may write."""
    for folder in folders():
        try:
            found = folder.lstat()  # a link may belong to anyone, and its mode is always open
        except OSError:
            continue
        if os.name == "nt" or (found.st_uid in (0, os.geteuid()) and not found.st_mode & SHARED):
            yield folder


def keep_on_disk(dispatcher: Any, name: str) -> None:
    """Make a numba dispatcher save compiled forms and load them if possible.

    `name` is that of the kernel, with the fingerprint of everything it depends on.
    """
    dispatcher._cache = _cache_class()(name)


@cache
def _cache_class() -> Any:
    # Compiled code is saved in numba's own serialized form.
    from numba.cloudpickle import loads
    from numba.core.caching import NullCache
    from numba.core.codegen import JITCodeLibrary
    from numba.core.compiler import CompileResult
    from numba.core.runtime import rtsys
    from numba.core.serialize import dumps

    class DiskCache(NullCache):  # type: ignore[misc]
        """Cache of the compiled forms of one function, in the interface of numba."""

        def __init__(self, name: str) -> None:
            self.name = name

        def load_overload(self, sig: Any, target_context: Any) -> Any:
            """Load a kernel without the imports needed for compiling, such as SciPy."""
            file = self._file(sig, target_context.codegen())
            payload = _read(file)
            if payload is None:
                return None
            # What `_rebuild` needs, and what numba does at the first compilation.
            rtsys.initialize(target_context)
            # Code loaded from disk was optimized before it was saved; numba's own class takes it
            # as it is.
            with made_by(target_context.codegen(), JITCodeLibrary):
                try:
                    return CompileResult._rebuild(target_context, *loads(payload))
                except Exception as error:  # for example after a module has moved
                    _say(f"a compiled kernel could not be loaded and is compiled again: {error!r}")
                    return None

        def save_overload(self, sig: Any, data: Any) -> None:
            """Save a compiled kernel."""
            # Such code has addresses of this process in it and would crash another one.
            if not data.library.has_dynamic_globals:
                _write(self._file(sig, data.codegen), dumps(data._reduce()))

        def _file(self, sig: Any, codegen: Any) -> str:
            # `magic_tuple` names the processor and its features: machine code for another one must
            # not be found.
            about = (*map(_described_type, sig), *codegen.magic_tuple(), *_versions())
            return f"{self.name}-{hashlib.sha256(repr(about).encode()).hexdigest()[:32]}"

    return DiskCache


def _versions() -> tuple[str, ...]:
    import llvmlite
    import numba

    return sys.implementation.cache_tag, sys.version, numba.__version__, llvmlite.__version__


def _described_type(kind: Any) -> tuple[object, ...]:
    """Return the properties of a type that code depends on, including the fields of a tuple."""
    of = getattr(kind, "instance_class", type(None))
    parts = tuple(_described_type(part) for part in getattr(kind, "types", ()))
    return str(kind), of.__module__, of.__qualname__, getattr(of, "_fields", ()), parts


def _read(file: str) -> bytes | None:
    """Return the payload saved under a name, or None if no intact file exists."""
    for folder in _trusted_folders():
        try:
            content = (folder / file).read_bytes()
        except FileNotFoundError:
            continue
        except OSError as error:
            _say(f"compiled kernels cannot be read from {folder}: {error.strerror}")
            continue
        digest, payload = content[:DIGEST_BYTES], content[DIGEST_BYTES:]
        # The name is part of the digest, so that a file under another name does not match.
        if digest == _digest(file, payload):
            return payload
        _say(f"damaged compiled kernel is compiled again: {folder / file}")
    return None


def _write(file: str, payload: bytes) -> None:
    """Save a payload under a name in the first folder that accepts it."""
    failed = ["no folder"]
    for folder in _made_folders(failed):
        # Written under a random name and moved in one step: no reader ever sees half a file.
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
    _say(f"compiled kernels cannot be saved: {failed[-1]}")


def _made_folders(failed: list[str]) -> Iterator[Path]:
    """Yield trusted folders, creating them if needed; append failures to `failed`."""
    for number, folder in enumerate(folders()):
        try:
            # The first folder may belong to an installation for all users.
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
    """Report the first failure on standard error; later ones mostly have the same cause."""
    if not _said:
        _said.append(text)
        print(f"optsched: {plain(text)}", file=sys.stderr, flush=True)
