"""The code of pages and docstrings that needs a framework, where frameworks are installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from optsched.plugins import forget
from tests.support.documents import MODULES_THAT_NEED, blocks_of, pages
from tests.support.run_documents import run_module_examples, run_page


@pytest.fixture(autouse=True)
def _nothing_was_compiled_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "inductor"))
    torch._dynamo.reset()
    forget()


FRAMEWORKS = {"executorch", "jax", "onnx", "tflite", "torch"}
PAGES = {page: {block.needs for block in blocks_of(page)} & FRAMEWORKS for page in pages()}


@pytest.mark.parametrize(
    ("page", "extra"), [(page, extra) for page in PAGES for extra in sorted(PAGES[page])]
)
def test_the_code_of_a_page_runs(page: str, extra: str, tmp_path: Path) -> None:
    run_page(page, tmp_path, {extra})


@pytest.mark.parametrize("name", sorted(MODULES_THAT_NEED))
def test_the_examples_of_docstrings_run(name: str) -> None:
    run_module_examples(name)


def test_every_extra_that_a_block_needs_is_one_that_is_tested() -> None:
    needs = {block.needs for page in pages() for block in blocks_of(page)}
    assert needs <= FRAMEWORKS | {"", "report"}
