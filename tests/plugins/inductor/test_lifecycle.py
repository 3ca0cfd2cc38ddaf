"""The lifecycle check: wrappers written by hand, each with a line that is not as planned."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install '.[torch]'")

from torch._inductor import config  # noqa: E402

from optsched import plugins  # noqa: E402
from optsched.check.lifecycle import LifecycleError, LifeEvent  # noqa: E402
from optsched.errors import UsageError  # noqa: E402
from optsched.plugins.inductor import enabled, options, scheduler_pass  # noqa: E402
from optsched.plugins.inductor.lifecycle import GraphLives, expect_lives, plan_lives, watch  # noqa: E402
from tests.support.compiled_memory import NO_CACHE, no_kernels  # noqa: E402

WRAPPER = """
import torch

def call(args):
    saved, weight = args
    args.clear()
    buf0 = torch.empty(4)
    buf1 = buf0; del buf0  # reuse
    pair = torch.empty(2), torch.empty(3)
    buf2 = pair[0]
    buf3 = pair[1]
    del pair
    del saved
    buf4 = buf1.view(2, 2)  # alias
    del buf1
    buf5 = weight.view(-1)
    del buf2
    buf6 = torch.empty(5)
    del buf4
    del buf6
    return (buf3, buf5)
"""

PLANNED = (
    ("buf0", True),
    ("buf2", True),
    ("buf3", True),
    ("saved", False),
    ("buf2", False),
    ("buf6", True),
    ("buf0", False),
    ("buf6", False),
)


def run(path: Path, text: str, mode: str) -> Any:
    """Write a wrapper and call it, with lives that the first one has."""
    path.write_text(text)
    lives = GraphLives(
        "0/0 backward",
        tuple(LifeEvent(name, 16, born) for name, born in PLANNED),
        frozenset(["saved"]),
        frozenset(["saved", "weight"]),
        frozenset(f"buf{i}" for i in range(7)),
    )
    expect_lives(SimpleNamespace(cache_path=str(path)), lives)
    names: dict[str, Any] = {}
    exec(compile(text, path, "exec"), names)
    weight = torch.empty(6)
    with watch(mode):
        return names["call"]([torch.empty(8), weight])


def test_a_wrapper_that_does_what_is_planned(tmp_path: Path) -> None:
    assert len(run(tmp_path / "wrapper.py", WRAPPER, "assert")) == 2
    assert sys.gettrace() is None or "lifecycle" not in repr(sys.gettrace())


CHANGES = [
    ("    del saved\n", "", "'saved' is still held by line"),
    (
        "    buf6 = torch.empty(5)\n    del buf4\n",
        "    del buf4\n    buf6 = 1\n",
        "'buf0' is released",
    ),
    ("    del buf2\n", "", "'buf2' is still held"),
    ("    del buf2\n", "    del buf2\n    buf0 = torch.empty(1)\n", "'buf0' is allocated"),
    ("    buf6 = torch.empty(5)\n    del buf4\n    del buf6\n", "", "'buf6' is not there"),
]


@pytest.mark.parametrize(("line", "other", "message"), CHANGES)
def test_a_wrapper_that_does_not(
    line: str, other: str, message: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Raised, or logged in one line while the call goes on."""
    text = WRAPPER.replace(line, other)
    assert text != WRAPPER
    with pytest.raises(LifecycleError, match=message) as raised:
        run(tmp_path / "raises.py", text, "assert")
    assert "0/0 backward" in str(raised.value)
    with caplog.at_level(logging.WARNING, logger="optsched"):
        assert len(run(tmp_path / "logs.py", text, "log")) == 2
    assert len(caplog.records) == 1
    assert message in caplog.text


def layers() -> Any:
    """A net whose graphs hold and let go of some buffers."""
    return torch.nn.Sequential(
        torch.nn.Linear(8, 16), torch.nn.Softmax(0), torch.nn.Linear(16, 4), torch.nn.Softmax(0)
    )


def test_a_compiled_step_lives_as_planned_and_a_wrong_plan_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The plan is the other way round: of the first two buffers the second one comes first."""
    torch._dynamo.reset()
    plugins.forget()
    checked = []
    wrong = False

    def plan(*args: Any, **settings: Any) -> GraphLives:
        lives = plan_lives(*args, **settings)
        checked.append(lives)
        if not wrong:
            return lives
        planned = list(lives.planned)
        first, second, *_ = (i for i, event in enumerate(planned) if event.born)
        planned[first], planned[second] = planned[second], planned[first]
        return GraphLives(lives.name, tuple(planned), lives.owned, lives.inputs, lives.buffers)

    monkeypatch.setattr(scheduler_pass, "plan_lives", plan)
    network, x = layers(), torch.randn(4, 8)
    with no_kernels(), config.patch(NO_CACHE):
        with enabled(time_limit=1, lifecycle="assert", min_gain=0):
            compiled = torch.compile(network)
            for _ in range(2):
                compiled(x).sum().backward()
        assert [lives.name.split()[-1] for lives in checked] == ["forward", "backward"]
        assert all(len(lives.planned) > 2 for lives in checked)
        torch._dynamo.reset()
        wrong = True
        with (
            enabled(time_limit=1, lifecycle="assert", min_gain=0),
            torch.no_grad(),
            pytest.raises(LifecycleError, match=r"inference .*is allocated by line"),
        ):
            torch.compile(layers())(x)


def test_wrong_modes_and_no_cache() -> None:
    with pytest.raises(UsageError, match="lifecycle must be one of assert, log, got 'shout'"):
        options(lifecycle="shout")
    assert options(lifecycle="log")["_post_fusion_custom_pass"].uuid() is None
