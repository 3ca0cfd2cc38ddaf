"""Files that several tests of commands read."""

from __future__ import annotations

from pathlib import Path

import pytest

from optsched.formats import write_graph
from tests.support.families.small import diamond


@pytest.fixture
def graph(tmp_path: Path) -> str:
    path = tmp_path / "diamond.json"
    write_graph(diamond(), path)
    return str(path)
