"""An interrupt stays one, wherever it lands."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def plain_interrupts() -> Iterator[None]:
    """Raise an interrupt as itself where a compiled kernel made a SystemError of it.

    One that lands while a kernel takes its arguments or returns comes out as "a result with
    an exception set"; the interrupt is its cause.

    Raises
    ------
    KeyboardInterrupt
        In place of such a SystemError; all other errors pass.
    """
    try:
        yield
    except SystemError as error:
        if isinstance(error.__cause__, KeyboardInterrupt):
            raise KeyboardInterrupt from error
        raise
