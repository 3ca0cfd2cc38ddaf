"""`optsched warmup` and the process that it starts."""

from __future__ import annotations

import subprocess

import pytest

from optsched.solver import warmup


def test_an_interrupted_warmup_leaves_no_process_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []
    start = subprocess.Popen

    def start_and_keep(*args: object, **kwargs: object) -> subprocess.Popen[bytes]:
        started.append(start(*args, **kwargs))  # type: ignore[call-overload]
        return started[-1]

    def interrupt() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(warmup.subprocess, "Popen", start_and_keep)
    monkeypatch.setattr(warmup, "compile_orders", interrupt)
    with pytest.raises(KeyboardInterrupt):
        warmup.warm_up([].append)
    assert started[0].wait(timeout=300) < 0
