"""Records of graphs that are served from Inductor's caches and bypass the pass.

Inductor's cache has the Python module that it wrote for a graph. The plugin adds two lines to this
module: when it is loaded, in this process or in another, it reports the record of its order. For a
graph to be measured, they also pass on the function that runs the graph.

This module does not import torch at its top, as cached modules import it.

Example: process A compiles a graph and saves 3 MB. Process B loads it from Inductor's cache, where
no pass runs; the added lines report the 3 MB there as well.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from dataclasses import asdict, astuple, fields, replace
from typing import Any

from optsched.plugins.inductor.regions import current_region
from optsched.plugins.inductor.running.measured import Meter, measure_calls
from optsched.plugins.inductor.running.step_calls import watch_calls
from optsched.plugins.records import CompiledGraph, remember

_lock = threading.Lock()
_compiled_here: set[str] = set()
"""Records of modules written by this process, whose first load is part of their compilation."""


def leave_record(graph: Any, record: CompiledGraph, meter: Meter | None = None) -> None:
    """Add lines that report the record to the module that Inductor writes for a graph.

    `graph`: Inductor's graph. `record`: its record. `meter`: the way to measure calls of the graph;
    None if they are not measured.
    """
    if graph.cpp_wrapper:
        # No Python module is written.
        return
    # Seconds are those of this compilation, which a later process does not spend.
    text = json.dumps(asdict(replace(record, seconds=0.0, solver_seconds=0.0, cached=True)))
    with _lock:
        _compiled_here.add(text)
    how = None if meter is None else astuple(meter)
    region = current_region()
    owned = [] if region is None else sorted(region.owned)
    # After the function that runs the graph, which may be measured.
    graph.wrapper_code.suffix.splice(
        f"""
        try:
            cached = __import__({__name__!r}, fromlist=["recall"])
            cached.recall({text!r}, globals(), {how!r}, {owned!r})
        except ImportError:
            pass
        """,
        strip=True,
    )


def recall(
    text: str,
    module: dict[str, Any] | None = None,
    meter: tuple[Any, ...] | None = None,
    owned: Sequence[str] = (),
) -> None:
    """Remember the record of a module that is loaded, unless it was compiled just now.

    `text`: the record. `module`, `meter`: names of the module, and the fields of a :class:`Meter`
    for a graph to be measured. `owned`: inputs that backward calls of its region were seen to own.
    """
    # Fields of a later version are left out rather than refused.
    known = {field.name for field in fields(CompiledGraph)} - {"front"}
    try:
        record = CompiledGraph(**{k: v for k, v in json.loads(text).items() if k in known})
    except (TypeError, ValueError):
        # Written by another version of this project.
        return
    with _lock:
        compiled_here = text in _compiled_here
        _compiled_here.discard(text)
    if not compiled_here:
        record = replace(record, name=_current_name(record.name))
        remember(record)
    if module is not None and meter is not None:
        measure_calls(module, record, Meter(*meter))
    region = current_region()
    if region is not None:
        region.owned.update(owned)
    if module is not None and not record.name.endswith("inference"):
        watch_calls(module, record.name.endswith("backward"), record.planned or 0)


def _current_name(name: str) -> str:
    """Return the name of a graph in this process, whose number is that of the compilation."""
    from torch._guards import CompileContext

    current = CompileContext.current_compile_id()
    return f"{current} {name.rsplit(maxsplit=1)[-1]}" if current else name
