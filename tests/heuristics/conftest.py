"""Every test that asks for `form` runs twice: with reference implementations and compiled."""

from __future__ import annotations

import pytest

from optsched.runtime import kernel as kernels


@pytest.fixture(params=["reference", "compiled"])
def form(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    forms = {"reference": kernels.reference_form, "compiled": kernels.compiled_form}
    monkeypatch.setattr(kernels.policy, "force", forms[request.param])
    return str(request.param)
