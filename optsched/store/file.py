"""The file of a store: read without a trace, written by one process at a time.

Writers keep a write-ahead log (on local file systems), so that readers never wait, and a kill or a
power cut at any moment leaves the state before or after a whole change. A reader creates no file,
not even those that SQLite would put beside the store: without a writer, the file is read as it is;
what a killed writer left in its log is read from a copy.
"""

from __future__ import annotations

import os
import secrets
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

from optsched.errors import FormatError, OptschedError, UsageError
from optsched.runtime.text import readable
from optsched.store.locking import journal_of
from optsched.store.schema import make_tables, require_store
from optsched.store.translate import MAX_PACKED

SECONDS_TO_WAIT = 5.0
"""Seconds to wait for another process that writes."""
MOST_STEPS = 2 * 10**9
"""Instructions of SQLite after which a connection is given up: nothing sound comes near."""

DAMAGE = (sqlite3.DatabaseError, UnicodeDecodeError, OverflowError)
"""Errors that SQLite raises on a damaged file; their messages may contain bytes of the file."""

WAY_OUT = (
    "restore a copy of the file; 'optsched store export' writes the records that can still be "
    "read, which 'optsched store import --trust' takes into a new store"
)
"""Advice for a damaged file."""

_APPLICATION = int.from_bytes(b"opts")
"""Application id in the header of the file."""
_COUNTER_END = 28
"""Bytes of the file's head up to SQLite's counter of changes, this included."""
_TRIES = 5
"""Attempts to read a file that others write at the same time."""
_STEPS = 10**6

_Found = TypeVar("_Found")


class StoreFile:
    """The file of a store: opens and closes connections to it.

    Raise `UsageError` if the path is not a regular file: a folder, a device, or a pipe, which would
    never end.

    `path`: the file; it is created by the first write.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        try:
            self.path = Path(path)
        except TypeError:
            raise UsageError(f"a store is the path of a file, got {type(path).__name__}") from None
        if self.path.exists() and not self.path.is_file():
            kind = "folder" if self.path.is_dir() else "device or pipe"
            raise UsageError(f"store {self.path} is a {kind}, not a file")
        self.patience: float | None = None
        """Seconds to wait for another writer; :data:`SECONDS_TO_WAIT` if None."""

    def is_writable(self) -> bool:
        """Return True if this process may write the file, or create it."""
        may_write = not self.path.exists() or os.access(self.path, os.W_OK)
        return may_write and os.access(Path(os.path.realpath(self.path)).parent, os.W_OK)

    def read(self, query: Callable[[sqlite3.Connection], _Found]) -> _Found:
        """Return what a query finds in one state of the store, which no writer can change during
        the query.
        """
        with errors_of_sqlite(self.path):
            for _ in range(_TRIES):
                # Read without a lock: if the stamp is the same before and after, nobody wrote in
                # between.
                before = self._stamp()
                if self._left_beside():
                    return self._read_beside_log(query)
                try:
                    # Without a log beside it the file is complete. In this mode SQLite takes no
                    # lock and creates no file, so that read-only file systems work.
                    with closing(_connect(self.path, "mode=ro&immutable=1")) as connection:
                        found = _ask(connection, query)
                # An error counts only if nobody wrote meanwhile; otherwise half a change was read.
                except (FormatError, *DAMAGE):
                    if self._stamp() == before:
                        raise
                else:
                    if self._stamp() == before:
                        return found
            # Others write all the time, so there will be a log.
            return self._read_beside_log(query)

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection within a transaction, which the end of the block commits as a unit.

        Raise `UsageError` if two machines would not see each other's locks. Raise `OptschedError`
        if another process keeps the file locked, locks fail, or the disk is full.
        """
        with self._open() as connection:
            # Locks at once: a transaction that first reads and then writes could have to give up.
            connection.execute("BEGIN IMMEDIATE")
            # Writes the first page, and by that lets its counter of changes go up.
            connection.execute(f"PRAGMA application_id = {_APPLICATION}")
            make_tables(connection)
            yield connection
            # Without an exception only; otherwise closing rolls everything back.
            connection.execute("COMMIT")

    def vacuum(self) -> None:
        """Return unused bytes to the file system."""
        with self._open() as connection:
            connection.execute("VACUUM")

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        with errors_of_sqlite(self.path):
            # Before the file exists: a place where locks hold for one machine gets no store.
            journal = journal_of(self.path)
            if not self.path.exists():
                _make_store(self.path)
            patience = SECONDS_TO_WAIT if self.patience is None else self.patience
            connection = sqlite3.connect(
                self.path, timeout=patience, isolation_level=None, check_same_thread=False
            )
            # Closing rolls back all changes that are not committed.
            with closing(connection):
                _prepare(connection)
                require_store(connection)
                connection.execute(f"PRAGMA journal_mode = {journal}")
                # A commit is on the disk before it is said to be done.
                connection.execute("PRAGMA synchronous = FULL")
                yield connection

    def _stamp(self) -> tuple[tuple[int, int, int], bytes, list[Path]]:
        """Return a mark that changes with every write, also if the clock of files is coarse."""
        state = self.path.stat()
        with open(self.path, "rb") as file:
            # SQLite raises this counter with every change, so it tells where time stamps are too
            # coarse.
            counter = file.read(_COUNTER_END)
        return (state.st_ino, state.st_size, state.st_mtime_ns), counter, self._left_beside()

    def _left_beside(self) -> list[Path]:
        """Return the logs that are not empty: of an active writer, or of a killed one."""
        return [path for end in ("-wal", "-journal") if _size(path := self._beside(end))]

    def _beside(self, end: str) -> Path:
        """Return the path beside which SQLite puts its journals, with links resolved."""
        return Path(f"{os.path.realpath(self.path)}{end}")

    def _read_beside_log(self, query: Callable[[sqlite3.Connection], _Found]) -> _Found:
        """Read the file and its log, using the index of an active writer if possible."""
        # The index exists while a writer has the store open.
        if self._beside("-shm").exists():
            try:
                with closing(_connect(self.path, "mode=ro")) as connection:
                    return _ask(connection, query)
            except sqlite3.OperationalError as error:
                # Any other error means that the index cannot be used from here; a copy can.
                # Locked for longer than the timeout: a copy would not be of one state either.
                if "locked" in str(error):
                    raise
        return self._read_copy(query)

    def _read_copy(self, query: Callable[[sqlite3.Connection], _Found]) -> _Found:
        """Read a copy of the file and its log, where SQLite may write what it needs to."""
        for _ in range(_TRIES):
            with tempfile.TemporaryDirectory() as folder:
                if self._copy_to(folder):
                    copied = Path(folder, os.path.basename(os.path.realpath(self.path)))
                    with closing(_connect(copied, "mode=rw")) as connection:
                        return _ask(connection, query)
        raise OptschedError(f"store {self.path}: other processes keep writing it; try again later")

    def _copy_to(self, folder: str) -> bool:
        """Copy the file and its log; return True if no process wrote in the meantime."""
        before = self._stamp()
        try:
            for path in (Path(os.path.realpath(self.path)), *self._left_beside()):
                shutil.copyfile(path, Path(folder, path.name))
        except FileNotFoundError:
            # The writer has moved the log into the file and ended.
            return False
        return self._stamp() == before


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _connect(path: Path, how: str) -> sqlite3.Connection:
    # As bytes: a file's name need not be text.
    address = f"file:{quote(os.fsencode(os.path.realpath(path)))}?{how}"
    return sqlite3.connect(address, uri=True, timeout=SECONDS_TO_WAIT, isolation_level=None)


