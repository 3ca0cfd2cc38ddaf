"""`optsched warmup` and the process that it starts."""

from __future__ import annotations

import subprocess

import pytest

from optsched.runtime import kernel
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


def test_kernels_choose_their_form_again_after_a_warmup(monkeypatch: pytest.MonkeyPatch) -> None:
    forced: list[object] = []
    for name in ("use_orders", "use_repeats"):
        monkeypatch.setattr(warmup, name, lambda *_: forced.append(kernel.policy.force))
    warmup.compile_orders()
    assert set(forced) == {kernel.compiled_form}
    assert kernel.policy.force is None
    monkeypatch.setattr(warmup, "use_tree", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        warmup.compile_packings()
    assert kernel.policy.force is None
