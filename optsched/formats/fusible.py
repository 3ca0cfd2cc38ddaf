"""Operators of PyTorch that TorchInductor computes inside the kernel of a reader."""

from __future__ import annotations

from typing import Final

_NAMES: Final = (
    "_grad_sum_to_size _log_softmax _log_softmax_backward_data _softmax _softmax_backward_data "
    "_to_copy _unsafe_view abs acos acosh add addcdiv addcmul alias amax amin angle any arange "
    "argmax argmin as_strided asin asinh atan atan2 atanh bitwise_and bitwise_not bitwise_or "
    "bitwise_xor broadcast_in_dim ceil celu clamp clamp_max clamp_min clip clone "
    "convert_element_type copysign cos cosh deg2rad digamma div elu empty empty_like eq erf erfc "
    "exp exp2 expand expm1 floor fmax fmin fmod frac full full_like gather ge gelu gelu_backward "
    "gt hardshrink hardsigmoid hardtanh heaviside hypot index iota isfinite isinf isnan le "
    "leaky_relu lerp lgamma log log10 log1p log2 logical_and logical_not logical_or logical_xor "
    "logit lt masked_fill max maximum mean min minimum mish mul nan_to_num native_dropout_backward "
    "native_layer_norm native_layer_norm_backward ne neg new_zeros ones ones_like permute positive "
    "pow reciprocal relu relu6 remainder reshape round rsqrt rsub scalar_tensor select selu sgn "
    "sigmoid sigmoid_backward sign silu silu_backward sin sinh slice softplus softshrink split "
    "sqrt square squeeze std sub sum t tan tanh tanh_backward threshold threshold_backward triu "
    "trunc unsqueeze var var_mean view where xlogy zeros zeros_like"
)
FUSIBLE: Final = frozenset(_NAMES.split())
"""Operators without their namespace that TorchInductor computes inside the kernel of a reader."""


def is_fusible(kind: str) -> bool:
    """Return True if Inductor fuses an operator such as `aten.add.Tensor` with its readers."""
    parts = kind.split(".")
    return len(parts) > 1 and parts[0] in ("aten", "prims") and parts[1] in FUSIBLE
