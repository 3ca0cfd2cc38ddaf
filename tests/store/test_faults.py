"""A store after faults of its writer, its disk and its machine."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from optsched import certify
from optsched.errors import OptschedError, UsageError
from optsched.store import PlanStore, locking, verify
from tests.fuzz import crashes
from tests.store.test_database import best, diamond
from tests.store.test_upkeep import filled

ROOT = Path(__file__).parents[2]
FRAME, PAGE = 24, 4096


def test_a_writer_that_is_killed_or_finds_the_disk_full_at_any_write() -> None:
    """A sample; all writes by `python -m tests.fuzz crashes`."""
    count, wrong = crashes.fuzz(lambda total, how: range(3 + len(how), total, 43))
    assert count > 18
    assert wrong == []


def test_a_power_cut_loses_nothing_that_is_in_the_log(tmp_path: Path) -> None:
    """The log is cut off at every page, and in the middle of each: a whole change or none."""
    path = tmp_path / "plans.db"
    store = PlanStore(path)
    store.put(diamond(9), best(diamond(9)))
    graphs = [diamond(size) for size in range(1, 5)]
    certificate = certify(graphs[0], time_limit=5).certificate
    log = Path(f"{path}-wal")
    with closing(sqlite3.connect(path)) as reader:
        # As long as somebody reads, the log stays.
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM records").fetchone()
        states = [(0, crashes.state_of(store))]
        for graph in graphs:
            store.put(graph, best(graph), bound=5, proof="L3")
            states.append((log.stat().st_size, crashes.state_of(store)))
        store.put_certificate(graphs[0], certificate)
        states.append((log.stat().st_size, crashes.state_of(store)))
        main, whole = path.read_bytes(), log.read_bytes()
    cuts = [32 + i * (FRAME + PAGE) for i in range((len(whole) - 32) // (FRAME + PAGE) + 1)]
    assert len(cuts) > 15
    for number, cut in enumerate([0, 10, *cuts, *(cut + 2000 for cut in cuts[:-1])]):
        folder = tmp_path / f"{number}"
        folder.mkdir()
        (folder / "plans.db").write_bytes(main)
        # Bytes that were not written are zeros on some file systems.
        (folder / "plans.db-wal").write_bytes(whole[:cut] + bytes(5000 * (number % 2)))
        after = PlanStore(folder / "plans.db")
        assert verify(after) == []
        assert crashes.state_of(after) == [state for size, state in states if size <= cut][-1]
        assert sorted(os.listdir(folder)) == ["plans.db", "plans.db-wal"]
        after.put(diamond(7), best(diamond(7)))
        assert verify(after) == []


WRITER = """
import sys
from tests.store.test_database import best, diamond
from optsched.store import PlanStore, file
file.SECONDS_TO_WAIT = 300.0
store = PlanStore(sys.argv[1])
for size in range(int(sys.argv[2]), int(sys.argv[3])):
    graph = diamond(size)
    store.put(graph, best(graph), bound=5, proof="L3")
    store.put_bound(diamond(100), size, "L2")
"""


def test_two_drivers_at_once(tmp_path: Path) -> None:
    path = str(tmp_path / "plans.db")
    ranges = [("1", "9"), ("5", "13")]
    drivers = [
        subprocess.Popen([sys.executable, "-c", WRITER, path, *range_], cwd=ROOT)
        for range_ in ranges
    ]
    assert [driver.wait(400) for driver in drivers] == [0, 0]
    store = PlanStore(path)
    assert verify(store) == []
    assert all(store.get(diamond(size)) is not None for size in range(1, 13))
    assert store.record(diamond(100)).best_bound.value == 12  # type: ignore[union-attr]
    numbers = [change.number for r in store.records() for change in store.history(r.number)]
    assert len(set(numbers)) == len(numbers)


RAISER = """
import sys
from tests.store.test_database import diamond
from optsched.store import PlanStore, file
file.SECONDS_TO_WAIT = 300.0
store = PlanStore(sys.argv[1])
for value in range(2, 40):
    store.put_bound(diamond(100), value, "L2")
