"""The JSON Schemas of our formats, as they lie in the package.

That of certificates has an entry for each kind of step, made of the step's class by
`python -m tests.support.schemas`; a test compares them.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
from importlib.resources import files
from typing import Any, cast, get_type_hints

from optsched.check.certificate import Step
from optsched.check.network import Forced
from optsched.check.steps import STEPS, Blocks, Column, OpFlows, OpId, OpIds, OpRows, States

PLACE = {"$ref": "#/$defs/place"}


def schema_file(name: str) -> Any:
    return files("optsched.formats").joinpath("schemas", f"{name}.schema.json")


def schema(name: str) -> dict[str, Any]:
    """Return the schema of a format: `"graph-1"`, `"plan-1"`, `"packing-1"` and so on."""
    found: dict[str, Any] = json.loads(schema_file(name).read_text("utf-8"))
    return found


def array(items: object, **more: object) -> dict[str, object]:
    return {"type": "array", "items": items, **more}


FIELDS: dict[object, dict[str, object]] = {
    bool: {"type": "boolean"},
    OpId: PLACE,
    OpIds: array(PLACE, minItems=1),
    OpRows: array(array(PLACE, minItems=1), minItems=1),
    Blocks: array(array(PLACE, minItems=1), minItems=2),
    Column: PLACE,
    States: array(array(PLACE, minItems=2, maxItems=2)),
    OpFlows: array(
        {
            "type": "object",
            "$ref": "#/$defs/forced",
            "required": ["op"],
            "unevaluatedProperties": False,
            "properties": {"op": PLACE},
        }
    ),
}
"""Schema of a field by its type; a flow is part of its step."""
OPTIONAL, FORMER = {"column"}, {"column": "line"}


def step_schema(make: type[Step]) -> dict[str, object]:
    """Return the schema of one class of steps."""
    types = get_type_hints(make, include_extras=True)
    names = [field.name for field in dataclasses.fields(cast(Any, make))]
    kinds = [kind for kind, *_ in make.kinds]
    rest = {name: types[name] for name in names[len(make.kinds[0]) - 1 :]}
    flow = Forced in rest.values()
    fields = {name: FIELDS[kind] for name, kind in rest.items() if kind != Forced}
    former = {FORMER[name]: fields[name] for name in fields if name in FORMER}
    return {
        "description": (inspect.getdoc(make) or "").partition("\n")[0],
        "type": "object",
        **({"$ref": "#/$defs/forced"} if flow else {}),
        "required": ["kind", *(name for name in fields if name not in OPTIONAL)],
        "unevaluatedProperties" if flow else "additionalProperties": False,
        "properties": {"kind": {"enum": kinds}, **fields, **former},
    }


def certificate_schema() -> dict[str, Any]:
    """Return the schema of certificates with the steps as their classes have them."""
    found = schema("certificate-1")
    kept = ("place", "names", "flow", "forced", "case")
    steps = {make.__name__: step_schema(make) for make in STEPS}
    found["$defs"] = {name: found["$defs"][name] for name in kept} | steps
    found["properties"]["steps"]["items"]["oneOf"] = [{"$ref": f"#/$defs/{name}"} for name in steps]
    return found


if __name__ == "__main__":
    text = json.dumps(certificate_schema(), indent=2, ensure_ascii=False)
    schema_file("certificate-1").write_text(text + "\n", "utf-8")
