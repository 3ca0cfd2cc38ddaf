"""Fleets on Dask itself: the same table, and a killed worker costs its unit."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("distributed")

from optsched.fleet import Fleet
from tests.support.fleets import ROOT, Driver, make_fleet, searched, undisturbed


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return make_fleet(tmp_path_factory.mktemp("fleet"))


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory, paths: list[str]) -> Fleet:
    return undisturbed(paths, tmp_path_factory.mktemp("store") / "plans.store")


def test_the_table_is_the_same_and_nobody_else_can_connect(
    paths: list[str], expected: Fleet, tmp_path: Path
) -> None:
    driver = Driver(paths, tmp_path / "s.store", "--engine", "dask")
    heard: set[str] = set()

    def is_heard(events: list[dict[str, Any]]) -> bool:
        heard.update(listening([driver.process.pid, *driver.workers("")]))
        return bool(heard) and searched(1)(events)

    driver.wait_for(is_heard)
    found = driver.finish()
    assert found["rows"] == expected.rows()
    assert found["lost"] == 0
    assert heard
    assert {address for address in heard if not address.startswith("127.")} == set()


def test_a_worker_killed_in_mid_task_costs_its_unit(
    paths: list[str], expected: Fleet, tmp_path: Path
) -> None:
    # Where the machine is busy, all may be done before a worker is met that has a task.
    for number in range(5):
        driver = Driver(paths, tmp_path / f"{number}.store", "--engine", "dask")
        driver.wait_for(searched(1))
        kill_workers(driver)
        found = driver.finish()
        assert found["rows"] == expected.rows()
        if found["lost"]:
            break
    assert 1 <= found["lost"] <= 4


def kill_workers(driver: Driver) -> None:
    """Kill a worker, then others, until a task is lost."""
    next_kill = 0.0
    while not any(event["event"] == "lost" for event in driver.events()):
        if driver.process.poll() is not None:
            return
        # A worker may have no task just now.
        workers = driver.workers("spawn_main")
        if workers and time.monotonic() > next_kill:
            with suppress(ProcessLookupError):
                os.kill(workers[0], signal.SIGKILL)
            next_kill = time.monotonic() + 3
        time.sleep(0.1)


def test_a_killed_driver_is_gone_on_with(paths: list[str], expected: Fleet, tmp_path: Path) -> None:
    driver = Driver(paths, tmp_path / "s.store", "--engine", "dask")
    driver.wait_for(searched(3))
    driver.kill()
    found = Driver(paths, tmp_path / "s.store").finish()
    assert found["rows"] == expected.rows()


@pytest.fixture
def scheduler(tmp_path: Path) -> Iterator[str]:
    """A Dask scheduler as a user starts it."""
    # On any port that is free; the file says which.
    file = tmp_path / "scheduler.json"
    options = ("--host", "127.0.0.1", "--port", "0", "--no-dashboard")
    process = dask(ROOT, "scheduler", *options, "--scheduler-file", str(file))
    try:
        yield address_in(file, process)
    finally:
        end(process)


def address_in(file: Path, scheduler: subprocess.Popen[bytes]) -> str:
    """Wait until a scheduler has written its address into a file."""
    latest = time.monotonic() + 300
    while time.monotonic() < latest and scheduler.poll() is None:
        # The file may be half written.
        with suppress(OSError, ValueError):
            return str(json.loads(file.read_text())["address"])
        time.sleep(0.1)
    raise AssertionError("the scheduler wrote no address")


def end(process: subprocess.Popen[bytes]) -> None:
    """End a process, by force if it does not."""
    process.terminate()
    try:
        process.wait(60)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def test_a_dask_worker_with_another_version_is_refused_by_name(
    paths: list[str], expected: Fleet, tmp_path: Path, scheduler: str
) -> None:
    other = another_version(tmp_path)
    options = ("--nthreads", "1", "--no-dashboard", "--host", "127.0.0.1")
    bad = dask(other, "worker", scheduler, *options)
    try:
        store = tmp_path / "s.store"
        alone = Driver(paths, store, "--engine", "dask", "--address", scheduler)
        out, err = alone.process.communicate(timeout=300)
        assert not out
        assert "install the same version everywhere" in err
        assert "UsageError: worker " in err
        good = dask(ROOT, "worker", scheduler, *options)
        try:
            from distributed import Client

            with Client(scheduler, set_as_default=False) as client:
                client.wait_for_workers(2, timeout=300)
            found = Driver(paths, store, "--engine", "dask", "--address", scheduler).finish()
        finally:
            end(good)
    finally:
        end(bad)
    assert found["rows"] == expected.rows()
    assert len(found["refused"]) <= 1


def another_version(folder: Path) -> Path:
    """Copy our packages, and change a line."""
    other = folder / "other"
    for package in ("optsched", "heuristics", "tests"):
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / package, other / package, ignore=ignore)
    with open(other / "optsched" / "errors.py", "a") as file:
        file.write("\n# Another version.\n")
    return other


def dask(folder: Path, *command: str) -> subprocess.Popen[bytes]:
    """Start a Dask command in which our package is that of a folder."""
    return subprocess.Popen(
        [sys.executable, "-m", "distributed.cli.dask_" + command[0], *command[1:]],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def listening(pids: list[int]) -> set[str]:
    """Addresses on which processes wait for connections."""
    inodes = set()
    for pid in pids:
        for link in Path(f"/proc/{pid}/fd").glob("*"):
            try:
                inodes.add(os.readlink(link))
            except OSError:
                continue
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in inodes:
                found.add(_address(fields[1].partition(":")[0]))
    return found


def _address(text: str) -> str:
    """Return an address as people write it; of version 6 only what is mapped or local."""
    if len(text) == 8:
        return ".".join(str(byte) for byte in reversed(bytes.fromhex(text)))
    if text.startswith("0000000000000000FFFF0000"):
        return _address(text[-8:])
    return "127.0.0.1 (version 6)" if text == "0" * 24 + "01000000" else f"version 6: {text}"