"""


def test_readers_beside_a_writer_see_whole_states_in_their_order(tmp_path: Path) -> None:
    store = PlanStore(tmp_path / "plans.db")
    store.put_bound(diamond(100), 1, "L2")
    writer = subprocess.Popen([sys.executable, "-c", RAISER, str(store.path)], cwd=ROOT)
    seen, ended = [0], False
    while not ended:
        ended = writer.poll() is not None
        record = store.record(diamond(100))
        assert record is not None
        assert len(record.bounds) == record.best_bound.value
        seen.append(record.best_bound.value)
    assert seen == sorted(seen)
    assert (seen[-1], writer.returncode) == (39, 0)


def test_a_clock_that_jumps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = PlanStore(tmp_path / "plans.db")
    graph = diamond()
    for value, now in enumerate([2e9, 1.0, -5.0, 1e18, 3.0], 1):
        monkeypatch.setattr(time, "time", lambda now=now: now)
        assert store.put_bound(graph, value)
    changes = store.history(1)
    assert [change.detail["value"] for change in changes] == [1, 2, 3, 4, 5]
    assert store.record(graph).best_bound.value == 5  # type: ignore[union-attr]
    assert verify(store) == []
    from optsched.cli import main

    assert main(["store", "show", str(store.path), "1"]) == 0


def mounted(*commands: str) -> subprocess.CompletedProcess[str]:
    """Run commands as one who may mount in a world of his own; skip the test where nobody may."""
    script = " && ".join(["set -e", *commands])
    may = subprocess.run(["unshare", "-rm", "true"], capture_output=True)
    if may.returncode:
        pytest.skip(f"mounting needs a user namespace: {may.stderr.decode().strip()}")
    return subprocess.run(["unshare", "-rm", "sh", "-c", script], capture_output=True, text=True)


needs_unshare = pytest.mark.skipif(
    shutil.which("unshare") is None, reason="mounting needs Linux and util-linux"
)

READER = """
import os, sys
from tests.store.test_database import best, diamond
from optsched.store import PlanStore, verify
store = PlanStore(sys.argv[1])
before = sorted(os.listdir(store.path.parent))
assert store.get(diamond(2)).bound > 0
assert len(store.records()) == 6
assert verify(store) == []
assert not store.put(diamond(2), best(diamond(2)), bound=1)
assert not store.put(diamond(50), best(diamond(50)))
assert sorted(os.listdir(store.path.parent)) == before
try:
    store.require_writable()
except Exception as error:
    print(error)
"""


@needs_unshare
@pytest.mark.parametrize("left", ["", "-wal", "-wal -shm"])
def test_a_read_only_mount_is_served_and_not_touched(tmp_path: Path, left: str) -> None:
    """A store after a writer was killed and left its log, with its index or without."""
    path = tmp_path / "plans.db"
    writer = filled(path, 2)
    with closing(sqlite3.connect(path)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM records").fetchone()
        for size in (40, 41):
            writer.put(diamond(size), best(diamond(size)))
        folder = tmp_path / "mounted"
        folder.mkdir()
        for end in ("", "-wal", "-shm"):
            shutil.copy(f"{path}{end}", folder / f"plans.db{end}")
    if not left:
        # The last one out puts all into the file.
        sqlite3.connect(folder / "plans.db").execute("PRAGMA wal_checkpoint(TRUNCATE)")
    for end in {"-wal", "-shm"} - set(left.split()):
        Path(f"{folder}/plans.db{end}").unlink(missing_ok=True)
    code = tmp_path / "reader.py"
    code.write_text(READER)
    done = mounted(
        f"mount --bind {folder} {folder}",
        f"mount -o remount,ro,bind {folder}",
        f"cd {ROOT}",
        f"PYTHONPATH={ROOT} {sys.executable} {code} {folder}/plans.db",
    )
    assert done.returncode == 0, done.stderr
    assert "cannot be written" in done.stdout


FILLER = """
import sys
from dataclasses import replace
from tests.store.test_database import best, diamond
from optsched.errors import OptschedError
from optsched.store import PlanStore, verify
store, kept, plan = PlanStore(sys.argv[1]), [], best(diamond(1))
for number in range(2000):
    graph = diamond(1)
    first, *others = graph.buffers
    graph = replace(graph, buffers=(replace(first, pool=f"{number}"), *others))
    try:
        store.put(graph, plan)
        kept.append(graph)
    except OptschedError as error:
        print(error)
        break
