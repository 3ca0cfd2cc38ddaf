"""Orders that a framework wrote into its capture beside the graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from optsched.errors import FormatError
from optsched.formats.fields import Record, show

CHOSEN = "chosen"
"""The order that the framework took, whatever it calls it."""


def recorded_orders(document: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """Return the orders that a simulator file holds, as op ids by name.

    Nothing is checked beyond names and types: whether an order is valid is for
    `optsched.check.plan`.

    Parameters
    ----------
    document
        The parsed JSON. Captures of Inductor have `extra.orders` (node positions by method) and
        `extra.chosen`; those of other frameworks `extra.reference_order` (node names).

    Returns
    -------
    dict
        Empty if the file holds none. The order that was taken is under :data:`CHOSEN` as well.

    Raises
    ------
    FormatError
        If a field is of the wrong type, or names a node that is not there.
    """
    top = Record(document, "simulator file")
    extra = Record(top.mapping("extra", {}), "extra")
    orders = Record(extra.mapping("orders", {}), "extra.orders")
    found = {name: tuple(map(_position, orders.items(name))) for name in orders.value}
    taken = extra.text(CHOSEN, "")
    if taken in found:
        found[CHOSEN] = found[taken]
    if extra.has("reference_order"):
        ids = {Record(x, "node").text("name"): v for v, x in enumerate(top.items("nodes"))}
        found[CHOSEN] = tuple(_node(ids, name) for name in extra.texts("reference_order"))
    return found


def _position(value: object) -> int:
    if type(value) is not int:
        raise FormatError(f"extra.orders: expected node positions, got {show(value)}")
    return value


def _node(ids: Mapping[str, int], name: str) -> int:
    if name not in ids:
        raise FormatError(f"extra.reference_order names unknown node {show(name)}")
    return ids[name]
