"""Answers that are kept for later processes: for equal graphs and settings, and no others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install '.[torch]'")

from torch._inductor import config  # noqa: E402
from torch._inductor.runtime.runtime_utils import cache_dir  # noqa: E402
from torch._inductor.utils import fresh_cache  # noqa: E402

from optsched.plugins.inductor.recompute import step_file  # noqa: E402
from optsched.plugins.inductor.recompute.joint_step import PeakSettings  # noqa: E402

SETTINGS = PeakSettings(100, 1.0)


@pytest.fixture(autouse=True)
def kept() -> Iterator[None]:
    """An answer that is kept in a cache of its own."""
    with fresh_cache(), config.patch(force_disable_caches=False):
        step_file.write_answer(SETTINGS, "graph", [1, "text", None])
        yield


def test_an_answer_is_for_equal_graphs_and_settings() -> None:
    assert step_file.read_answer(SETTINGS, "graph") == [1, "text", None]
    assert step_file.read_answer(SETTINGS, "another graph") is None
    assert step_file.read_answer(PeakSettings(101, 1.0), "graph") is None
    # Other kernels, and so other bytes.
    with config.patch(max_fusion_size=3):
        assert step_file.read_answer(SETTINGS, "graph") is None
    # The pass that orders nodes leaves these as an earlier graph needed them.
    with config.patch(allow_buffer_reuse=not config.allow_buffer_reuse):
        assert step_file.read_answer(SETTINGS, "graph") == [1, "text", None]


def test_without_pytorchs_caches_nothing_is_kept() -> None:
    with config.patch(force_disable_caches=True):
        assert step_file.read_answer(SETTINGS, "graph") is None
        step_file.write_answer(SETTINGS, "graph", [2])
    assert step_file.read_answer(SETTINGS, "graph") == [1, "text", None]


def test_a_damaged_file_is_no_answer() -> None:
    (path,) = Path(cache_dir(), "optsched").iterdir()
    path.write_text("[1, ")
    assert step_file.read_answer(SETTINGS, "graph") is None
    assert not step_file.read_splits(SETTINGS).chosen
