"""Kernels: one source, two forms, same answers; nothing is compiled for little work."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from types import FunctionType
from typing import Any, cast

import numba
import numpy as np
import pytest
from llvmlite.binding import Linkage
from numba.core import config
from numba.core.registry import cpu_target

from optsched.errors import OptschedError
from optsched.runtime import background, disk_cache
from optsched.runtime import clock as clock_module
from optsched.runtime import compile as jit_compile
from optsched.runtime import kernel as jit
from optsched.runtime.clock import Clock
from optsched.runtime.kernel import Kernel, inner, kernel
from optsched.runtime.limits import Limits


@pytest.fixture(autouse=True)
def no_python_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count no seconds of the tests before: they decide which kernels are worth compiling."""
    monkeypatch.setattr(jit.Kernel, "all_seconds", 0.0)


@kernel
def square(x: int) -> int:
    return x * x


@kernel
def sum_of_squares(values: np.ndarray) -> int:
    total = 0
    for i in range(len(values)):
        total += square(values[i])
    return total


def test_both_forms_agree_and_nested_kernels_compile() -> None:
    values = np.arange(10)
    assert sum_of_squares(values) == sum_of_squares.compiled(values) == 285


def is_compiled(source: Kernel[..., Any]) -> bool:
    return "compiled" in source.__dict__


def test_python_runs_until_it_took_as_long_as_compiling_would() -> None:
    small = Kernel(square.function)
    run = small.for_work(1)
    assert run(3) == 9
    assert not is_compiled(small)
    small.seconds = 10.0
    assert run(3) == 9
    assert is_compiled(small)
    assert small.for_work(1) is small.compiled


def test_much_work_is_compiled_at_once_and_little_is_not() -> None:
    large = Kernel(square.function)
    assert large.for_work(10**9)(3) == 9
    assert is_compiled(large)


