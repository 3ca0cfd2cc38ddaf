"""jax's persistent cache: modules with our orders are found by the plugin only, and are told of."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("jax", reason="jax is not installed (extra jax)")

import jax
import jax.numpy as jnp
from jax.experimental.compilation_cache import compilation_cache

from optsched.plugins import explain, forget, records
from optsched.plugins.xla import enabled
from optsched.plugins.xla.cache import RECORDS

SETTINGS = {
    "jax_persistent_cache_min_compile_time_secs": 0,
    "jax_persistent_cache_min_entry_size_bytes": -1,
}


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path) -> Iterator[None]:
    before = {name: getattr(jax.config, name) for name in SETTINGS}
    for name, value in SETTINGS.items():
        jax.config.update(name, value)
    use(str(tmp_path))
    forget()
    yield
    for name, value in before.items():
        jax.config.update(name, value)
    use(None)


def use(folder: str | None) -> None:
    compilation_cache.set_cache_dir(folder)
    compilation_cache.reset_cache()


def branches(x: Any, y: Any) -> Any:
    outs = [jnp.dot(x * k, y) for k in range(6)]
    return sum(jnp.tanh(o) @ o.T for o in outs)[0]


def temporary(size: int = 128) -> int:
    """Return the bytes of temporaries of the function, compiled as in a new process."""
    jax.clear_caches()
    x = jax.ShapeDtypeStruct((size, size), jnp.float32)
    return int(jax.jit(branches).lower(x, x).compile().memory_analysis().temp_size_in_bytes)


def test_a_process_without_the_plugin_does_not_get_our_order(tmp_path: Path) -> None:
    own = temporary()
    with enabled(min_gain=0):
        ours = temporary()
    assert ours < own
    assert temporary() == own
    use(str(tmp_path / "other"))
    with enabled(min_gain=0):
        assert temporary() == ours
    assert temporary() == own


def test_a_hit_tells_what_runs() -> None:
    """Of the module with these shapes, for each time that it is loaded."""
    with enabled(min_gain=0):
        temporary()
        temporary(96)
    compiled = {x.before: x for x in records()}
    forget()
    with enabled(min_gain=0):
        ours = temporary()
    (record,) = records()
    assert "out of jax's compilation cache" in explain()
    first = compiled[record.before]
    assert (record.after, record.order, record.ops) == (first.after, first.order, first.ops)
    assert record.after == ours + 128 * 4


def test_a_hit_without_a_record_says_so(tmp_path: Path) -> None:
    with enabled(min_gain=0):
        temporary()
    forget()
    next(tmp_path.glob(f"*/{RECORDS}")).unlink()
    with enabled(min_gain=0):
        temporary()
    assert "where it has no record of a plan" in explain()


def test_other_settings_are_another_folder(tmp_path: Path) -> None:
    with enabled(min_gain=0):
        temporary()
    with enabled(min_gain="90%"):
        temporary()
    assert [bool(x.order) for x in records()] == [True, False]
    assert len(list(tmp_path.glob("optsched-*"))) == 2


def test_modules_that_are_left_alone_are_not_told_of() -> None:
    for _ in range(2):
        with enabled(modules=["jit_other"]):
            temporary()
    assert records() == ()


def test_the_setting_is_as_before_afterwards(tmp_path: Path) -> None:
    with enabled():
        assert jax.config.jax_compilation_cache_dir != str(tmp_path)
    assert jax.config.jax_compilation_cache_dir == str(tmp_path)
    with enabled():
        use(str(tmp_path / "mine"))
    assert jax.config.jax_compilation_cache_dir == str(tmp_path / "mine")
