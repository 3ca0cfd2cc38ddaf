"""Examples of the documentation that need a framework."""

from __future__ import annotations

from pathlib import Path

import pytest

from optsched.plugins import forget
from tests.support.examples import EXAMPLES, NEEDS, kept_by, printed_by


@pytest.mark.parametrize("name", sorted(NEEDS))
def test_an_example_prints_what_is_kept(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "inductor"))
    torch._dynamo.reset()
    forget()
    example = EXAMPLES / f"{name}.py"
    assert printed_by(example) == kept_by(example)
