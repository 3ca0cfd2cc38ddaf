"""Every test that asks for `form` runs twice: with the Python twins and with compiled kernels."""

from __future__ import annotations

import pytest

from optsched.runtime.kernel import Kernel


@pytest.fixture(params=["twin", "compiled"])
def form(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "twin":
        monkeypatch.setattr(Kernel, "for_work", lambda self, elements: self)
    else:
        monkeypatch.setattr(Kernel, "for_work", lambda self, elements: self.compiled)
    return str(request.param)
