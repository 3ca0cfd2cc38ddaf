"""Nothing that happens to the kernels' cache changes an answer or ends a run."""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest

from optsched.runtime import disk_cache
from optsched.runtime import kernel as kernel_module
from optsched.runtime.interrupt import held_interrupts
from optsched.runtime.kernel import Kernel, kernel
from tests.support.commands import Cli

ROOT = Path(__file__).parents[2]
GRAPH = str(ROOT / "instances" / "small" / "diamond.json")


class Sides(NamedTuple):
    left: int
    right: int


@pytest.fixture(autouse=True)
def no_python_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count no seconds of the tests before: they decide which kernels are worth compiling."""
    monkeypatch.setattr(kernel_module.Kernel, "all_seconds", 0.0)


@kernel
def triangle(n: int) -> int:
    total = 0
    for i in range(n):
        total += i
    return total


@kernel
def other(n: int) -> int:
    return n + 1


@kernel
def first(sides: Sides) -> int:
    return sides.left


def fresh(source: Kernel[..., Any]) -> Any:
    """A kernel as a new process would have it."""
    return Kernel(source.function).compiled


def is_loaded(dispatcher: Any) -> bool:
    return bool(dispatcher.stats.cache_hits)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of the cache, with nothing said yet."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(disk_cache, "_said", [])
    monkeypatch.setattr(kernel_module, "_on_first", [])
    return disk_cache.folders()[0]


def only_file(folder: Path, source: Kernel[..., Any]) -> Path:
    (found,) = (path for path in folder.iterdir() if path.name.startswith(source.file_name))
    return found


def loads_triangle() -> bool:
    """Run a kernel as a new process does; return True if it was loaded, and not compiled."""
    made = fresh(triangle)
    assert made(10) == 45
    return is_loaded(made)


def test_a_kernel_is_loaded_by_the_next_process(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not disk_cache.has_file(triangle.file_name)
    assert fresh(triangle)(10) == 45
    assert disk_cache.has_file(triangle.file_name)
    assert loads_triangle()
    assert [path.name[0] for path in folder.iterdir()] != ["."]
    assert capsys.readouterr().err == ""


def corrupt(whole: bytes, number: int) -> bytes:
    """One of endless ways in which a file may have been damaged."""
    rng = random.Random(number)
    at = rng.randrange(len(whole))
    ways: list[Callable[[], bytes]] = [
        lambda: b"",
        lambda: whole[:at],
        lambda: whole[:at] + bytes([whole[at] ^ 1 << rng.randrange(8)]) + whole[at + 1 :],
        lambda: rng.randbytes(len(whole)),
        lambda: bytes(len(whole)),
        lambda: whole + b"\n",
        lambda: whole[:at] + whole[at + 1 :],
        lambda: whole[: disk_cache.DIGEST_BYTES] + rng.randbytes(at),
    ]
    return ways[number % len(ways)]()


def test_corruptions_of_a_file_change_nothing(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert fresh(triangle)(10) == 45
    path = only_file(folder, triangle)
    whole = path.read_bytes()
    for number in range(14):
        monkeypatch.setattr(disk_cache, "_said", [])
        path.write_bytes(corrupt(whole, number))
        again = fresh(triangle)
        assert again(10) == 45
        assert not is_loaded(again)
        assert (
            capsys.readouterr().err
            == f"optsched: damaged compiled kernel is compiled again: {path}\n"
        )
        mended = fresh(triangle)
        assert mended(10) == 45
        assert is_loaded(mended)


def test_a_whole_file_under_the_name_of_another_is_not_used(folder: Path) -> None:
    assert fresh(triangle)(10) == 45
    assert fresh(other)(10) == 11
    shutil.copy(only_file(folder, other), only_file(folder, triangle))
    assert fresh(triangle)(10) == 45


def test_a_folder_in_place_of_a_file_is_survived(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fresh(triangle)(10) == 45
    path = only_file(folder, triangle)
    path.unlink()
    path.mkdir()
    assert fresh(triangle)(10) == 45
    assert capsys.readouterr().err.count("\n") == 1
    assert [x.name for x in folder.iterdir()] == [path.name]


def test_what_can_not_be_loaded_is_compiled(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file with the right digest, written by something else."""
    assert fresh(triangle)(10) == 45
    path = only_file(folder, triangle)
    path.write_bytes(disk_cache._digest(path.name, b"text") + b"text")
    assert fresh(triangle)(10) == 45
    assert "compiled again" in capsys.readouterr().err


