"""The JSON of an exported program, read as what it is: a list of nodes and the shapes of values.

Nothing of PyTorch is needed or run. Operators are known by their names; one of a package that is
not known here could overwrite or rename tensors without the file saying so, and is refused.

References
----------
torch/_export/serde/schema.py, version 8.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from optsched.errors import FormatError
from optsched.formats.fields import Record, show
from optsched.formats.fx.operators import (
    OUT_OVERLOADS,
    WITHOUT_VIEWS,
    is_out_variant,
    require_known_effects,
    writes_to,
)
from optsched.formats.fx.program import FxNode, FxProgram, TensorValue
from optsched.formats.fx.sizes import OpenSizes
from optsched.model.elements import InputPolicy

SCHEMA: Final = 8
EDGE: Final = "executorch.exir.dialects.edge._ops."
"""Prefix that ExecuTorch adds to the operators of its edge dialect."""
_STRIDED: Final = 7
_DTYPES: Final = dict(
    zip(
        (*range(1, 14), *range(28, 36)),
        (
            *(("uint8", 1), ("int8", 1), ("int16", 2), ("int32", 4), ("int64", 8)),
            *(("float16", 2), ("float32", 4), ("float64", 8), ("complex32", 4)),
            *(("complex64", 8), ("complex128", 16), ("bool", 1), ("bfloat16", 2), ("uint16", 2)),
            *(("float8_e4m3fn", 1), ("float8_e5m2", 1), ("float8_e4m3fnuz", 1)),
            *(("float8_e5m2fnuz", 1), ("float8_e8m0fnu", 1), ("uint32", 4), ("uint64", 8)),
        ),
        strict=True,
    )
)
"""Name and bytes of an element by the number of its type."""
_SCALARS: Final = ("as_bool", "as_int", "as_float", "as_string", "as_scalar_type")
_CONSTANTS: Final = ("parameter", "buffer", "tensor_constant")


def read_program(document: Mapping[str, Any], dims: Mapping[str, int]) -> FxProgram:
    """Make a program of its JSON, with numbers for sizes that it leaves open.

    It raises `FormatError` if a field is missing or of the wrong type, the version is another one,
    a size stays open, or what an operator does to its arguments is not known; `UsageError` if a
    number is given for a size that the program does not have.
    """
    top = Record(document, "exported program")
    module = _module(top)
    sizes = OpenSizes(dims)
    graph = Record(module.mapping("graph"), "graph")
    inputs = _input_policies(Record(module.mapping("signature"), "signature"))
    # Inputs first: symbols are often named after an input's axis.
    for name in inputs:
        sizes.take_input(name, _input_axes(graph, name))
    ranges = top.mapping("range_constraints", {})
    sizes.declare({name: _range(Record(x, f"range of {name}")) for name, x in ranges.items()})
    return _GraphReader(graph, sizes).read(inputs)


def read_targets(document: Mapping[str, Any]) -> list[str]:
    """Return what the nodes of a program call, as the file has it."""
    module = _module(Record(document, "exported program"))
    nodes = Record(module.mapping("graph"), "graph").items("nodes")
    return [Record(x, f"node number {i}").text("target") for i, x in enumerate(nodes)]


def _module(top: Record) -> Record:
    major = Record(top.mapping("schema_version"), "schema_version").count("major")
    # Another major version may have other meanings of the same keys.
    if major != SCHEMA:
        raise FormatError(f"schema version {major} of torch.export; this optsched reads {SCHEMA}")
    return Record(top.mapping("graph_module"), "graph_module")


def _input_policies(signature: Record) -> dict[str, InputPolicy]:
    """Return by input tensor whether the graph counts its bytes: constants, and the caller's."""
    found: dict[str, InputPolicy] = {}
    for value in signature.items("input_specs"):
        kind, spec = _only(value, "input_specs")
        # Parameters and buffers belong to the module: they are there before and after.
        if kind in _CONSTANTS:
            for name in _tensors({"as_tensor": Record(spec, kind).mapping("arg")}):
                found[name] = InputPolicy.CONSTANT
        elif kind == "user_input":
            for name in _tensors(Record(spec, kind).mapping("arg")):
                found[name] = InputPolicy.EXCLUDED
    return found


