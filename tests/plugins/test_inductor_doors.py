"""Ways to turn the plugin on: a backend by name, and an environment variable."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install '.[torch]'")

from optsched.errors import UsageError  # noqa: E402
from optsched.plugins.inductor.backend import settings  # noqa: E402
from optsched.plugins.inductor.scheduler_pass import SchedulerPass  # noqa: E402
from optsched.plugins.inductor.switch import parse  # noqa: E402

ROOT = Path(__file__).parents[2]
STEP = """
import torch
from torch._inductor.async_compile import AsyncCompile
AsyncCompile.cpp_pybinding = lambda *_: lambda *_: None
model, x = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Softmax(1)), torch.randn(4, 8)
torch.compile(model, {arguments})(x).sum().backward()
from optsched.plugins import explain
print(explain())
"""


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """Return a folder with the entry points of the project file, as an installation has them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    folder = tmp_path / "doors-0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: doors\nVersion: 0\n")
    lines = [
        f"[{group}]\n" + "\n".join(f"{name} = {value}" for name, value in points.items())
        for group, points in project["entry-points"].items()
    ]
    (folder / "entry_points.txt").write_text("\n".join(lines))
    return tmp_path


def run(installed: Path, arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(installed), str(ROOT)])
    kept = {name: value for name, value in os.environ.items() if name != "OPTSCHED"}
    cache = {"TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1", "TORCHINDUCTOR_COMPILE_THREADS": "1"}
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", STEP.format(arguments=arguments)],
        env={**kept, **cache, "PYTHONPATH": path, **variables},
        cwd=installed,
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_the_backend_is_found_by_its_name(installed: Path) -> None:
    done = run(installed, "backend='optsched', options={'time_limit': 1.0, 'max_fusion_size': 8}")
    assert not done.returncode, done.stderr
    lines = done.stdout.splitlines()
    assert [line.split(":")[0] for line in lines] == [
        "inductor 0/0 forward",
        "inductor 0/0 backward",
    ]


def test_the_variable_turns_the_plugin_on_for_programs_as_they_are(installed: Path) -> None:
    done = run(installed, "", OPTSCHED="time_limit=1", TORCH_LOGS="optsched")
    assert not done.returncode, done.stderr
    assert done.stdout.count("inductor 0/0") == 2
    off = run(installed, "", OPTSCHED="0")
    assert off.stdout == "no graph was compiled with a plugin\n"


def test_a_bad_value_of_the_variable_is_one_line_and_changes_nothing(installed: Path) -> None:
    done = run(installed, "", OPTSCHED="time=1")
    assert not done.returncode, done.stderr
    assert done.stdout == "no graph was compiled with a plugin\n"
    assert done.stderr.count("OPTSCHED=time=1: no order is changed: expected 1 or NAME=VALUE") == 1


def test_options_are_ours_and_inductors() -> None:
    found = settings("reduce-overhead", {"time_limit": 3, "cuda": True, "max_fusion_size": 8})
    assert found["max_fusion_size"] == 8
    assert found["triton.cudagraphs"]
    installed = found["_post_fusion_custom_pass"]
    assert isinstance(installed, SchedulerPass)
    assert (installed.time_limit, installed.cuda) == (3.0, True)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"time_limt": 3}, "has no option 'time_limt': it has time_limit, store,"),
        ({"time_limit": "soon"}, "time_limit must be a number of seconds, got 'soon'"),
    ],
)
def test_a_misspelled_option_is_one_line(options: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError, match=words) as found:
        settings(None, options)
    assert "\n" not in str(found.value)


def test_values_of_the_variable() -> None:
    assert parse("1") == {}
    assert parse("time_limit=2, store=a.db,cuda=1") == {
        "time_limit": 2.0,
        "store": "a.db",
        "cuda": True,
    }
    for text, words in (
        ("2", "expected 1 or NAME=VALUE"),
        ("cuda=yes", "cuda must be 0 or 1, got 'yes'"),
        ("time_limit=x", "time_limit must be a number, got 'x'"),
    ):
        with pytest.raises(UsageError, match=words):
            parse(text)


def test_another_version_of_torch_is_left_alone_with_one_line(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(torch, "__version__", "2.16.0")
    found = settings(None, {"time_limit": 3, "max_fusion_size": 8})
    assert found == {"max_fusion_size": 8}
    assert caplog.messages == [
        "torch 2.16.0 is not supported, no order changed: "
        "the plugin knows the wrapper of torch 2.13, 2.14, 2.15"
    ]
