"""A module of HLO text, compiled by XLA for the CPU without and with our plugin.

Held bytes are those that the executable allocates for a call: temporaries, and results that do not
take the place of a donated argument.

This module imports jax at its top: import it inside the function that needs it.
"""

from __future__ import annotations

from contextlib import nullcontext
from hashlib import sha256
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax._src.lib import xla_client
from jaxlib import _hlo

from optsched.errors import FormatError
from optsched.measure.result import Held, Measurement
from optsched.plugins import forget, records
from optsched.plugins.xla import enabled


def run(path: str, seconds: float) -> Measurement:
    """Compile and run a module twice."""
    text = Path(path).read_text("utf-8")
    if "is_scheduled=true" in text.partition("\n")[0]:
        raise FormatError(
            "the module is compiled already (is_scheduled=true); give the text before XLA's "
            "passes, such as *before_optimizations.txt of --xla_dump_to"
        )
    module = _hlo.hlo_module_from_text(text)
    before, outputs = _run(module, None)
    forget()
    after, again = _run(module, seconds)
    record = records()[-1] if records() else None
    return Measurement(
        str(module.name),
        f"XLA of jax {jax.__version__}",
        Held(record.before if record else None, before),
        Held(record.planned if record else None, after),
        same_outputs=outputs == again,
        notes=(str(record),) if record else (),
    )


def _run(module: Any, seconds: float | None) -> tuple[int, str]:
    """Compile and run a module; return the bytes that it allocates, and a digest of its results."""
    computation = xla_client.XlaComputation(module.as_serialized_hlo_module_proto())
    program = xla_client._xla.mlir.xla_computation_to_mlir_module(computation)
    client = jax.devices("cpu")[0].client
    devices = xla_client.DeviceList(tuple(client.local_devices()[:1]))
    plugin = enabled(time_limit=seconds, min_bytes=0, min_gain=0) if seconds else nullcontext()
    with plugin:
        compiled = client.compile_and_load(program, devices, xla_client.CompileOptions())
    stats = compiled.get_compiled_memory_stats()
    held = stats.temp_size_in_bytes + stats.output_size_in_bytes - stats.alias_size_in_bytes
    shapes = computation.program_shape().parameter_shapes()
    results = compiled.execute_sharded([*map(jax.device_put, make_arguments(shapes))])
    found = sha256()
    for parts in results.disassemble_into_single_device_arrays():
        for part in parts:
            found.update(np.asarray(part).tobytes())
    return int(held), found.hexdigest()


def make_arguments(shapes: Any) -> list[Any]:
    """Return arguments that are the same each time: random floats, and ones."""
    draw, found = np.random.default_rng(0), []
    for shape in shapes:
        kind, size = np.dtype(shape.numpy_dtype()), tuple(shape.dimensions())
        is_float = jax.numpy.issubdtype(kind, np.floating)
        value = draw.standard_normal(size) if is_float else np.ones(size)
        found.append(value.astype(kind))
    return found