def _input_axes(graph: Record, name: str) -> list[str | int]:
    """Return the sizes of an input as they stand in the file."""
    meta = graph.mapping("tensor_values").get(name)
    sizes = [] if meta is None else Record(meta, f"tensor {name}").items("sizes")
    return [_size(x, f"sizes of {name}")[0] for x in sizes]


def _range(record: Record) -> tuple[int | None, int | None]:
    bounds = [record.value.get(key) for key in ("min_val", "max_val")]
    least, most = (x if type(x) is int else None for x in bounds)
    return least, most


@dataclass
class _Arguments:
    """Arguments of a node: tensors and settings by name, values without bytes, graphs."""

    tensors: dict[str, tuple[str, ...]] = field(default_factory=dict)
    settings: dict[str, object] = field(default_factory=dict)
    scalars: list[str] = field(default_factory=list)
    bodies: list[FxProgram] = field(default_factory=list)


@dataclass
class _GraphReader:
    """Reader of a graph of the file, which collects its tensors and nodes into a program."""

    graph: Record
    sizes: OpenSizes
    values: dict[str, TensorValue] = field(default_factory=dict)

    def read(self, inputs: Mapping[str, InputPolicy]) -> FxProgram:
        for name in inputs:
            self._value(name)
        nodes = tuple(self._node(x, i) for i, x in enumerate(self.graph.items("nodes")))
        outputs = [name for x in self.graph.items("outputs") for name in _tensors(x)]
        for name in outputs:
            self._value(name)
        return FxProgram(inputs, nodes, tuple(dict.fromkeys(outputs)), self.values)

    def _node(self, value: object, position: int) -> FxNode:
        record = Record(value, f"node number {position}")
        # Two prefixes of one operator: the edge dialect and torch.export.
        operator = record.text("target").removeprefix(EDGE).removeprefix("torch.ops.")
        outputs = record.items("outputs")
        made = tuple(name for x in outputs for name in _tensors(x))
        name = record.text("name") if record.has("name") else next(iter(made), f"{position}")
        # Messages name the op from here on, not its number.
        record.where = f"op {show(name)}"
        given = self._arguments(record)
        _require_known(operator, len(made), given.tensors, record.where)
        for tensor in (*made, *(x for names in given.tensors.values() for x in names)):
            self._value(tensor)
        written = writes_to(operator, list(given.tensors), given.settings)
        return FxNode(
            name,
            operator,
            given.tensors,
            given.settings,
            made,
            takes=tuple(given.scalars),
            gives=tuple(x for output in outputs for x in _scalars(output)),
            overwrites=tuple(x for key in written for x in given.tensors[key]),
            bodies=tuple(given.bodies),
        )

    def _arguments(self, record: Record) -> _Arguments:
        found = _Arguments()
        for i, given in enumerate(record.items("inputs")):
            entry = Record(given, f"{record.where}, argument {i}")
            key, argument = entry.text("name", "") or str(i), entry.mapping("arg")
            kind, content = _only(argument, entry.where)
            # A computed value is among the scalars below, not among the settings.
            if kind in _SCALARS:
                found.settings[key] = content
            elif kind == "as_graph":
                found.bodies.append(self._body(content, record.where))
            elif names := tuple(_tensors(argument)):
                found.tensors[key] = names
            found.scalars += _scalars(argument)
        return found

    def _body(self, value: object, where: str) -> FxProgram:
        record = Record(value, f"{where}: a graph that it runs")
        inner = Record(record.mapping("graph"), record.where)
        names = [name for x in inner.items("inputs") for name in _tensors(x)]
        policies = dict.fromkeys(names, InputPolicy.EXCLUDED)
        try:
            return _GraphReader(inner, self.sizes).read(policies)
        # The reader calls itself for each level of graphs.
        except RecursionError:
            raise FormatError(f"{where}: graphs within graphs are nested too deeply") from None

    def _value(self, name: str) -> None:
        """Note a tensor's shape, unless it is known; the file has it by the tensor's name."""
        if name in self.values:
            return
        label = f"tensor {show(name)}"
        known = self.graph.mapping("tensor_values")
        if name not in known:
            raise FormatError(f"{label} has no entry in tensor_values")
        meta = Record(known[name], label)
        number = meta.count("dtype")
        if number not in _DTYPES:
            # Elements of fewer than 8 bits and quantized ones are packed in ways the file does not
            # say.
            raise FormatError(f"{label}: elements of type {number} have no known size")
        if meta.count("layout") != _STRIDED:
            raise FormatError(f"{label} is of a layout (sparse, say) whose bytes are not known")
        dtype, item = _DTYPES[number]
        device = Record(meta.mapping("device"), label)
        index = device.value.get("index")
        sizes, strides = self._numbers(meta, "sizes"), self._numbers(meta, "strides")
        if len(sizes) != len(strides):
            raise FormatError(f"{label} has {len(sizes)} sizes and {len(strides)} strides")
        offset = self._number(meta.mapping("storage_offset"), f"{label}: its storage offset")
        place = device.text("type") + ("" if index is None else f":{index}")
        self.values[name] = TensorValue(sizes, strides, offset, dtype, item, place)

    def _numbers(self, meta: Record, key: str) -> tuple[int, ...]:
        what = "dimension" if key == "sizes" else "stride"
        return tuple(
            self._number(x, f"{meta.where}: its {what} {axis}")
            for axis, x in enumerate(meta.items(key))
        )

    def _number(self, value: object, what: str) -> int:
        size, hint = _size(value, what)
        return self.sizes.number(size, what, hint)


