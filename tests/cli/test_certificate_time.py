"""The time of a certificate: the limit again, and none after Ctrl-C."""

from __future__ import annotations

import importlib
import signal
from pathlib import Path
from typing import Any

import pytest

from optsched.cli import main
from optsched.runtime.interrupt import take_interrupt

ROOT = Path(__file__).parents[2]
DIAMOND = str(ROOT / "instances" / "small" / "diamond.json")
MODULE = str(ROOT / "instances" / "hlo" / "scan-module.txt")
CAPTURED = str(ROOT / "tests" / "data" / "fused" / "shared.bwd.json.gz")
STEP = "optsched.solver.stages.candidate_orders"
CASES = [
    ([DIAMOND], "optsched.api", "certify", STEP, False),
    ([DIAMOND], "optsched.api", "certify", STEP, True),
    ([MODULE, "--inplace"], "optsched.certificate", "certify_module", STEP, False),
    ([MODULE, "--inplace"], "optsched.certificate", "certify_module", STEP, True),
    (
        [CAPTURED, "--unfuse"],
        "optsched.certificate.fusion",
        "certify_fusion",
        "optsched.solver.fusion.search.Search._look",
        True,
    ),
]
"""Arguments, the function that writes the certificate, a step of the search, and True if Ctrl-C is
pressed there."""


def interrupted(*_: object, **__: object) -> None:
    signal.raise_signal(signal.SIGINT)
    take_interrupt()


@pytest.mark.parametrize(("words", "room", "writer", "step", "stops"), CASES)
def test_ctrl_c_leaves_no_time(
    words: list[str],
    room: str,
    writer: str,
    step: str,
    stops: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given: list[Any] = []
    real = getattr(importlib.import_module(room), writer)

    def noted(*args: Any, **options: Any) -> Any:
        given.append(options.get("limits", args[-1]).limits.seconds)
        return real(*args, **options)

    monkeypatch.setattr(f"{room}.{writer}", noted)
    if stops:
        monkeypatch.setattr(step, interrupted)
    proof = tmp_path / "proof.json"
    code = main(["solve", *words, "--certificate", str(proof), "--time-limit", "500"])
    assert (code, given) == ((130, [0.0]) if stops else (0, [500.0]))
    # A bound that takes no search is in it.
    assert proof.exists()
