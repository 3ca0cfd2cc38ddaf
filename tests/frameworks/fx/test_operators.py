"""The tables of operators against the schemas and tags of the installed PyTorch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the extra torch is not installed")

from optsched.formats.fx import operators  # noqa: E402
from optsched.formats.fx.operators import (  # noqa: E402
    CONVERSIONS,
    DROPOUTS,
    EACH_VIEWED,
    OUT_OVERLOADS,
    OVERWRITES,
    RANDOM,
    RELABELINGS,
    RESHAPES,
    RESIZINGS,
    VIEWS,
    WRITTEN,
    is_out_variant,
    writes_to,
)

NOT_DENSE = frozenset(
    ("_coalesced_", "_indices", "_values", "ccol_indices", "coalesce", "col_indices")
) | {"copy_sparse_to_sparse_", "crow_indices", "indices", "row_indices", "values"}
"""Of sparse tensors, whose layout is refused."""
NOT_EXPORTED = frozenset(
    ("__getitem__", "_fw_primal", "_grad_sum_to_size", "_make_dual", "_ncf_unsqueeze", "_ncf_view")
) | {
    *("_nested_get_values", "_nested_view_from_buffer", "_nested_view_from_jagged", "_unpack_dual"),
    *("_sparse_broadcast_to", "_test_autograd_multiple_dispatch_view", "_unwrap_optional", "get"),
    *("as_tensor", "keys", "local_value", "to_here", "record_stream", "retain_grad"),
}
"""Of the interpreter of TorchScript, nested tensors and autograd: in no exported program."""


LEFT_OUT = NOT_DENSE | NOT_EXPORTED


def schemas() -> Iterator[tuple[Any, str, str]]:
    """Yield the schemas of `aten` with their base names and overloads."""
    for schema in torch._C._jit_get_all_schemas():
        space, _, base = schema.name.partition("::")
        tensors = [x for x in schema.arguments if "Tensor" in str(x.type)]
        if any("Dict" in str(x.type) for x in tensors):
            continue
        if (
            space == "aten"
            and tensors
            and not base.startswith(("fbgemm_", "_amp_"))
            and base not in LEFT_OUT
        ):
            yield schema, base, schema.overload_name


def test_what_schemas_call_views_is_in_the_tables() -> None:
    known = VIEWS | EACH_VIEWED | RESHAPES | CONVERSIONS | RELABELINGS | RESIZINGS
    for schema, base, _ in schemas():
        written = any(x.alias_info and x.alias_info.is_write for x in schema.arguments)
        shared = [
            x
            for x in schema.returns
            if x.alias_info and not x.alias_info.is_write and "Tensor" in str(x.type)
        ]
        assert not shared or written or base in known, schema


def test_what_schemas_say_is_written_is_known_by_name() -> None:
    for schema, base, overload in schemas():
        if base in RELABELINGS | RESIZINGS or not any(
            "Tensor" in str(x.type) for x in schema.returns
        ):
            continue
        names = [x.name for x in schema.arguments if "Tensor" in str(x.type)]
        told = [x.name for x in schema.arguments if x.alias_info and x.alias_info.is_write]
        ours = writes_to(f"aten.{base}.{overload or 'default'}", names, {"training": True})
        named = {x.name for x in schema.arguments if x.is_out}
        # What writes several results, or one of another name, is refused where a file says no more.
        assert not named or is_out_variant(overload) or overload in (*OUT_OVERLOADS, "a"), schema
        # Of an out variant with results of other names than `out` all are written.
        assert set(told) - named <= set(ours), schema
        assert set(told) - set(ours) <= named - {"out"}, schema


def test_names_in_the_tables_are_operators() -> None:
    bases = {schema.name.partition("::")[2] for schema in torch._C._jit_get_all_schemas()}
    tables = (VIEWS, RESHAPES, CONVERSIONS, DROPOUTS, RELABELINGS, RESIZINGS, RANDOM, OVERWRITES)
    composed: set[str] = set()
    for table in (*tables, frozenset(WRITTEN)):
        assert table - bases - composed == frozenset()


def test_what_may_overwrite_has_a_twin_that_does() -> None:
    for base in OVERWRITES:
        twin = getattr(torch.ops.aten, f"{base}_")
        overloads = [getattr(twin, name) for name in twin.overloads()]
        firsts = [x._schema.arguments[0] for x in overloads]
        assert all(x.alias_info is not None and x.alias_info.is_write for x in firsts), base


def test_what_is_tagged_as_random_is_known() -> None:
    for schema, base, overload in schemas():
        operator = getattr(getattr(torch.ops.aten, base), overload or "default", None)
        if torch.Tag.nondeterministic_seeded not in getattr(operator, "tags", ()):
            continue
        name = base.removesuffix("_")
        attention = "attention" in name or name in ("_fused_sdp_choice", "_cudnn_rnn")
        other = name.startswith(("miopen", "_lstm_mps", "_fill_mem_eff", "_nested"))
        assert name in RANDOM | DROPOUTS or attention or other, schema
    assert operators.draws_numbers("dropout", {"p": 0.5, "train": True})
    assert not operators.draws_numbers("dropout", {"p": 0.5, "train": False})
    assert not operators.draws_numbers("scaled_dot_product_attention", {})
    assert operators.draws_numbers("scaled_dot_product_attention", {"dropout_p": 0.1})
