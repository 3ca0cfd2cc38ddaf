"""The storage of a name in a graph that Inductor compiles, its bytes, and its key for reuse.

Symbolic sizes count by their hints. This module imports torch at its top: import it inside the
function that needs it.
"""

from __future__ import annotations

import sys
from collections.abc import Hashable, Mapping
from typing import Any

from torch._inductor import ir
from torch._inductor.codegen.wrapper import buffer_reuse_key
from torch._inductor.virtualized import V


def find_root(value: Any) -> Any:
    """Return the buffer below views and boxes."""
    while not isinstance(value, ir.Buffer):
        value = value.unwrap_view() if isinstance(value, ir.BaseView) else value.data
    return value


def storage_bytes(buffer: Any, sizes: Mapping[Any, int] | None = None) -> int:
    """Return the bytes that the allocator is asked for, with these sizes or by the hints."""
    return _bytes(V.graph.get_allocation_storage_size(buffer), buffer, sizes)


def input_bytes(name: str, sizes: Mapping[Any, int] | None = None) -> int:
    """Return the bytes of a graph input; 0 if it is not a tensor, such as a process group."""
    value = V.graph.graph_inputs[name]
    if isinstance(value, ir.NonTensorObj) or not hasattr(value, "get_numel"):
        return 0
    return _bytes(value.get_numel(), value, sizes)


def _bytes(count: Any, value: Any, sizes: Mapping[Any, int] | None) -> int:
    known = V.graph.sizevars
    if sizes and not isinstance(count, int):
        # Inductor may have named a product of sizes by a symbol of its own.
        count = known.remove_precomputed_replacements(count).xreplace(dict(sizes))
    hint = known.optimization_hint(count, fallback=0)
    return int(hint) * int(value.get_dtype().itemsize)


def upper_ends() -> dict[Any, int]:
    """Return the upper ends of sizes by symbol, without those that have none."""
    ranges = V.graph.sizevars.shape_env.var_to_range
    # Without a range, the end is infinite, or the largest number that a size can have.
    return {
        symbol: int(found.upper)
        for symbol, found in ranges.items()
        if found.upper.is_Integer and found.upper < sys.maxsize // 2
    }


def reuse_key(buffer: Any) -> Hashable:
    """Return the key of a buffer that must be equal for reuse, without the alignment.

    Inductor may change the alignment later. A stream follows it, and since torch 2.14 a memory
    pool.
    """
    device, dtype, size, _, *places = buffer_reuse_key(buffer)
    return (str(device), str(dtype), size, *places)
