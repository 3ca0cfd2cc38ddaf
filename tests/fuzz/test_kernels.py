"""A small sample of what `make nightly` compares on a thousand graphs."""

from __future__ import annotations

from typing import Any

import pytest

from optsched.runtime import kernel as kernels
from optsched.runtime.kernel import Kernel, inner, kernel
from tests.fuzz.kernels import Comparison, DisagreementError, Form, compare, is_same, plain_form


def plain_if_small(kernel: Kernel[..., Any]) -> Form:
    """Plain numba where that compiles in no time."""
    few = kernel.function.__name__ in ("run_reachable", "append_by_rank", "first_fit")
    return plain_form(kernel) if few else kernel.function


def test_reference_compiled_and_plain_kernels_agree_state_for_state() -> None:
    comparison = Comparison([kernels.compiled_form, plain_if_small])
    assert compare(4, 0, comparison) == 4
    assert len(comparison.calls) > 20


@inner
def one() -> int:
    return 1


@kernel
def two(n: int) -> int:
    return n + one() + one()


def test_a_form_that_does_something_else_is_found() -> None:
    assert plain_form(two)(3) == 5
    wrong = Comparison([lambda kernel: lambda n: 6])
    with pytest.raises(DisagreementError):
        wrong(two)(3)
    assert not is_same((1, 2), (1, 3))
