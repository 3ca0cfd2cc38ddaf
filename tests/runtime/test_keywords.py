"""Misspelled keywords of every public function: the nearest parameter is offered."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable
from typing import Any

import pytest

import optsched
from optsched import GraphBuilder, Limits, OptschedError, OrderRules, PackingProblem
from optsched.errors import UsageError
from optsched.fleet.settings import FleetKeywords, FleetSettings
from optsched.plugins import inductor, xla
from optsched.runtime.keywords import KeywordError, keywords
from tests.support.families.small import diamond

OWN_OPTIONS = {"read_graph", "read_module", "apply_plan", "export_plan"}
"""Functions whose further keywords are options of a file's format."""
RESULTS = {"Fit", "ModuleResult", "PackingResult", "Result"}
"""Made by this package, never by its callers."""


def misspelled() -> list[tuple[str, str]]:
    """Return each public function and class with each of its keywords."""
    rows = []
    for name in sorted(set(optsched.__all__) - OWN_OPTIONS - RESULTS):
        public = getattr(optsched, name)
        is_enum = isinstance(public, type) and issubclass(public, str | Exception)
        if not is_enum:
            parameters = inspect.signature(public).parameters.values()
            named = [p.name for p in parameters if p.kind is not p.VAR_KEYWORD]
            rows += [(name, keyword) for keyword in named if not keyword.startswith("_")]
    return rows


@pytest.mark.parametrize(("name", "keyword"), misspelled())
def test_the_nearest_keyword_is_offered(name: str, keyword: str) -> None:
    wrong = f"{keyword}x"
    with pytest.raises(KeywordError) as caught:
        getattr(optsched, name)(**{wrong: None})
    assert str(caught.value) == f"{name}() has no argument {wrong!r}: did you mean {keyword!r}?"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: GraphBuilder().op("a", read=["x"]), "GraphBuilder.op() has no argument 'read': "),
        (lambda: GraphBuilder().place("a", pins=0), "GraphBuilder.place() has no argument 'pins'"),
        (lambda: optsched.solve(diamond(), timelimit=5), "did you mean 'time_limit'?"),
        (lambda: optsched.pack(PackingProblem(), seconds=5), "pack() has no argument 'seconds'"),
        (
            lambda: optsched.tune([], "s", budgt=5),
            "tune() has no argument 'budgt': did you",
        ),
        (lambda: optsched.tune([], "s", weight={}), "did you mean 'weights'?"),
        (lambda: optsched.read_graph("g", dim={}), "'dim': did you mean 'dims'?"),
        (lambda: optsched.apply_plan("g", "p", "o", dim={}), "did you mean 'dims'?"),
        (lambda: optsched.export_plan("p", "o", to="csv", grph="g"), "did you mean 'graph'?"),
        (
            lambda: OrderRules(zzz=()),
            "OrderRules() has no argument 'zzz': known are first",
        ),
    ],
)
def test_methods_limits_and_options_too(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(OptschedError) as caught:
        call()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_plugins_too() -> None:
    for function in (inductor.enabled, inductor.options, xla.enabled):
        with pytest.raises(KeywordError, match="did you mean 'time_limit'"):
            function(timelimit=5)  # type: ignore[call-arg]


def test_it_is_a_type_error_as_pythons_own_is() -> None:
    with pytest.raises(TypeError):
        Limits(second=5)  # type: ignore[call-arg]


def test_signatures_and_pickles_are_those_of_the_function() -> None:
    assert list(inspect.signature(optsched.explain).parameters)[:2] == ["graph", "inplace"]
    assert pickle.loads(pickle.dumps(optsched.solve)) is optsched.solve
    assert FleetKeywords.__annotations__.keys() == FleetSettings.__dataclass_fields__.keys()


@keywords
def halved(value: Any, count: int) -> Any:
    return value // count


def test_an_error_within_is_not_hidden_by_the_look_at_the_arguments() -> None:
    with pytest.raises(TypeError, match="unsupported operand"):
        halved("text", 2)
    with pytest.raises(UsageError, match="count"):
        halved(4, "text")  # type: ignore[arg-type]
