"""Ways to turn the plugin on: a backend by name, and an environment variable."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install '.[torch]'")

from torch._inductor import config  # noqa: E402
from torch._inductor.custom_graph_pass import CustomSchedulerPass  # noqa: E402

from optsched import plugins  # noqa: E402
from optsched.errors import UsageError  # noqa: E402
from optsched.plugins.inductor import enabled  # noqa: E402
from optsched.plugins.inductor.backend import compile_graph, settings  # noqa: E402
from optsched.plugins.inductor.scheduler_pass import SchedulerPass  # noqa: E402
from optsched.plugins.inductor.switch import parse  # noqa: E402
from tests.support.compiled_memory import NO_CACHE, no_kernels  # noqa: E402

ROOT = Path(__file__).parents[3]
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


def run(
    installed: Path, arguments: str, code: str = STEP, **variables: str
) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(installed), str(ROOT)])
    kept = {name: value for name, value in os.environ.items() if name != "OPTSCHED"}
    cache = {"TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1", "TORCHINDUCTOR_COMPILE_THREADS": "1"}
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code.replace("{arguments}", arguments)],
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
    # Graphs of other tests in this process are not of interest.
    plugins.forget()
    monkeypatch.setattr(torch, "__version__", "2.16.0")
    found = settings(None, {"time_limit": 3, "max_fusion_size": 8})
    assert found == {"max_fusion_size": 8}
    line = (
        "torch 2.16.0 is not supported, no order changed: "
        "the plugin knows the wrapper of torch 2.13, 2.14, 2.15"
    )
    assert caplog.messages == [line]
    # Where people look for what became of their graphs.
    assert plugins.explain() == f"inductor: {line}"
    plugins.forget()
    assert plugins.explain() == "no graph was compiled with a plugin"


WITHOUT_COMPILER = """
import torch
from torch._dynamo.exc import BackendCompilerFailed
from torch._inductor import config
from torch._inductor.exc import InductorError
from optsched.plugins import explain
from optsched.plugins.inductor import options
config.cpp.cxx = ("no-such-compiler",)
for chosen in ({}, options(time_limit=1)):
    torch._dynamo.reset()
    try:
        torch.compile(torch.sin, options=chosen)(torch.ones(8))
    except (BackendCompilerFailed, InductorError) as error:
        print(type(error).__name__, str(error).splitlines()[0])
print(explain())
"""


def test_without_a_compiler_the_error_is_the_frameworks_own(installed: Path) -> None:
    done = run(installed, "", code=WITHOUT_COMPILER)
    assert not done.returncode, done.stderr
    stock, ours, planned = done.stdout.splitlines()
    assert stock == ours
    assert planned.startswith("inductor 0/0 ")
    assert "optsched" not in done.stderr


def test_another_backend_may_call_ours(caplog: pytest.LogCaptureFixture) -> None:
    def chained(graph: object, inputs: object) -> object:
        return compile_graph(graph, inputs, options={"time_limit": 1})

    torch._dynamo.reset()
    plugins.forget()
    with no_kernels(), torch.no_grad():
        assert torch.compile(torch.sin, backend=chained)(torch.ones(8)).shape == (8,)
    assert len(plugins.records()) == 1
    assert not [r for r in caplog.records if r.name.startswith("optsched")]


def test_the_backend_inside_the_context_is_one_pass() -> None:
    with enabled(time_limit=1), config.patch(fx_graph_cache=False):
        found = settings(None, {"time_limit": 2})["_post_fusion_custom_pass"]
    assert (found.time_limit, found.reorder) == (2.0, True)


def test_a_pass_of_another_project_in_our_place_is_one_line() -> None:
    """The user asked for us by name, so this is an error and not a line in the log."""
    with config.patch(_post_fusion_custom_pass=OtherPass()):
        with pytest.raises(UsageError, match="is already set to") as found:
            settings(None, {"time_limit": 1})
        with pytest.raises(UsageError, match="is already set to"), enabled(time_limit=1):
            pass
    assert "\n" not in str(found.value)


class OtherPass(CustomSchedulerPass):  # type: ignore[misc]
    def __call__(self, nodes: list[object]) -> list[object]:
        return nodes

    def uuid(self) -> None:
        return None


@pytest.mark.parametrize("cuda", [None, "13.0"], ids=["a build without CUDA", "no driver"])
def test_the_option_for_gpus_changes_nothing_on_the_cpu(
    cuda: str | None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A machine without Triton and without a driver."""
    monkeypatch.setattr(torch.version, "cuda", cuda)
    monkeypatch.setitem(sys.modules, "triton", None)
    torch._dynamo.reset()
    plugins.forget()
    with no_kernels(), config.patch(NO_CACHE), enabled(time_limit=1, cuda=True), torch.no_grad():
        torch.compile(torch.sin)(torch.ones(8))
    (record,) = plugins.records()
    assert record.planned == 32
    assert "simulated" not in record.note
    assert not [r for r in caplog.records if r.name.startswith("optsched")]
