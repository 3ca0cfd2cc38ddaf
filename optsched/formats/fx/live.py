"""Live programs of PyTorch: what their nodes carry as fake tensors, under `meta["val"]`.

Torch is imported inside. Nodes of a graph that was never traced carry nothing: it is traced here
with fake tensors of the shapes of example inputs, which computes nothing.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from optsched.errors import FormatError, MissingDependencyError, UsageError
from optsched.formats.fields import show
from optsched.formats.fx.graph import MEMORY_MODEL, build_graph
from optsched.formats.fx.operators import require_known_effects, writes_to
from optsched.formats.fx.program import FxNode, FxProgram, TensorValue
from optsched.formats.fx.saved import find_saved
from optsched.formats.fx.schema import (
    draws_random_numbers,
    named_arguments,
    operator_name,
    results_of,
    returns_something,
    viewed_tensor,
    written_arguments,
)
from optsched.formats.fx.sizes import OpenSizes
from optsched.model.elements import InputPolicy
from optsched.model.graph import Graph
from optsched.model.origin import Origin
from optsched.runtime.keywords import keywords


@keywords
def from_fx(
    program: Any,
    example_inputs: Sequence[Any] | None = None,
    *,
    name: str = "",
    dims: Mapping[str, int] | None = None,
    inputs: InputPolicy | str | None = None,
) -> Graph:
    """Return the graph of a live PyTorch program; each op is a node that calls something.

    Parameters
    ----------
    program
        A `torch.fx.GraphModule` (as `torch.compile` passes to a backend, or a joint, forward or
        backward graph of AOTAutograd), an `ExportedProgram`, or ExecuTorch's edge program.
    example_inputs
        Tensors of the shapes to plan for; required if the nodes have no shapes.
    name
        Name of the graph.
    dims
        Values of sizes that the program leaves open, by symbol or as `INPUT.AXIS`.
    inputs
        Policy for the bytes of inputs. By default, the caller keeps them, except that tensors saved
        by a forward graph are freed after their last use in the backward graph.

    Returns
    -------
    Graph
        Graph in which a buffer is a storage, with its size in bytes.

    Raises
    ------
    FormatError
        If a node has no shape, or the effect of its operator is unknown; the message names the
        node.
    MissingDependencyError
        If PyTorch is not installed.
    UsageError
        If `program` is not a program, or the policy is unknown.

    Examples
    --------
    >>> import torch
    >>> program = torch.export.export(torch.nn.Linear(64, 8), (torch.randn(32, 64),))
    >>> from_fx(program, name="layer").buffers[-1].size
    1024
    """
    found = read_module(program, example_inputs, dims=dims, inputs=inputs)
    # A backward graph frees what the forward graph saved for it.
    saves = InputPolicy.FREED in found.inputs.values()
    model = MEMORY_MODEL.replace("inputs", "saved tensors freed, inputs") if saves else MEMORY_MODEL
    graph: Graph = build_graph(
        found, name or str(getattr(program, "_name", "") or "graph"), model=model
    )
    return graph.read_from(Origin("pt2", {"fx": tuple(range(len(graph.ops)))}))


def read_module(
    program: Any,
    example_inputs: Sequence[Any] | None = None,
    *,
    dims: Mapping[str, int] | None = None,
    inputs: InputPolicy | str | None = None,
) -> FxProgram:
    """Return what the nodes of a live program carry; arguments are those of :func:`from_fx`."""
    module, signature = _module_of(program)
    # Asked for by name, so that a wrong one gets the list.
    try:
        policy = None if inputs is None else InputPolicy(inputs)
    except ValueError:
        raise UsageError(
            f"inputs must be one of {', '.join(InputPolicy)}, got {inputs!r}"
        ) from None
    # A module that was never traced.
    if not _carries_shapes(module):
        if example_inputs is None:
            raise UsageError("nodes have no shapes; give example_inputs")
        module = _traced(module, example_inputs)
    return _ModuleReader(module, OpenSizes(dims or {}), signature, policy).read()


def _module_of(program: Any) -> tuple[Any, Any]:
    """Return the graph module of a program, and its signature if it has one."""
    try:
        import torch
    except ModuleNotFoundError:
        raise MissingDependencyError("torch", "torch") from None
    if hasattr(program, "exported_program"):
        program = program.exported_program()
    if hasattr(program, "graph_signature") and hasattr(program, "graph_module"):
        return program.graph_module, program.graph_signature
    if isinstance(program, torch.fx.GraphModule):
        return program, None
    raise UsageError(
        f"a GraphModule or an ExportedProgram is wanted, not a {type(program).__name__}: "
        "torch.export.export(module, inputs) makes one of a module"
    )


def _carries_shapes(module: Any) -> bool:
    for node in module.graph.nodes:
        if node.op in ("call_module", "call_method"):
            # A module or method call hides any number of operators.
            return False
        if "val" not in node.meta and (node.op == "placeholder" or returns_something(node)):
            return False
    return True


def _traced(module: Any, example_inputs: Sequence[Any]) -> Any:
    """Return the module's operators, found by a run on fake tensors."""
    from torch._guards import tracing
    from torch._subclasses import FakeTensorMode
    from torch.fx.experimental.proxy_tensor import make_fx

    # A mode of our own: that of a torch.compile around us would take sizes for open ones.
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    try:
        # Outside of a running compilation, whose settings would apply.
        with tracing(None):
            given = [_twin(x, mode) if _is_tensor(x) else x for x in example_inputs]
            return make_fx(module, tracing_mode="real", _allow_non_fake_inputs=True)(*given)
    except Exception as error:
        first = str(error).strip().partition("\n")[0]
        raise FormatError(f"cannot trace the program with these inputs: {first}") from None


