"""Reports of modules: JSON records and short texts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from heuristics.xla_module import heap_size, minimum_memory_for_module, schedule_module
from optsched.formats import write_module_plan, write_plan
from optsched.formats.native_plan import claims_of
from optsched.model.logical import LogicalModule
from optsched.reports.results import end_line, plan_record, plan_text, result_lines
from optsched.runtime.facts import versions
from optsched.runtime.text import counted, readable
from optsched.solver.module_result import ModuleResult
from optsched.solver.result import Result


def module_record(found: ModuleResult) -> dict[str, Any]:
    """Return the record that `optsched solve --json` prints for a module."""
    rows = {}
    for name, result in found.results.items():
        if result.graph is not None:
            rows[name] = plan_record(result)
            # Once for the module is enough.
            rows[name].pop("versions")
    whole = {key: x for key, x in found.to_dict().items() if key not in ("graph", "computations")}
    return {
        "graph": found.module.name,
        **whole,
        "memory_model": found.module.graphs[found.module.entry].model_name,
        "computations": rows,
        "versions": versions(),
    }


def schedule_record(module: LogicalModule) -> dict[str, Any]:
    """Return the results of XLA's memory schedulers on a module, as XLA counts bytes.

    For each scheduler: the entry's bytes in `memory_by_computation`, the bytes of the whole module
    with its calls executed, and the size of XLA's heap, which includes fragmentation.
    """
    rows, found = {}, None
    for name in ("xla_list", "xla_dfs", "xla_post_order", "xla_default"):
        found = schedule_module(module, name)
        rows[name] = {
            "memory": found.memory_by_computation[module.entry],
            "minimum_memory_for_module": minimum_memory_for_module(module, found.orders),
            "heap_size": heap_size(module, found.orders),
        }
    memory = {} if found is None else found.memory_by_computation
    return {"schedulers": rows, "memory_by_computation": memory}


def schedule_text(record: dict[str, Any]) -> str:
    """Return the text of a record of schedulers."""
    lines = ["  by XLA's count, in bytes: the entry; the module; its heap, with fragmentation"]
    for name, row in record["schedulers"].items():
        lines.append(f"  {name:14} {'; '.join(f'{x:,}' for x in row.values())}")
    return "\n".join(lines)


def module_claims(found: ModuleResult) -> dict[str, dict[str, Any]]:
    """Return peaks, bounds and proofs of the plans by computation, as plan files store them."""
    rows = {name: {"peak": x.peak, **claims_of(x)} for name, x in found.results.items()}
    return {**rows, "": {"versions": versions()}}


def module_text(found: ModuleResult, record: Mapping[str, Any]) -> str:
    """Return the text of a module's record: callees first, the entry last."""
    module, called = found.module, len(found.module.graphs) - 1
    lines = [
        f"{readable(module.name)}: an entry and {counted(called, 'computation')} called by it  "
        f"(memory model: {readable(record['memory_model'])})"
    ]
    for name, row in record["computations"].items():
        place = ", the entry" if name == module.entry else ""
        lines.append(f"  {readable(name)}{place}: {counted(row['ops'], 'op')}")
        lines += [f"  {line}" for line in result_lines(found.results[name], row)[1:]]
    if found.covers_interleaving:
        lines.append("  no layout that fills a caller's gaps with parts of a callee is smaller")
    elif found.restriction:
        lines.append(f"  bounds hold for all {found.restriction}")
    return "\n".join([*lines, end_line(found.entry)])


def result_record(found: Result | ModuleResult, *, listed: bool = True) -> dict[str, Any]:
    """Return the record of a graph's or a module's result; `listed` as of `Result.to_dict`."""
    if isinstance(found, ModuleResult):
        return module_record(found)
    return plan_record(found, listed=listed)


def result_text(found: Result | ModuleResult, record: Mapping[str, Any] | None = None) -> str:
    """Return a result and its record as text."""
    known = result_record(found) if record is None else record
    return module_text(found, known) if isinstance(found, ModuleResult) else plan_text(found, known)


def write_result(
    found: Result | ModuleResult, path: str | Path, record: Mapping[str, Any] | None = None
) -> None:
    """Write the plan of a result, or the plans of a module; the record holds what is claimed."""
    if isinstance(found, ModuleResult):
        if found.plans is not None:
            write_module_plan(found.plans, path, found.module, module_claims(found))
    elif found.plan is not None:
        known = plan_record(found) if record is None else record
        write_plan(found.plan, path, found.graph, known)
