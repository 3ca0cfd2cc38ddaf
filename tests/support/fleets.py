"""Small fleets in a folder, and the driver as a process of its own that can be killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from optsched.fleet import Fleet, FleetEffort, FleetSettings, tune
from optsched.formats import write_graph
from tests.support.families.small import SMALL_GRAPHS
from tests.support.families.wiring import random_wiring

ROOT = Path(__file__).resolve().parents[2]
DRIVE = (sys.executable, "-m", "tests.fleet.drive")
WORK = 3_000
"""For each graph: three units of the hard ones."""
SETTINGS = FleetSettings(work=WORK, effort=FleetEffort(first_work=500))


def make_fleet(folder: Path, hard: int = 2, easy: int = 4) -> list[str]:
    """Write graphs to files: some that are proved at once, some that take all the work."""
    graphs = [make() for make in list(SMALL_GRAPHS)[:easy]]
    graphs += [random_wiring(90, 3 + number, unit=False) for number in range(hard)]
    for graph in graphs:
        write_graph(graph, folder / f"{graph.name}.json")
    return sorted(str(path) for path in folder.glob("*.json"))


def undisturbed(paths: list[str], store: Path, settings: FleetSettings = SETTINGS) -> Fleet:
    """Tune in this process."""
    return tune(paths, store, settings=settings, jobs=0)


class Driver:
    """`tests.fleet.drive` in a process group of its own, with a log beside the store.

    The log goes by the name of the store, or another one; `folder` is where it runs.
    """

    def __init__(
        self, paths: Sequence[str], store: Path, *options: str, name: str = "", folder: Path = ROOT
    ) -> None:
        self.log = store.with_name(f"{name or store.stem}.log")
        self.process = subprocess.Popen(
            [*DRIVE, str(store), "--log", str(self.log), *options, "--", *paths],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def events(self) -> list[dict[str, Any]]:
        """Lines of its log so far."""
        if not self.log.exists():
            return []
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def wait_for(self, what: Callable[[list[dict[str, Any]]], bool]) -> None:
        """Wait until the log says so."""
        end = time.monotonic() + 300
        while not what(self.events()):
            assert self.process.poll() is None, self.process.communicate()
            assert time.monotonic() < end, self.events()
            time.sleep(0.02)

    def workers(self, words: str = "spawn_main") -> list[int]:
        """Processes that it started, or that those did, whose command has these words."""
        return [pid for pid in descendants(self.process.pid) if words in command_of(pid)]

    def kill(self) -> None:
        """Kill the driver, and nothing else."""
        self.process.kill()
        self.process.communicate()

    def interrupt(self) -> None:
        """Send what Ctrl-C in a terminal sends: to all processes of the group."""
        os.killpg(self.process.pid, signal.SIGINT)

    def finish(self, seconds: float = 500.0) -> dict[str, Any]:
        """Wait for the end and return what it printed."""
        out, err = self.process.communicate(timeout=seconds)
        assert out, err
        found: dict[str, Any] = json.loads(out)
        return found


def descendants(pid: int) -> list[int]:
    """Processes that a process started, and those that they did."""
    found = []
    for folder in Path(f"/proc/{pid}/task").glob("*"):
        try:
            children = (folder / "children").read_text().split()
        except OSError:
            continue
        for child in map(int, children):
            found += [child, *descendants(child)]
    return found


def command_of(pid: int) -> str:
    """The command line of a process, empty if it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def searched(count: int) -> Callable[[list[dict[str, Any]]], bool]:
    """Return True once a number of units have searched."""
    return lambda events: sum(bool(event.get("searched")) for event in events) >= count
