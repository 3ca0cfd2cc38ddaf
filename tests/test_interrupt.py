"""An interrupt within a compiled kernel ends a search as any other does."""

from __future__ import annotations

import pytest

from optsched import GraphBuilder
from optsched.interrupt import plain_interrupts
from optsched.ordering import engine, solve_order
from optsched.result import StopReason


def wrapped(cause: BaseException) -> SystemError:
    """What the interpreter makes of an exception that a compiled function leaves behind."""
    error = SystemError("a result with an exception set")
    error.__cause__ = cause
    return error


def test_an_interrupt_is_raised_as_itself() -> None:
    with pytest.raises(KeyboardInterrupt), plain_interrupts():
        raise wrapped(KeyboardInterrupt())


@pytest.mark.parametrize("error", [wrapped(ValueError()), SystemError("of its own"), OSError()])
def test_other_errors_pass(error: Exception) -> None:
    with pytest.raises(type(error)) as caught, plain_interrupts():
        raise error
    assert caught.value is error


def test_a_search_keeps_what_it_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise wrapped(KeyboardInterrupt())

    monkeypatch.setattr(engine, "closure_bound", interrupted)
    build = GraphBuilder("pair")
    build.input("x", 8)
    build.op("first", reads=["x"], writes={"a": 4})
    build.op("second", reads=["a"], writes={"y": 2})
    build.output("y")
    outcome = solve_order(build.build())
    assert outcome.stop_reason is StopReason.INTERRUPTED
    assert outcome.order == (0, 1)