def _ask(connection: sqlite3.Connection, query: Callable[[sqlite3.Connection], _Found]) -> _Found:
    _prepare(connection)
    # All reads of the query see one state.
    connection.execute("BEGIN")
    require_store(connection)
    return query(connection)


def _make_store(path: Path) -> None:
    """Make an empty store beside its place and move it there, so that no half is ever seen."""
    place = Path(os.path.realpath(path))
    beside = place.with_name(f".optsched-{secrets.token_hex(8)}.tmp")
    try:
        with closing(sqlite3.connect(beside, isolation_level=None)) as connection:
            connection.execute("BEGIN")
            make_tables(connection)
            connection.execute("COMMIT")
        # Another process may have made the store in the meantime: that one stays.
        with suppress(FileExistsError):
            # A link fails if the name exists; a rename would replace the other process's store.
            os.link(beside, place)
        _sync_folder(place.parent)
    finally:
        for end in ("", "-journal"):
            Path(f"{beside}{end}").unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    """Let a new name reach the disk."""
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def _prepare(connection: sqlite3.Connection) -> None:
    """Limit what a file of unknown origin can make SQLite do."""
    connection.text_factory = _decode
    # Of one value, so that a crafted length cannot allocate gigabytes.
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 2 * MAX_PACKED)
    # Views and triggers of the file must not call functions with side effects.
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")
    # A mapped file that shrinks kills the process; a read reports an error.
    connection.execute("PRAGMA mmap_size = 0")
    # The handler ends a query that takes too many steps, as a crafted file may cause.
    steps = iter(range(MOST_STEPS // _STEPS))
    connection.set_progress_handler(lambda: next(steps, None) is None, _STEPS)


def _decode(data: bytes) -> str:
    """Return bytes as text; invalid bytes do not raise, so that the valid rows can be read."""
    return data.decode("utf-8", "replace")


def _message(error: Exception) -> str:
    """Return SQLite's message about a file, and what to do about it."""
    text = readable(str(error))
    # The only two of SQLite's messages for which there is better advice.
    if "not a database" in text:
        return "not a plan store"
    if "malformed" in text:
        return f"{text}; {WAY_OUT}"
    return text


@contextmanager
def errors_of_sqlite(path: Path) -> Iterator[None]:
    """Turn errors about a file in this block into one line that names the file."""
    try:
        yield
    except sqlite3.OperationalError as error:
        text = readable(str(error))
        # SQLite says so of a file system whose locks fail, too.
        text += " by another process, or its file system has no locks" * ("locked" in text)
        raise OptschedError(f"store {path}: {text}") from error
    except (sqlite3.Error, sqlite3.Warning, *DAMAGE) as error:
        raise FormatError(f"store {path}: {_message(error)}") from error
    except OSError as error:
        raise OptschedError(f"store {path}: {error.strerror or error}") from error
    except FormatError as error:
        text = str(error)
        raise FormatError(text if text.startswith("store ") else f"store {path}: {text}") from error
