"""A distributed program of eight processes: only one of them exists."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from optsched import plugins


@pytest.fixture
def mesh() -> Iterator[Any]:
    """A mesh of eight ranks. Only this one exists, and collectives do nothing."""
    torch = pytest.importorskip("torch", reason="needs torch: pip install '.[torch]'")
    from torch import distributed
    from torch.distributed.device_mesh import init_device_mesh
    from torch.testing._internal.distributed.fake_pg import FakeStore

    torch._dynamo.reset()
    plugins.forget()
    distributed.init_process_group("fake", rank=0, world_size=8, store=FakeStore())
    yield init_device_mesh("cpu", (8,))
    distributed.destroy_process_group()