def test_fields_of_a_tuple_that_change_places_are_another_kernel(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else `left` would be read where `right` is now."""
    swapped = cast(Any, NamedTuple("Sides", [("right", int), ("left", int)]))
    assert fresh(first)(Sides(1, 2)) == 1
    assert fresh(first)(swapped(1, 2)) == 2
    assert len(list(folder.iterdir())) == 2


def give_away(folder: Path, damage: str) -> None:
    """Let other users write to a folder, or make it that of another user."""
    if damage == "other users":
        folder.chmod(0o777)
    elif os.geteuid():
        pytest.skip("only root may give a folder away")
    else:
        os.chown(folder, 12345, 12345)


@pytest.mark.parametrize("damage", ["other users", "of another user"])
def test_a_folder_that_others_may_write_to_is_not_used(
    damage: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fresh(triangle)(10) == 45
    give_away(folder, damage)
    assert not loads_triangle()
    said = f"compiled kernels cannot be saved: {folder}: other users may write to it"
    assert capsys.readouterr().err == f"optsched: {said}\n"


def test_no_folder_at_all_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "file" / "below"))
    monkeypatch.setattr(disk_cache, "_said", [])
    monkeypatch.setattr(kernel_module, "_on_first", [])
    assert fresh(triangle)(10) == 45
    assert fresh(other)(10) == 11
    assert capsys.readouterr().err.count("\n") == 1


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder of temporary files, with no other place for kernels."""
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null/cache")
    monkeypatch.setattr(disk_cache, "__file__", "/dev/null/optsched/runtime/disk_cache.py")
    monkeypatch.setattr(disk_cache, "_said", [])
    monkeypatch.setattr(kernel_module, "_on_first", [])
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    tmp_path.chmod(0o1777)
    return tmp_path


def test_without_a_home_the_folder_beside_the_sources_comes_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    beside, among_temporary = disk_cache.folders()
    assert beside.is_relative_to(ROOT)
    assert among_temporary.parent == Path(tempfile.gettempdir())


def test_kernels_are_kept_among_temporary_files_if_nowhere_else(
    temporary: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert disk_cache.is_writable()
    assert fresh(triangle)(10) == 45
    assert loads_triangle()
    (folder,) = temporary.iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("damage", ["link", "other users", "of another user", "moved"])
def test_a_folder_among_temporary_files_is_the_users_own(
    damage: str, temporary: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    assert fresh(triangle)(10) == 45
    (folder,) = temporary.iterdir()
    if damage == "link":
        elsewhere = tmp_path_factory.mktemp("elsewhere") / "kernels"
        folder.rename(elsewhere)
        folder.symlink_to(elsewhere)
    elif damage == "moved":
        # Where nothing keeps other users from putting their folder in the place of ours.
        temporary.chmod(0o777)
    else:
        give_away(folder, damage)
    assert not loads_triangle()
    assert not disk_cache.has_file(triangle.file_name)


def test_a_search_that_is_slow_for_want_of_a_folder_says_so_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "file" / "below"))
    monkeypatch.setattr(disk_cache, "_said", [])
    monkeypatch.setattr(kernel_module, "START_SECONDS", 0.0)
    for source in (triangle, other):
        slow = Kernel(source.function)
        assert not slow._is_worth_it(0.9 * slow._compile_estimate, (10,))
    said = "no folder for compiled kernels is writable, so every run is slow at first"
    assert (
        capsys.readouterr().err == f"optsched: {said}: set NUMBA_CACHE_DIR to a writable folder\n"
    )


def test_a_file_that_can_not_be_written_whole_is_not_left_behind(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        assert fresh(triangle)(10) == 45
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert list(folder.iterdir()) == []
    assert capsys.readouterr().err.startswith("optsched: compiled kernels cannot be saved: ")


def test_a_full_disk_is_said_once(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4k,mode=755", "tmpfs", str(folder)]
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no small file system can be mounted here: {error}")
    try:
        assert fresh(triangle)(10) == 45
        assert fresh(other)(10) == 11
        assert list(folder.iterdir()) == []
    finally:
        subprocess.run(["umount", str(folder)], check=True)
    assert capsys.readouterr().err.endswith(": No space left on device\n")


def test_one_that_another_process_compiles_is_waited_for(folder: Path) -> None:
    """As long as that is thought to take; then it is compiled here."""
    with disk_cache.turn("one", 0.0):
        assert [path.name for path in folder.iterdir()] == [".one.lock"]
        begun = time.monotonic()
        with disk_cache.turn("other", 9.0), disk_cache.turn("one", 0.2):
            assert 0.2 <= time.monotonic() - begun < 9
    assert list(folder.iterdir()) == []


def test_the_wait_for_another_process_ends_with_it(folder: Path) -> None:
    code = (
        "import os, time; from optsched.runtime import disk_cache\n"
        "with disk_cache.turn('one', 0): print('locked', flush=True); time.sleep(0.3); os._exit(1)"
    )
    beside = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, cwd=ROOT)
    assert beside.stdout is not None
    assert beside.stdout.readline() == b"locked\n"
    begun = time.monotonic()
    with disk_cache.turn("one", 60.0):
        assert time.monotonic() - begun < 50
    assert beside.wait() == 1
    beside.stdout.close()


def test_what_another_process_compiled_meanwhile_is_loaded(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def while_another_compiles(name: str, patience: float) -> Iterator[float]:
        assert (name, patience > 0) == (triangle.file_name, True)
        monkeypatch.setattr(disk_cache, "turn", lambda *_: nullcontext(0.0))
        assert fresh(triangle)(10) == 45
        yield 0.0

    monkeypatch.setattr(disk_cache, "turn", while_another_compiles)
    ours = fresh(triangle)
    assert ours(10) == 45
    assert is_loaded(ours)


def test_ctrl_c_ends_the_wait_for_another_process(folder: Path) -> None:
    with disk_cache.turn("one", 0.0), held_interrupts():
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt), disk_cache.turn("one", 60.0):
            pytest.fail("it was not waited for")


def solve(cache: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """Run a command that loads numba and a kernel, in a process of its own."""
    code = (
        "import numba, sys; from optsched.cli import main; "
        "from tests.runtime.test_disk_cache import triangle; "
        f"assert triangle.compiled(10) == 45; sys.exit(main(['solve', {GRAPH!r}]))"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT), "NUMBA_CACHE_DIR": str(cache), **more}
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=env, timeout=400
    )


def test_a_command_with_a_broken_cache_says_so_and_answers(folder: Path, cli: Cli) -> None:
    whole = cli("solve", GRAPH)
    assert fresh(triangle)(10) == 45
    path = only_file(folder, triangle)
    path.write_bytes(path.read_bytes()[:-1])
    broken = solve(folder.parent)
    none = solve(Path("/dev/null/none"))
    assert broken.returncode == none.returncode == 0
    one, two, three = (text.rsplit(" after ")[0] for text in (whole, broken.stdout, none.stdout))
    assert one == two == three
    assert broken.stderr.count("optsched: ") == none.stderr.count("optsched: ") == 1, none.stderr


def test_loading_imports_no_scipy(folder: Path) -> None:
    assert fresh(triangle)(10) == 45
    code = (
        "import sys; from tests.runtime.test_disk_cache import triangle; triangle.compiled(3); "
        "print(any(x.split('.')[0] == 'scipy' for x in sys.modules))"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT), "NUMBA_CACHE_DIR": str(folder.parent)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=env, check=True
    )
    assert done.stdout == "False\n"