def _twin(tensor: Any, mode: Any) -> Any:
    """Return a fake tensor of another one's shape; open sizes are replaced by their hints."""
    import torch

    sizes, strides = (
        [x if (hint := _hint(x)) is None else hint for x in given]
        for given in (tensor.shape, tensor.stride())
    )
    with mode:
        return torch.empty_strided(sizes, strides, dtype=tensor.dtype, device=tensor.device)


@dataclass
class _ModuleReader:
    """Reader of a graph module, which collects its tensors and nodes into a program."""

    module: Any
    sizes: OpenSizes
    signature: Any = None
    policy: InputPolicy | None = None
    values: dict[str, TensorValue] = field(default_factory=dict)
    names: dict[Any, Any] = field(default_factory=dict)
    inputs: dict[str, InputPolicy] = field(default_factory=dict)
    makers: dict[Any, str] = field(default_factory=dict)

    def read(self) -> FxProgram:
        nodes = list(self.module.graph.nodes)
        # Inputs first, as in the file: symbols are declared before any size is asked.
        self._take_inputs([node for node in nodes if node.op == "placeholder"])
        found: list[FxNode] = []
        outputs: tuple[str, ...] = ()
        for node in nodes:
            if node.op == "get_attr":
                self._take_attribute(node)
            elif node.op == "call_function" and node.target is operator.getitem:
                self._take_item(node)
            elif node.op == "call_function":
                found.append(self._node(node))
            elif node.op == "output":
                outputs = tuple(dict.fromkeys(self._tensors(node.args)))
        return FxProgram(self.inputs, tuple(found), outputs, self.values)

    def _take_inputs(self, nodes: Sequence[Any]) -> None:
        constant: set[str] = set()
        # All that the signature says the module holds.
        if self.signature is not None:
            for kind in ("parameters", "buffers", "lifted_tensor_constants"):
                constant.update(getattr(self.signature, f"inputs_to_{kind}", {}))
        for node in nodes:
            value = node.meta.get("val")
            if _is_tensor(value):
                self.sizes.take_input(node.name, [_expression(x) for x in value.shape])
        self.sizes.declare(_ranges(self.module.graph.nodes))
        # A program with a signature was not split.
        saved = find_saved(nodes) if self.signature is None else set()
        for node in nodes:
            value = node.meta.get("val")
            self.names[node] = self._name(node, value)
            for name in _flat(self.names[node]):
                kind = InputPolicy.FREED if node in saved else InputPolicy.EXCLUDED
                self.inputs[name] = self.policy or kind
                if node.name in constant:
                    self.inputs[name] = InputPolicy.CONSTANT

    def _take_attribute(self, node: Any) -> None:
        """Take a tensor that the module holds; other modules are the bodies of nodes."""
        held = self._held(node)
        if _is_tensor(held):
            self.names[node] = self._name(node, node.meta.get("val", held))
            self.inputs[self.names[node]] = InputPolicy.CONSTANT

    def _held(self, node: Any) -> Any:
        held = self.module
        for part in str(node.target).split("."):
            held = getattr(held, part, None)
        return held

    def _take_item(self, node: Any) -> None:
        """Name a part of a node's results after the `getitem` node that takes it out."""
        source, key = node.args
        parts = self.names.get(source)
        if isinstance(parts, list) and isinstance(key, int) and -len(parts) <= key < len(parts):
            self.names[node] = parts[key]
        elif _is_tensor(node.meta.get("val")):
            raise FormatError(
                f"op {node.name!r} takes {show(key)} of a value that is not a list of tensors"
            )
        # What depends on a part waits for the node that made the whole.
        self.makers[node] = self.makers.get(source, node.name)

    def _node(self, node: Any) -> FxNode:
        target = operator_name(node.target)
        require_known_effects(target, f"op {node.name!r}")
        self.makers[node] = node.name
        self.names[node] = self._name(node, results_of(node))
        arguments: dict[str, tuple[str, ...]] = {}
        settings: dict[str, object] = {}
        inner = list(node.all_input_nodes)
        for key, given in named_arguments(node):
            if names := tuple(self._tensors(given)):
                arguments[key] = names
            elif isinstance(given, bool | int | float | str):
                settings[key] = given
        # The schema and our tables together: some schemas do not say what is written.
        written = dict.fromkeys(
            (*written_arguments(node), *writes_to(target, list(arguments), settings))
        )
        bodies = [self._held(x) for x in inner if x.op == "get_attr"]
        return FxNode(
            node.name,
            target,
            arguments,
            settings,
            tuple(_flat(self.names[node])),
            takes=tuple(self.makers[x] for x in inner if x in self.makers),
            gives=(node.name,),
            overwrites=tuple(x for key in written for x in arguments.get(key, ())),
            view_of=viewed_tensor(node, arguments),
            bodies=tuple(
                _ModuleReader(x, self.sizes).read() for x in bodies if hasattr(x, "graph")
            ),
            draws=draws_random_numbers(node),
        )

    def _name(self, node: Any, value: Any, path: str = "") -> Any:
        """Return the names of a node's results in order; None for results that are not tensors."""
        name = f"{node.name}{path}"
        if isinstance(value, tuple | list):
            # A part is known by the `getitem` that takes it, or else by its number.
            taken = {
                user.args[1]: user
                for user in reversed(node.users)
                if user.target is operator.getitem and user.args[0] is node
            }
            return [
                self._name(taken[i], x)
                if i in taken and not isinstance(x, tuple | list)
                else self._name(taken.get(i, node), x, "" if i in taken else f"{path}.{i}")
                for i, x in enumerate(value)
            ]
        if not _is_tensor(value):
            return None
        self.values[name] = self._value(name, value)
        return name

    def _value(self, name: str, value: Any) -> TensorValue:
        label = f"tensor {show(name)}"
        if str(value.layout) != "torch.strided":
            raise FormatError(f"{label} is of layout {value.layout}, whose bytes are not known")

        def numbers(given: Sequence[Any], what: str) -> tuple[int, ...]:
            named = [(f"{label}: its {what} {i}", x) for i, x in enumerate(given)]
            return tuple(self.sizes.number(_expression(x), text, _hint(x)) for text, x in named)

        (offset,) = numbers([value.storage_offset()], "storage offset")
        storage = value.untyped_storage()
        total = storage.nbytes()
        return TensorValue(
            numbers(value.shape, "dimension"),
            numbers(value.stride(), "stride"),
            offset,
            str(value.dtype).removeprefix("torch."),
            value.dtype.itemsize,
            str(value.device),
            # The address of the storage: two tensors with the same one share their bytes.
            storage=storage._cdata,
            storage_bytes=total if isinstance(total, int) else None,
        )

    def _tensors(self, given: Any) -> Iterator[str]:
        for node in _nodes(given):
            yield from _flat(self.names.get(node))