def test_a_large_call_is_compiled_at_once_where_the_question_is_not_quick(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(disk_cache, "has_file", lambda name: False)
    for calls, spent, share, long, expected in (
        (1, jit.QUICK_SECONDS + 0.1, 1.5, jit.LONG_SECONDS, True),
        # How long a first call takes is a guess.
        (0, jit.QUICK_SECONDS + 0.1, 1.5, jit.LONG_SECONDS, False),
        (1, jit.QUICK_SECONDS - 0.1, 1.5, jit.LONG_SECONDS, False),
        (1, jit.QUICK_SECONDS + 0.1, 0.5, jit.LONG_SECONDS, False),
        (1, jit.QUICK_SECONDS + 0.1, 1.5, 0.0, False),
    ):
        monkeypatch.setattr(Kernel, "all_seconds", spent)
        monkeypatch.setattr(jit, "LONG_SECONDS", long)
        each = Kernel(square.function)
        each.elements, each.seconds = calls, calls * jit.ELEMENT_SECONDS
        call = share * jit.LARGE_SHARE * each._compile_estimate
        assert each.for_work(int(call / jit.ELEMENT_SECONDS))(3) == 9
        assert is_compiled(each) == expected


def test_python_goes_on_while_the_background_process_compiles(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Twice as long as without it, but not if one call takes as long as compiling."""
    monkeypatch.setattr(disk_cache, "has_file", lambda name: False)
    asked: list[str] = []
    monkeypatch.setattr(background.compiler, "ask", lambda *request: asked.append(request[2]))
    for share, large, is_beside, expected in (
        (1.5, False, True, False),
        (1.5, False, False, True),
        (jit.PATIENCE + 0.5, False, True, True),
        (0.5, True, True, True),
    ):
        monkeypatch.setattr(background.compiler, "is_beside", lambda file, is_=is_beside: is_)
        each = Kernel(square.function)
        each.seconds, each.elements = share * each._compile_estimate, 10**6
        work = 10**9 if large else 1
        assert each.for_work(work)(3) == 9
        assert is_compiled(each) == expected
        assert asked.pop() == each.file_name


def test_nothing_is_compiled_that_would_be_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_cache, "has_file", lambda name: False)
    # More than long enough: other processes may keep this one from running for a while.
    for share, more, expected in ((0.5, 0.0, False), (1.0, 60.0, True)):
        each = Kernel(square.function)
        left = share * each._compile_estimate + more
        monkeypatch.setattr(jit.policy, "deadline", time.monotonic() + left)
        # As if Python had taken long.
        each.seconds, each.elements = 10.0, 10**6
        assert each.for_work(1)(3) == 9
        assert is_compiled(each) == expected
        monkeypatch.setattr(jit.policy, "deadline", time.monotonic() + 60)


def test_somebody_who_waits_gets_an_answer_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now, compiling = [100.0], [7.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(clock_module, "compile_seconds", lambda: compiling[0])
    monkeypatch.setattr(jit.policy, "deadline", 0.0)
    watched, other = Clock.watched(Limits(seconds=10)), Clock.of(Limits(seconds=10))
    most = 10 * clock_module.COMPILING_SHARE
    assert jit.policy.deadline == 110 + most
    now[0] += 9
    compiling[0] += most + 5
    assert other.left() == 1 + most + 5
    assert watched.left() == watched.share(1.0).left() == 1 + most
    # Without a limit in seconds nothing is late.
    for limits in (Limits(), Limits(work=10)):
        assert Clock.watched(limits).left() == limits.work
        assert jit.policy.deadline == float("inf")


@pytest.mark.parametrize("kept", [True, False])
def test_no_limit_counts_python_in_place_of_quick_compiling(
    kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of each kernel at most as long as compiling it takes, and nothing if it is on disk."""
    monkeypatch.setattr(disk_cache, "has_file", lambda name: kept)
    monkeypatch.setattr(Kernel, "all_seconds", -10.0)
    now = [0.0]
    monkeypatch.setattr(time, "thread_time", lambda: now[0])

    def slow(seconds: float) -> None:
        now[0] += seconds

    each, before = Kernel(slow), jit.compile_seconds()
    each.next_look = 0.0
    for seconds in (0.05, 10.0):
        each.for_work(0)(seconds)
    estimate = each._compile_estimate
    assert jit.compile_seconds() - before == pytest.approx(0.0 if kept else estimate)


def test_what_a_call_takes_is_learned_from_the_calls_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Estimates of work are rough: they may be far too large."""
    monkeypatch.setattr(disk_cache, "has_file", lambda name: False)
    learned = Kernel(square.function)
    estimate = 1000
    assert learned.for_work(estimate)(3) == 9
    for _ in range(5):
        assert learned.for_work(10 * estimate)(3) == 9
        assert not is_compiled(learned)


def test_a_kernel_that_is_kept_is_loaded_sooner_than_one_is_compiled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    some = int(jit.LOAD_SECONDS * 2 / jit.ELEMENT_SECONDS)
    for kept in (True, False):
        monkeypatch.setattr(disk_cache, "has_file", lambda name, kept=kept: kept)
        each = Kernel(square.function)
        assert each.for_work(some)(3) == 9
        assert is_compiled(each) == kept


def test_what_many_runs_will_call_is_compiled_sooner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_cache, "has_file", lambda name: False)
    for runs in (1, 29):
        monkeypatch.setattr(jit.policy, "runs_to_come", runs)
        each = Kernel(square.function)
        some = int(each._compile_estimate / 10 / jit.ELEMENT_SECONDS)
        assert each.for_work(some)(3) == 9
        assert is_compiled(each) == (runs > 1)


def test_another_process_is_asked_first_and_what_it_compiled_is_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[object] = []
    kept: list[str] = []
    monkeypatch.setattr(background.compiler, "ask", lambda *request: asked.append(request))
    monkeypatch.setattr(jit, "ASKING_SHARE", 0.01)
    monkeypatch.setattr(disk_cache, "has_file", kept.__contains__)
    each = Kernel(square.function)
    each.seconds = 0.6 * each._compile_estimate
    assert each.for_work(0)(3) == 9
    assert asked == [(__name__, "square", each.file_name, (3,))]
    assert not is_compiled(each)
    kept.append(each.file_name)
    each.seconds += jit.LOOK_SECONDS
    assert each.for_work(0)(3) == 9
    assert is_compiled(each)


def test_compiling_is_told_of_while_it_lasts(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[bool] = []
    monkeypatch.setattr(jit.policy, "watch_compiling", said.append)
    with_globals(scaled, FACTOR=time.time_ns()).load(1)
    assert said == [True, False]


def test_waiting_for_another_process_counts_as_compiling(monkeypatch: pytest.MonkeyPatch) -> None:
    before = jit.compile_seconds()
    monkeypatch.setattr(Kernel, "waited_seconds", Kernel.waited_seconds + 5.0)
    assert jit.compile_seconds() - before == pytest.approx(5.0)


def test_a_form_can_be_forced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit.policy, "force", jit.reference_form)
    assert square.for_work(10**9) is square.function
    monkeypatch.setattr(jit.policy, "force", jit.compiled_form)
    assert square.for_work(0) is square.compiled


def test_a_clock_does_not_count_compiling(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock.of(Limits(seconds=50.0))
    spent = clock_module.compile_seconds()
    monkeypatch.setattr(clock_module, "compile_seconds", lambda: spent + 100.0)
    left = clock.left()
    assert left is not None
    assert left > 140


def test_compiling_is_told_of_once_and_loading_not_at_all(tmp_path: Path) -> None:
    module = tmp_path / "told.py"
    module.write_text(
        "from optsched.runtime.kernel import kernel, report_compiling\n"
        "@kernel\n"
        "def one(x: int) -> int:\n"
        "    return x + 1\n"
        "@kernel\n"
        "def two(x: int) -> int:\n"
        "    return x + 2\n"
        "report_compiling(lambda: print('compiling'))\n"
        "print(one.compiled(1), two.compiled(1))\n"
    )
    said = []
    for _ in range(2):
        here = {
            "NUMBA_CACHE_DIR": str(tmp_path / "cache"),
            "PYTHONPATH": str(Path(jit.__file__).parents[2]),
        }
        env = {**os.environ, **here}
        done = subprocess.run(
            [sys.executable, str(module)], capture_output=True, text=True, check=True, env=env
        )
        said.append(done.stdout.split())
    assert said == [["compiling", "2", "3"], ["2", "3"]]


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = (
        "import sys, optsched, heuristics; "
        "heavy = {'numba', 'ortools', 'pulp', 'networkx', 'torch', 'rich', 'highspy'}; "
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


FACTOR = 2


@kernel
def scaled(x: int) -> int:
    return x * FACTOR


@kernel
def shifted(x: int) -> int:
    return scaled(x) + 1


@kernel
def doubled(x: int) -> int:
    return x + x


def with_globals(source: Kernel[..., int], **changed: object) -> Kernel[..., int]:
    function = source.function
    assert isinstance(function, FunctionType)
    names = {**function.__globals__, **changed}
    return Kernel(FunctionType(function.__code__, names, function.__name__))


def test_fingerprint_follows_code_callees_and_constants() -> None:
    assert with_globals(shifted).fingerprint == shifted.fingerprint
    assert with_globals(shifted, scaled=doubled).fingerprint != shifted.fingerprint
    assert with_globals(scaled, FACTOR=3).fingerprint != scaled.fingerprint
    assert with_globals(doubled, FACTOR=3).fingerprint == doubled.fingerprint
    other_factor = with_globals(scaled, FACTOR=3)
    assert with_globals(shifted, scaled=other_factor).fingerprint != shifted.fingerprint


def test_inner_kernels_run_inside_others_and_as_python() -> None:
    helper = inner(doubled.function)
    outer = with_globals(shifted, scaled=helper)
    assert outer.compiled(5) == 11
    assert helper(5) == 10


@kernel
def ordered(values: np.ndarray) -> np.ndarray:
    return np.sort(values)


def test_what_became_part_of_a_kernel_stays_its_own() -> None:
    """Names of such functions may stand for others in a kernel that another process compiled."""
    assert ordered.compiled(np.array([3, 1, 2])).tolist() == [1, 2, 3]
    library = next(iter(cast(Any, ordered.compiled).overloads.values())).library
    functions = [x for x in library._get_module_for_linking().functions if not x.is_declaration]
    shared = {x.name for x in functions if x.linkage == Linkage.linkonce_odr}
    assert [x for x in shared if "ordered" in x]
    assert not [x for x in shared if "ordered" not in x and not x.startswith("NRT_")]
    internal = [x.name for x in functions if x.linkage == Linkage.internal]
    assert internal
    assert all(f"ordered_{ordered.fingerprint[:16]}" in name for name in internal)


def test_the_way_of_compiling_is_part_of_the_fingerprint(monkeypatch: pytest.MonkeyPatch) -> None:
    before = with_globals(doubled).fingerprint
    monkeypatch.setattr(jit, "_described_compiler", lambda: "another way")
    assert with_globals(doubled).fingerprint != before


def test_compiling_leaves_the_process_as_it_was() -> None:
    codegen = cpu_target.target_context.codegen()
    before = codegen._library_class
    assert with_globals(doubled).compiled(4) == 8
    assert codegen._library_class is before


def test_a_kernel_loaded_while_another_is_compiled_can_be_called(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))
    assert with_globals(doubled).compiled(3) == 6
    loaded = with_globals(doubled)
    assert with_globals(shifted, scaled=loaded).compiled(3) == 7
    assert cast(Any, loaded.compiled).stats.cache_hits
    assert loaded.compiled(3) == 6


@pytest.mark.parametrize("version", ["0.61.2", "0.69.0rc1", "1.0.0"])
def test_an_untested_numba_is_refused_in_one_line(
    version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(numba, "__version__", version)
    with pytest.raises(OptschedError, match=rf"^numba {version} is not supported; run: .*<0\.69'$"):
        _ = with_globals(doubled).compiled


@pytest.mark.parametrize("command", ["warmup", "solve"])
def test_an_untested_numba_ends_a_command_in_one_line(command: str, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import numba; numba.__version__ = '0.70.1'")
    root = Path(jit.__file__).parents[2]
    graph = root / "instances" / "inductor" / "albert_qa_bs4_ac0.5_cuda.bwd.json.gz"
    here = {"PYTHONPATH": f"{tmp_path}{os.pathsep}{root}", "NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", "optsched", command, *([graph] if command == "solve" else [])],
        capture_output=True,
        text=True,
        env={**os.environ, **here},
    )
    wanted = "optsched: error: numba 0.70.1 is not supported; run: pip install 'numba>=0.62,<0.69'"
    # A process next door may be asked to compile before; the best plan so far is shown then.
    before = ("compiling (once)", "optsched: compiling", "optsched: best")
    said = [line for line in done.stderr.splitlines() if not line.startswith(before)]
    assert (done.returncode, said) == (2, [wanted])


def test_the_range_of_versions_is_the_one_that_is_installed() -> None:
    low, high = (".".join(map(str, version)) for version in jit_compile.TESTED)
    text = (Path(jit.__file__).parents[2] / "pyproject.toml").read_text()
    assert f'"numba>={low},<{high}"' in text


def test_seconds_of_compiling_are_counted_after_an_interrupt_of_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(jit, "_on_first", [interrupt])
        with pytest.raises(KeyboardInterrupt):
            with_globals(scaled, FACTOR=time.time_ns()).compiled(0)
    before = jit.compile_seconds()
    with_globals(scaled, FACTOR=time.time_ns()).compiled(0)
    assert jit.compile_seconds() > before


def test_seconds_of_compiling_are_counted_and_loading_is_not() -> None:
    before = jit.compile_seconds()
    assert with_globals(scaled, FACTOR=time.time_ns()).compiled(0) == 0
    after = jit.compile_seconds()
    assert after > before
    assert scaled(1) == FACTOR
    assert jit.compile_seconds() == after


@inner
def makes(n: int) -> np.ndarray:
    return np.zeros(n)


@kernel
def uses(n: int) -> float:
    return makes(n)[0]


@inner
def gives(values: np.ndarray) -> np.ndarray:
    return values[1:]


def test_arrays_are_counted_only_where_some_are_made_or_returned() -> None:
    """A kernel that makes an array but is declared not to is rejected when it is compiled."""
    assert sum_of_squares.borrows
    assert not any(each.borrows for each in (makes, uses, gives))
    with pytest.raises(numba.core.errors.NumbaError):
        jit_compile.dispatcher(cast(FunctionType, makes.function), part=False, borrows=True)(3)