assert 5 < len(kept) < 1999, len(kept)
assert all(store.get(graph) is not None for graph in kept)
assert verify(store) == [], verify(store)
"""


@needs_unshare
def test_a_full_disk(tmp_path: Path) -> None:
    """A small file system that is really full; full at every single write: see the first test."""
    code, folder = tmp_path / "filler.py", tmp_path / "small"
    code.write_text(FILLER)
    folder.mkdir()
    done = mounted(
        f"mount -t tmpfs -o size=200k none {folder}",
        f"cd {ROOT}",
        f"PYTHONPATH={ROOT} {sys.executable} {code} {folder}/plans.db",
    )
    assert done.returncode == 0, done.stderr
    assert "full" in done.stdout
    assert done.stdout.count("\n") == 1


@pytest.mark.parametrize(
    ("line", "journal"),
    [
        ("24 1 0:22 / {} rw,relatime - nfs4 server:/x rw,local_lock=none", "DELETE"),
        ("24 1 0:22 / {} rw,relatime - ext4 /dev/sda rw", "WAL"),
        ("24 1 0:22 / {} rw,relatime - nfs server:/x rw,nolock,local_lock=all", "nolock"),
        ("24 1 0:22 / {} rw,relatime - cifs //server/x rw,nobrl", "nobrl"),
        ("24 1 0:22 / {} rw,relatime - lustre 1@tcp:/x rw,localflock", "localflock"),
    ],
)
def test_a_shared_file_system_without_locks_is_refused(
    line: str, journal: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list of mounts decides; a machine of tests has no such file system."""
    mounts = tmp_path / "mountinfo"
    mounts.write_text(f"1 0 8:1 / / rw - ext4 /dev/sda rw\n{line.format(tmp_path)}\n")
    monkeypatch.setattr(locking, "MOUNTS", mounts)
    store = PlanStore(tmp_path / "plans.db")
    if journal in ("DELETE", "WAL"):
        store.put(diamond(), best(diamond()))
        with closing(sqlite3.connect(store.path)) as connection:
            (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
        assert mode.upper() == journal
        assert store.get(diamond()) is not None
        return
    with pytest.raises(UsageError, match=journal):
        store.put(diamond(), best(diamond()))
    assert not store.path.exists()


LOCKLESS = """
#include <errno.h>
#include <stdarg.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define DEFINED_AS(name)                                                            \\
    int name(int file, int command, ...) {                                          \\
        va_list rest;                                                               \\
        va_start(rest, command);                                                    \\
        void *detail = va_arg(rest, void *);                                        \\
        va_end(rest);                                                               \\
        if (command == F_SETLK || command == F_SETLKW) { errno = ENOLCK; return -1; } \\
        return syscall(SYS_fcntl, file, command, detail);                           \\
    }
DEFINED_AS(fcntl)
DEFINED_AS(fcntl64)
"""
"""The system's call without locks, for both names under which a library may call it."""

WITHOUT_LOCKS = """
import sys
from pathlib import Path
from optsched.errors import OptschedError
from optsched.store import PlanStore, file
from tests.store.test_database import best, diamond
file.SECONDS_TO_WAIT = 0.01
old, new = PlanStore(sys.argv[1]), PlanStore(sys.argv[1] + ".new")
before = old.path.read_bytes()
for store in (old, new):
    try:
        store.put(diamond(2), best(diamond(2)))
    except OptschedError as error:
        print(error)
assert not new.path.exists()
assert old.path.read_bytes() == before
assert old.get(diamond(1)) is not None
"""


@pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("cc") is None, reason="needs Linux and a C compiler"
)
def test_a_file_system_whose_locks_fail_is_not_written(tmp_path: Path) -> None:
    source, library = tmp_path / "lockless.c", tmp_path / "lockless.so"
    source.write_text(LOCKLESS)
    command = ["cc", "-shared", "-fPIC", "-o", str(library), str(source)]
    subprocess.run(command, check=True)
    store = PlanStore(tmp_path / "plans.db")
    store.put(diamond(1), best(diamond(1)))
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_LOCKS, str(store.path)],
        cwd=ROOT,
        env={**os.environ, "LD_PRELOAD": str(library)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("its file system has no locks") == done.stdout.count("\n") == 2


def test_look_ups_create_nothing(tmp_path: Path) -> None:
    """Not even while somebody writes, and not after a writer was killed."""
    path = tmp_path / "plans.db"
    store = filled(path, 1)
    assert os.listdir(tmp_path) == ["plans.db"]
    before = path.stat().st_mtime_ns
    assert store.get(diamond(1)) is not None
    assert store.digest() != "empty"
    assert verify(store) == []
    assert os.listdir(tmp_path) == ["plans.db"]
    assert path.stat().st_mtime_ns == before
    with pytest.raises(OptschedError), store.batch() as batch:
        batch.put(diamond(2), best(diamond(2)))
        # Who looks up meanwhile sees the state before.
        assert PlanStore(path).get(diamond(2)) is None
        assert batch.get(diamond(2)) is not None
        raise OptschedError
    assert store.get(diamond(2)) is None


@pytest.mark.parametrize("copied_before", [0, 1])
def test_a_log_that_goes_while_it_is_copied(
    copied_before: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer that ends moves its log into the file: one without the other is useless."""
    path = tmp_path / "plans.db"
    store = PlanStore(path)
    store.put(diamond(1), best(diamond(1)))
    kept = path.read_bytes()
    with closing(sqlite3.connect(path)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM records").fetchone()
        store.put(diamond(2), best(diamond(2)))
        log = Path(f"{path}-wal").read_bytes()
    whole = path.read_bytes()
    path.write_bytes(kept)
    Path(f"{path}-wal").write_bytes(log)
    copy, copied = shutil.copyfile, []

    def copy_and_leave(source: Path, target: Path) -> None:
        if len(copied) == copied_before:
            path.write_bytes(whole)
            Path(f"{path}-wal").unlink()
        copied.append(source)
        copy(source, target)

    monkeypatch.setattr(shutil, "copyfile", copy_and_leave)
    assert store.get(diamond(2)) is not None
    assert len(copied) > copied_before + 1


def test_every_change_is_seen_in_the_head_of_the_file(tmp_path: Path) -> None:
    """By which a reader knows that it has to read again, should two changes have one time stamp."""
    store = PlanStore(tmp_path / "plans.db")
    heads = set()
    for value in range(1, 6):
        store.put_bound(diamond(), value)
        heads.add(store.path.read_bytes()[:28])
    assert len(heads) == 5


def test_a_link_to_a_store_is_followed(tmp_path: Path) -> None:
    """Links lead to the files beside the store itself, not beside the link."""
    (tmp_path / "real").mkdir()
    path, link = tmp_path / "real" / "plans.db", tmp_path / "link.db"
    PlanStore(path).put(diamond(1), best(diamond(1)))
    link.symlink_to(path)
    with closing(sqlite3.connect(path)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM records").fetchone()
        PlanStore(link).put(diamond(2), best(diamond(2)))
        assert PlanStore(link).get(diamond(2)) is not None
    assert sorted(os.listdir(tmp_path)) == ["link.db", "real"]