def _nodes(given: Any) -> Iterator[Any]:
    """Yield the nodes in an argument, from lists nested at any depth."""
    if isinstance(given, tuple | list):
        for each in given:
            yield from _nodes(each)
    elif isinstance(given, Mapping):
        yield from _nodes(list(given.values()))
    elif hasattr(given, "all_input_nodes"):
        yield given


def _flat(names: Any) -> Iterator[str]:
    return (name for name in _listed(names) if name is not None)


def _is_tensor(value: Any) -> bool:
    import torch

    return isinstance(value, torch.Tensor)


def _expression(size: Any) -> str | int:
    """Return a size as a number, or the text by which SymPy represents it."""
    if isinstance(size, int):
        return size
    import sympy

    return str(sympy.srepr(size.node.expr))


def _hint(size: Any) -> int | None:
    hint = None if isinstance(size, int) else size.node.hint
    return int(hint) if isinstance(hint, int) else None


def _ranges(nodes: Sequence[Any]) -> dict[str, tuple[int | None, int | None]]:
    """Return the symbols of all sizes, with the least and the largest number of each."""
    found: dict[str, tuple[int | None, int | None]] = {}
    listed = (value for node in nodes for value in _listed(node.meta.get("val")))
    sizes = (size for value in listed if _is_tensor(value) for size in value.shape)
    for size in (size for size in sizes if not isinstance(size, int)):
        ranges = size.node.shape_env.var_to_range
        for symbol in size.node.expr.free_symbols:
            bounds = ranges.get(symbol)
            ends = (None, None) if bounds is None else (bounds.lower, bounds.upper)
            # SymPy's integers and infinities: only the former are numbers for us.
            least, most = (int(x) if x is not None and x.is_Integer else None for x in ends)
            found[symbol.name] = least, most
    return found


def _listed(value: Any) -> Iterator[Any]:
    if isinstance(value, tuple | list):
        for each in value:
            yield from _listed(each)
    else:
        yield value
