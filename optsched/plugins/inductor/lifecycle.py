"""Observation of a running compiled graph: report the first lifetime that is not as planned.

Inductor has a check of that name, `test_configs.track_memory_lifecycle`. It looks between nodes,
splits calls that are one call otherwise, and compares with Inductor's estimate. Here the wrapper
runs unchanged. Python's tracing shows the existing names before each line, and the storages report
when they are freed; the plan is that of the simulation, line by line.

This module imports torch at its top: import it inside the function that needs it.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import torch

from optsched.check.lifecycle import LifecycleCheck, LifecycleError, LifeEvent, SeenEvent
from optsched.plugins.inductor.wrapper.facts import Order, WrapperFacts
from optsched.plugins.inductor.wrapper.simulate import simulate

logger = logging.getLogger("optsched.plugins.inductor")


@dataclass(frozen=True, slots=True)
class GraphLives:
    """The lives of a compiled graph's storages."""

    name: str
    """Name of the graph."""
    planned: tuple[LifeEvent, ...]
    """Allocations and releases during a call."""
    owned: frozenset[str]
    """Inputs that are freed while it runs."""
    inputs: frozenset[str]
    buffers: frozenset[str]
    """`inputs` and `buffers`: names of all inputs, and all other names in its wrapper."""


def plan_lives(facts: WrapperFacts, order: Order, *, reuse: bool, name: str) -> GraphLives:
    """Return the lives that an order gives to the storages of a graph."""
    members = (m.name for node in facts.nodes if node.extern for m in node.extern.members)
    return GraphLives(
        name,
        simulate(facts, order, reuse=reuse, timeline=True).lives,
        frozenset(given.name for given in facts.inputs),
        facts.graph_inputs,
        frozenset(facts.buffers).union(members),
    )


_lock = threading.Lock()
_compiling: list[tuple[Any, GraphLives]] = []
"""Graphs whose wrapper may not have been written yet."""
_by_file: dict[str, GraphLives] = {}


def expect_lives(graph: Any, lives: GraphLives) -> None:
    """Remember the planned events of a graph that Inductor compiles, until it runs."""
    with _lock:
        _compiling.append((graph, lives))


def _find(file: str) -> GraphLives | None:
    with _lock:
        # The path of a wrapper is known once it is written, after the pass has run.
        written = [(graph, lives) for graph, lives in _compiling if graph.cache_path]
        _compiling[:] = [entry for entry in _compiling if not entry[0].cache_path]
        _by_file.update((graph.cache_path, lives) for graph, lives in written)
    return _by_file.get(file)


@contextlib.contextmanager
def watch(mode: str) -> Iterator[None]:
    """Check the lives of all graphs that this thread runs in the body, if they are known.

    Takes the place of any other trace function, such as a debugger's.

    `mode`: `assert`: the call of the graph raises :class:`optsched.check.lifecycle.LifecycleError`;
    `log`: the logger `optsched.plugins.inductor` gets a line.
    """

    def enter(frame: FrameType, event: str, _: Any) -> Any:
        # The wrapper's function is called `call`, in a file of its own.
        if event != "call" or frame.f_code.co_name != "call":
            return None
        lives = _find(frame.f_code.co_filename)
        return None if lives is None else _Observer(lives, mode).see

    before = sys.gettrace()
    # The trace function of this thread: threads that the program starts are not watched.
    sys.settrace(enter)
    try:
        yield
    finally:
        sys.settrace(before)


@dataclass
class _Storage:
    """Bytes that are alive, by all names they have had."""

    names: set[str]
    watched: bool


@dataclass
class _Observer:
    """Sees one call of a wrapper, before each of its lines."""

    lives: GraphLives
    mode: str
    check: LifecycleCheck = field(init=False)
    storages: dict[int, _Storage] = field(default_factory=dict)
    held: dict[str, int] = field(default_factory=dict)
    gone: list[_Storage] = field(default_factory=list)
    line: int = 0
    differs: bool = False

    def __post_init__(self) -> None:
        self.check = LifecycleCheck(self.lives.planned)

    def see(self, frame: FrameType, event: str, _: Any) -> Any:
        """Compare the events of the last line; stop at the first difference."""
        # Only lines: a call inside a line is part of it.
        if self.differs or event not in ("line", "return"):
            return self.see
        try:
            self._compare(frame.f_locals, f"by line {self.line}")
            # Inductor writes no line for releases after the last allocation: they come with the
            # end of the call.
            if event == "return" and any(e.born for e in self.check.left):
                self.check.finish()
        except LifecycleError as error:
            where = f"{self.lives.name} ({frame.f_code.co_filename}): {error}"
            if self.mode == "assert":
                raise LifecycleError(where) from None
            logger.warning("%s", where)
            self.differs = True
        self.line = frame.f_lineno
        return self.see

    def _compare(self, names: dict[str, Any], where: str) -> None:
        # Taking the names lets go of those that the last line deleted, before Python 3.13.
        born = self._take_names(names)
        events = [SeenEvent(s.names, born=False) for s in self.gone if s.watched]
        self.gone.clear()
        self.check.see(events + [SeenEvent(s.names, born=True) for s in born], where)

    def _take_names(self, names: dict[str, Any]) -> list[_Storage]:
        """Note new names; return the storages that are new with them."""
        born = []
        for name in (*(self.lives.inputs & names.keys()), *(self.lives.buffers & names.keys())):
            value = names[name]
            # The same object under the same name is nothing new.
            if not isinstance(value, torch.Tensor) or self.held.get(name) == id(value):
                continue
            self.held[name] = id(value)
            storage = self._storage(value.untyped_storage())
            storage.names.add(name)
            if name in self.lives.inputs:
                storage.watched |= name in self.lives.owned
            elif not storage.watched and self._is_new(storage, name):
                storage.watched = True
                born.append(storage)
        return born

    def _is_new(self, storage: _Storage, name: str) -> bool:
        """Return True if an event allocates bytes; making a buffer in the caller's may count."""
        return storage.names == {name} or self.check.expects(name)

    def _storage(self, storage: Any) -> _Storage:
        key = id(storage)
        if key not in self.storages:
            self.storages[key] = found = _Storage(set(), watched=False)
            # atexit=False: what goes with the end of the process does not count.
            weakref.finalize(storage, self._let_go, key, found).atexit = False
        return self.storages[key]

    def _let_go(self, key: int, storage: _Storage) -> None:
        self.storages.pop(key, None)
        self.gone.append(storage)
