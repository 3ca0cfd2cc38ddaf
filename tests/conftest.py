"""What all tests share: Hypothesis profiles without a deadline, and a Ctrl-C that arrives."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings

# No deadline anywhere, as machines are shared; the same examples in CI.
settings.register_profile("dev", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "dev")


@pytest.fixture(autouse=True)
def _python_takes_interrupts() -> Iterator[None]:
    """Set Python's own handler of SIGINT, for the test and the processes that it starts.

    Where the parent ignores the signal (under `nohup`, in the background of a script, in some CI
    runners) so would this process and all its children.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