def _require_known(operator: str, results: int, arguments: Collection[str], where: str) -> None:
    require_known_effects(operator, where)
    package, _, overload = (*operator.split("."), "", "")[:3]
    unnamed = is_out_variant(overload) and (results > 1 or "out" not in arguments)
    if package == "aten" and (overload in OUT_OVERLOADS or unnamed):
        # The name of the written argument is not in our tables.
        raise FormatError(f"{where} ({operator}) writes into arguments that are not called out")
    if package not in WITHOUT_VIEWS:
        raise FormatError(
            f"{where}: whether operators of {show(package)} overwrite their arguments is not in "
            "the file; read the live program with optsched.from_fx, which sees their schemas"
        )


def _only(value: object, where: str) -> tuple[str, Any]:
    """Return key and value of a union: an object with one key that counts."""
    record = Record(value, where)
    # A union is written as an object with the kind as its only key.
    if len(record.value) != 1:
        raise FormatError(f"{where}: expected an object with one key, got {show(value)}")
    return next(iter(record.value.items()))


def _size(value: object, what: str) -> tuple[str | int, int | None]:
    """Return a size, or its expression and what that was when the program was exported."""
    kind, content = _only(value, what)
    if kind == "as_int" and type(content) is int:
        return content, None
    if kind != "as_expr":
        raise FormatError(f"{what} must be a number or an expression, got {show(value)}")
    expression = Record(content, what)
    hint = expression.mapping("hint").get("as_int") if expression.has("hint") else None
    return expression.text("expr_str"), hint if type(hint) is int else None


def _tensors(value: object) -> Iterator[str]:
    """Yield the tensors that an argument names, in order, from lists nested at any depth."""
    kind, content = _only(value, "argument")
    if kind == "as_tensor":
        yield Record(content, "as_tensor").text("name")
    elif kind == "as_optional_tensor":
        yield from _tensors(content)
    elif kind in ("as_tensors", "as_nested_tensors", "as_optional_tensors"):
        for entry in Record({kind: content}, "argument").items(kind):
            if isinstance(entry, list):
                yield from (Record(x, kind).text("name") for x in entry)
            elif kind == "as_optional_tensors":
                yield from _tensors(entry)
            else:
                yield Record(entry, kind).text("name")
    elif kind == "as_string_to_argument":
        for entry in Record(content, kind).value.values():
            yield from _tensors(entry)


def _scalars(value: object) -> Iterator[str]:
    """Yield the values without bytes that an argument names: sizes, flags, objects."""
    kind, content = _only(value, "argument")
    if kind in ("as_sym_int", "as_sym_float", "as_sym_bool"):
        found = Record(content, kind).value.get("as_name")
        if isinstance(found, str):
            yield found
    elif kind in ("as_sym_ints", "as_sym_floats", "as_sym_bools"):
        for entry in Record({kind: content}, "argument").items(kind):
            yield from _scalars({kind[:-1]: entry})
    elif kind in ("as_custom_obj", "as_token"):
        yield Record(content, kind).text("name")
