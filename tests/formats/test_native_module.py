"""Modules and their plans as files: no loss, and one line for what is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jsonschema import Draft202012Validator
from referencing import Registry

from optsched import read_graph, read_module, solve_module, write_module
from optsched.errors import FormatError, GraphError, OptschedError, PlanError, UsageError
from optsched.formats import read_module_plan, write_module_plan
from optsched.formats.export import export_plan
from optsched.formats.native_module import module_document, read_module_document
from optsched.model.module import listed_graph
from optsched.reports.module import module_claims
from tests.solver.test_module import nested
from tests.support.module_oracle import random_module
from tests.support.schemas import schema


def test_a_module_is_written_and_read_without_loss(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for number in range(50):
        module = random_module(rng, inside=number % 2 == 1)
        assert read_module_document(json.loads(json.dumps(module_document(module)))) == module
    write_module(module, tmp_path / "m.json.gz")
    assert read_module(tmp_path / "m.json.gz") == module
    assert read_graph(tmp_path / "m.json.gz") == listed_graph(module)


def test_a_file_of_one_graph_is_a_module_without_calls(tmp_path: Path) -> None:
    from optsched import write_graph

    graph = nested().graphs["wide"]
    write_graph(graph, tmp_path / "g.json")
    module = read_module(tmp_path / "g.json")
    assert (module.graphs, module.calls) == ({"wide": graph}, ())


def test_a_plan_is_written_and_read_without_loss(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    for _ in range(10):
        module = random_module(rng)
        found = solve_module(module)
        assert found.plans is not None
        write_module_plan(found.plans, tmp_path / "p.json", module, module_claims(found))
        plans, claims = read_module_plan(tmp_path / "p.json", module)
        assert plans == found.plans
        assert claims[module.entry]["peak"] == found.entry.peak
        assert claims[module.entry]["slab_bound"] == found.entry.slab_bound


def test_files_are_as_their_schemas_have_them(tmp_path: Path) -> None:
    known = {name: schema(name) for name in ("plan-1", "module-1", "module-plan-1")}
    store = Registry().with_contents((x["$id"], x) for x in known.values())
    module = nested()
    found = solve_module(module)
    write_module_plan(found.plans or {}, tmp_path / "p.json", module, module_claims(found))
    plan = json.loads((tmp_path / "p.json").read_text())
    for name, value in (("module-1", document()), ("module-plan-1", plan)):
        Draft202012Validator.check_schema(known[name])
        validator = Draft202012Validator(known[name], registry=store)
        assert not list(validator.iter_errors(value))
        assert list(validator.iter_errors({**value, "extra": 1}))


def document(**changes: Any) -> dict[str, Any]:
    made = json.loads(json.dumps(module_document(nested())))
    made.update(changes)
    return {key: value for key, value in made.items() if value is not None}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": "optsched-module/2"}, "format"),
        ({"entry": None}, "module: entry is missing"),
        ({"entry": "none"}, "its entry is computation 'none', which the module does not have"),
        ({"extra": 1}, "unknown key 'extra'"),
        ({"computations": {"main": 3}}, "computation 'main': expected an object, got 3"),
        ({"computations": {"main": {"ops": []}}}, "computation 'main': graph: buffers is missing"),
        ({"calls": [3]}, "call number 0: expected an object"),
        ({"calls": [{"computation": "main", "op": "op0"}]}, "call number 0: calls is missing"),
        (
            {"calls": [{"computation": "wide", "op": "big", "calls": ["wide"]}]},
            "computations call each other in a cycle: 'wide' -> 'wide'",
        ),
    ],
)
def test_a_file_that_is_wrong_is_refused_in_a_line(changes: dict[str, Any], message: str) -> None:
    with pytest.raises((FormatError, GraphError), match=message) as caught:
        read_module_document(document(**changes))
    assert "\n" not in str(caught.value)


def test_a_plan_of_something_else_is_refused(tmp_path: Path) -> None:
    found = solve_module(nested())
    path = tmp_path / "plan.json"
    write_module_plan(found.plans or {}, path, found.module, module_claims(found))
    good = json.loads(path.read_text())
    wrong: list[tuple[dict[str, Any], str]] = [
        ({**good, "module": "other"}, "plan is of module 'other', this is 'nested'"),
        ({**good, "computations": {}}, "computation .* has no plan"),
        (
            {**good, "computations": {"x": {}}},
            "plan of computation 'x', which is not in module 'nested'",
        ),
        ({**good, "more": 1}, "unknown key 'more'"),
    ]
    row = good["computations"]["wide"]
    broken = {**good["computations"], "wide": {**row, "order": ["none"]}}
    wrong.append(({**good, "computations": broken}, "computation 'wide': plan names op 'none'"))
    huge = {**good["computations"], "wide": {**row, "offsets": {**row["offsets"], "b": 2**62}}}
    wrong.append(({**good, "computations": huge}, r"above the limit of 2\*\*62 bytes"))
    for value, message in wrong:
        path.write_text(json.dumps(value))
        with pytest.raises(OptschedError, match=message) as caught:
            read_module_plan(path, found.module)
        assert str(caught.value).startswith(str(path))


def test_a_computation_of_a_plan_is_exported(tmp_path: Path) -> None:
    module = nested()
    found = solve_module(module)
    plan, model, out = (tmp_path / name for name in ("plan.json", "module.json", "out.csv"))
    write_module(module, model)
    write_module_plan(found.plans or {}, plan, module, module_claims(found))
    whole = export_plan(plan, out, to="csv", graph=model)
    assert whole.graph == "main"
    assert "op1.workspace" in out.read_text()
    assert export_plan(plan, out, to="csv", graph=model, computation="wide").slabs == {"": 9}
    with pytest.raises(UsageError, match="has no computation 'none'"):
        export_plan(plan, out, to="csv", graph=model, computation="none")
    with pytest.raises(UsageError, match="give the module's file as well"):
        export_plan(plan, out, to="csv")
    text = plan.read_text().replace('"slab": 9', '"slab": 8')
    plan.write_text(text)
    with pytest.raises(PlanError, match="claims a slab of 8 bytes, the replay gives 9"):
        export_plan(plan, out, to="csv", graph=model)
