"""The most bytes that are live in each call of a step and between calls."""

from __future__ import annotations

import threading
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install '.[torch]'")

from optsched.plugins.inductor.running import step_calls  # noqa: E402
from optsched.plugins.inductor.running.step_calls import Span, StepWatch  # noqa: E402
from optsched.plugins.inductor.sizes.meter import measure_call, missing_counter  # noqa: E402

pytestmark = pytest.mark.skipif(bool(missing_counter("cpu")), reason="needs Linux and cc")
KIB = 1024


class Program:
    """A step of two regions; each call makes and drops tensors of some KiB."""

    def __init__(self) -> None:
        self.steps: list[list[Span]] = []
        self.unmeasured = 0
        self.watch = StepWatch(self.end)
        self.held: list[Any] = []

    def end(self, spans: list[Span], is_measured: bool) -> None:
        if is_measured:
            self.steps.append(spans)
        else:
            self.unmeasured += 1
            assert spans[-1].running == ("a", True)

    def take(self, *kibs: int, drop: int = 0) -> None:
        del self.held[len(self.held) - drop :]
        self.held += [torch.empty(KIB * n, dtype=torch.int8) for n in kibs]

    def run(self, region: str, is_backward: bool, *kibs: int, drop: int = 0) -> None:
        self.watch.call(region, is_backward, 7, lambda: self.take(*kibs, drop=drop))

    def step(self) -> None:
        self.run("a", False, 4)
        self.take(8)
        self.run("b", False, 2, 1)
        self.take(drop=1)
        self.run("b", True, 16, drop=1)
        self.take(32, drop=1)
        self.take(drop=2)
        self.run("a", True, drop=1)


def test_each_call_and_all_between_have_their_most_bytes() -> None:
    program = Program()
    program.step()
    (spans,) = program.steps
    a, b = ("a", 1), ("b", 1)
    assert spans == [
        Span(None, (), 0, 0),
        Span(("a", False), (), 7, 4 * KIB),
        Span(None, (a,), 0, 12 * KIB),
        Span(("b", False), (a,), 7, 15 * KIB),
        Span(None, (a, b), 0, 15 * KIB),
        Span(("b", True), (a,), 7, 28 * KIB),
        Span(None, (a,), 0, 44 * KIB),
        Span(("a", True), (), 7, 4 * KIB),
    ]
    # The next one counts from its own beginning.
    program.step()
    assert program.steps[1] == spans


def test_a_step_in_which_a_graph_is_compiled_is_left_out() -> None:
    program = Program()
    program.run("a", False, 4)
    program.watch.note_compiled()
    program.run("a", True)
    assert not program.steps
    assert program.unmeasured == 1
    program.step()
    assert len(program.steps) == 1


def test_calls_that_fail_or_belong_to_no_step_are_left_out() -> None:
    program = Program()
    # A second backward call with `retain_graph=True`.
    program.run("a", True)
    assert not program.watch.waiting
    program.run("a", False)
    with pytest.raises(ZeroDivisionError):
        program.watch.call("b", False, 0, lambda: 1 // 0)
    assert not program.watch.waiting
    program.step()
    assert len(program.steps) == 1
    program.watch.done = True
    program.step()
    assert len(program.steps) == 1


def test_calls_of_another_thread_make_a_step_unmeasured() -> None:
    program = Program()
    program.run("a", False, 4)
    thread = threading.Thread(target=lambda: program.run("a", True))
    thread.start()
    thread.join()
    assert not program.steps
    program.step()
    assert len(program.steps) == 1


def test_a_step_that_never_ends_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_calls, "MOST_CALLS", 6)
    program = Program()
    for _ in range(9):
        program.run("a", False, 1)
    # The counter is free again for others.
    program.watch.done = True
    program.watch._drop()
    _, rise = measure_call(lambda: torch.empty(64, dtype=torch.int8), "cpu")
    assert rise is not None
    assert rise.most == 64


def test_nothing_is_counted_while_a_call_is_measured() -> None:
    program = Program()
    measure_call(program.step, "cpu")
    assert not program.steps
