"""Sizes to try for the open dimensions of an ONNX model, as a line to paste.

Usual sizes by name and position come first. A model of images may take other heights only: text
recognition takes 48 or 32 rows of pixels. Sizes are therefore tried by shape inference, and the
first ones are suggested with which all ops have results of known size. If branches depend on an
integer, such as a sampling rate, a number that the model compares it with is suggested as well.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from shlex import quote
from time import process_time
from typing import Any, Final

from optsched.errors import FormatError, OpenDimensionsError, OptschedError
from optsched.formats.fields import show
from optsched.formats.onnx.contrib import stand_in
from optsched.formats.onnx.dims import (
    IMAGE,
    OpenDimension,
    integer_inputs,
    open_dimensions,
    set_dimensions,
)
from optsched.formats.onnx.fold import Folder
from optsched.formats.onnx.model import drop_weights, find_constants
from optsched.formats.onnx.sizes import HOW, infer_types
from optsched.runtime.text import counted

_IMAGES: Final = ((IMAGE, IMAGE), (48, IMAGE), (32, IMAGE), (224, 224), (640, 640), (64, 64))
"""Heights and widths of images to try, usual ones first."""
_HEIGHT: Final = 2
"""Axis of the height where images are stored by channels."""
_MOST_SECONDS: Final = 2.0
"""Time after which the usual sizes are suggested without being tried."""
_SHOWN: Final = 8


def require_input_shapes(model: Any, constants: Collection[str], dims: Mapping[str, int]) -> None:
    """Raise `FormatError` if an input of a ModelProto has open dimensions, naming all of them.

    `dims` are the sizes that were given, which the suggested line repeats. A dimension of size 0
    counts as a size. Large weights are dropped from the model before the error is raised.
    """
    for value in model.graph.input:
        # Inputs are not counted; ops that take tensors out of a sequence may be refused.
        if value.name in constants or not value.type.HasField("tensor_type"):
            continue
        if not value.type.tensor_type.HasField("shape"):
            raise FormatError(f"input {show(value.name)} has no shape; {HOW}")
    found = open_dimensions(model.graph, constants)
    refuse_open(model, [x for x in found if not x.is_zero], dims)


def refuse_open(model: Any, found: Sequence[OpenDimension], dims: Mapping[str, int]) -> None:
    """Raise `FormatError` if there are open dimensions; `dims` are the sizes that were given."""
    if found:
        names = ", ".join(show(dim.name)[1:-1] for dim in found[:_SHOWN])
        more = ", ..." if len(found) > _SHOWN else ""
        verb = "is" if len(found) == 1 else "are"
        count = counted(len(found), "dimension")
        sizes = suggested_sizes(model, found, dims)
        text = f"{count} {verb} open: {names}{more}; try {as_options(sizes)}"
        error = OpenDimensionsError(text)
        error.sizes = sizes
        raise error


def as_options(sizes: Mapping[str, int]) -> str:
    """Return sizes as options of a command line."""
    return " ".join(f"--dim {quote(f'{name}={size}')}" for name, size in sizes.items())


def suggested_sizes(
    model: Any, found: Sequence[OpenDimension], dims: Mapping[str, int]
) -> dict[str, int]:
    """Return sizes of all open dimensions, those that were given among them.

    Large weights are dropped from the ModelProto.
    """
    drop_weights(model.graph)
    # What the caller has given comes last and counts.
    return {**_sizes_that_fit(model, found), **_compared_integers(model), **dims}


def _sizes_that_fit(model: Any, found: Sequence[OpenDimension]) -> dict[str, int]:
    """Return the first sizes with which shape inference knows all results, or the usual ones."""
    begun = process_time()
    choices = list(_choices(found))
    # A single choice needs no test.
    for sizes in choices if len(choices) > 1 else ():
        if _fits(model, sizes):
            return sizes
        # A suggestion is a service: it must not take longer than the answer.
        if process_time() - begun > _MOST_SECONDS:
            break
    return choices[0]


def _choices(found: Sequence[OpenDimension]) -> Iterator[dict[str, int]]:
    """Return sizes of all open dimensions: one choice for each size of an image, if it is open."""
    usual = {dim.name: dim.suggested for dim in found}
    image = [dim for dim in found if dim.suggested == IMAGE]
    for height, width in _IMAGES if image else _IMAGES[:1]:
        yield {**usual, **{x.name: height if x.axis == _HEIGHT else width for x in image}}


def _fits(model: Any, sizes: Mapping[str, int]) -> bool:
    """Return True if all results of a model's ops have known sizes with these dimensions."""
    # A copy for each trial, as sizes are written into the model.
    tried = type(model)()
    tried.CopyFrom(model)
    try:
        set_dimensions(tried, sizes)
        results = {x for node in tried.graph.node for x in node.output if x}
        constants = find_constants(tried.graph)
        stand_in(tried.graph)
        return results <= infer_types(tried, {}).by_name.keys() | constants
    except OptschedError:
        return False


def _compared_integers(model: Any) -> dict[str, int]:
    """Return numbers that the integer inputs of a model with branches are compared with."""
    if not any(node.op_type == "If" for node in model.graph.node):
        return {}
    folder, made = Folder(type(model).FromString(model.SerializeToString())), dict[str, str]()
    folder.fold({})
    made.update({name: name for name in integer_inputs(model.graph)})
    found: dict[str, int] = {}
    for node in model.graph.node:
        sources = [made[x] for x in node.input if x in made]
        if not sources:
            continue
        # These ops hand a number on unchanged.
        if node.op_type in ("Cast", "Gather", "Identity", "Reshape", "Squeeze", "Unsqueeze"):
            made.update(dict.fromkeys(node.output, sources[0]))
        numbers = [folder.values[x] for x in node.input if x in folder.values]
        if node.op_type == "Equal" and numbers and numbers[0].size == 1:
            found.setdefault(sources[0], max(1, int(numbers[0].item())))
    return found
