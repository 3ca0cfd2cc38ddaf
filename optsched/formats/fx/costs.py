"""Floating-point operations of PyTorch's operators, from shapes.

Only operators whose work grows faster than their bytes are counted: matrix products, convolutions
and attention. A product of an (m, k) and a (k, n) matrix takes `2 m k n` operations: a
multiplication and an addition each. All others count 0, as in `torch.utils.flop_counter`, with
which tests compare this module.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Final

from optsched.formats.fx.program import FxNode, TensorValue

COST_UNIT: Final = "flops (from shapes)"

_Shape = tuple[int, ...]


def node_flops(node: FxNode, values: Mapping[str, TensorValue]) -> int:
    """Return the floating-point operations of a node; 0 for operators without a formula."""
    formula = _FORMULAS.get(node.base)
    given = [values[name].sizes for name in node.reads]
    made = [values[name].sizes for name in node.outputs]
    return formula(given, made) if formula and made and len(given) > 1 else 0


def _product(given: Sequence[_Shape], made: Sequence[_Shape]) -> int:
    """Return the work of a matrix product, batched or not, whose last operand is (..., k, n)."""
    # A vector has one axis, the summed one.
    inner = given[-1][-2] if len(given[-1]) > 1 else given[-1][-1]
    return 2 * prod(made[0]) * inner


def _added_product(given: Sequence[_Shape], made: Sequence[_Shape]) -> int:
    """Return the work of a product whose first operand is added to it."""
    return _product(given[1:3], made)


def _linear(given: Sequence[_Shape], made: Sequence[_Shape]) -> int:
    return 2 * prod(made[0]) * given[1][-1]


def _convolution(given: Sequence[_Shape], made: Sequence[_Shape]) -> int:
    """Return the work of a convolution, or of a transposed one, by the smaller number of channels.

    Each element of the weight meets each place of the output; of the input, if it is transposed.
    """
    x, weight, y = given[0], given[1], made[0]
    # The weight of a convolution is (out, in, ...), of a transposed one (in, out, ...).
    if y[1] == weight[0]:
        return 2 * y[0] * prod(y[2:]) * prod(weight)
    return 2 * x[0] * prod(x[2:]) * prod(weight)


def _convolution_backward(given: Sequence[_Shape], made: Sequence[_Shape]) -> int:
    """Return the work of the gradients of the input and of the weight that are made."""
    grad, x, weight = given[:3]
    count = sum(shape in (x, weight) for shape in made[:2])
    return count * _convolution([x, weight], [grad])


def _attention(given: Sequence[_Shape], made: Sequence[_Shape]) -> int:
    query, key, value = given[:3]
    # Scores need the width of a query, the sum of values that of a value; each multiplies and
    # adds.
    return 2 * prod(query[:-1]) * key[-2] * (query[-1] + value[-1])


def _attention_backward(given: Sequence[_Shape], made: Sequence[_Shape]) -> int:
    """Return the work of five products: scores again, and the gradients of all operands."""
    query, key, value = given[1:4]
    # Scores and gradients of query and key use the query's width: three; those of value and
    # weights the value's: two.
    return 2 * prod(query[:-1]) * key[-2] * (3 * query[-1] + 2 * value[-1])


_Formula = Callable[[Sequence[_Shape], Sequence[_Shape]], int]
_FORMULAS: Final[dict[str, _Formula]] = {
    **dict.fromkeys(("mm", "bmm", "matmul", "dot", "mv"), _product),
    **dict.fromkeys(("addmm", "baddbmm", "addbmm", "addmv"), _added_product),
    "linear": _linear,
    **dict.fromkeys(("convolution", "conv1d", "conv2d", "conv3d"), _convolution),
    "convolution_backward": _convolution_backward,
    **dict.fromkeys(
        (
            "scaled_dot_product_attention",
            "_scaled_dot_product_flash_attention",
            "_scaled_dot_product_flash_attention_for_cpu",
            "_scaled_dot_product_efficient_attention",
            "_scaled_dot_product_cudnn_attention",
        ),
        _attention,
    ),
    **dict.fromkeys(
        (
            "_scaled_dot_product_flash_attention_backward",
            "_scaled_dot_product_flash_attention_for_cpu_backward",
            "_scaled_dot_product_efficient_attention_backward",
            "_scaled_dot_product_cudnn_attention_backward",
        ),
        _attention_backward,
    ),
}
