"""Effects of PyTorch's operators on storages, from their schemas and from tables.

The tables list base names of the namespace `aten`, so that a file can be read without PyTorch;
`tests/frameworks/fx/test_operators.py` compares them with the schemas of the installed version.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from optsched.errors import FormatError


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


VIEWS: Final = _names(
    "_conj _neg_view _reshape_alias _unsafe_view adjoint alias as_strided "
    "broadcast_to chunk detach diagonal dsplit expand expand_as "
    "hsplit imag lift_fresh linalg_diagonal mH mT matrix_H moveaxis movedim narrow "
    "numpy_T permute real select slice slice_inverse split split_with_sizes squeeze swapaxes "
    "swapdims t tensor_split transpose unbind unflatten unfold unsafe_chunk unsafe_split "
    "unsafe_split_with_sizes unsqueeze view view_as view_as_complex view_as_real vsplit"
)
"""Their outputs are views of the first tensor; `unsafe_` means that the schema does not say so."""

EACH_VIEWED: Final = frozenset(
    ("atleast_1d", "atleast_2d", "atleast_3d", "broadcast_tensors", "meshgrid")
)
"""Operators on a list of tensors; each output is a view of its own entry."""

RESHAPES: Final = frozenset(("flatten", "ravel", "reshape", "reshape_as"))
"""Operators whose result is a view where the strides allow it, and a copy elsewhere."""

CONVERSIONS: Final = _names(
    "_autocast_to_full_precision _autocast_to_reduced_precision conj contiguous cpu cuda einsum "
    "pin_memory positive resolve_conj resolve_neg to type_as"
)
"""Operators that return their argument itself if it already has the requested form."""

DROPOUTS: Final = frozenset(
    ("alpha_dropout", "dropout", "feature_alpha_dropout", "feature_dropout")
)
"""Operators that return their argument itself if nothing is dropped."""

RELABELINGS: Final = _names(
    "as_strided_ detach_ requires_grad_ squeeze_ swapaxes_ swapdims_ t_ transpose_ unsqueeze_"
)
"""Operators that change the shape and strides of a tensor, not its bytes."""

RESIZINGS: Final = _names(
    "_resize_output_ resize_ resize_as_ resize_as_sparse_ set_ set_data sparse_resize_ "
    "sparse_resize_and_clear_"
)
"""Operators that give a tensor another storage."""

WHOLE_COPIES: Final = _names(
    "as_strided_scatter copy diagonal_scatter select_scatter slice_scatter"
)
"""Operators that copy the whole storage of their first tensor, also if it is a view of a part."""

OUT_OVERLOADS: Final = _names(
    "L Q U X dim_max dim_min dim_values eigenvalues eigvals grad_input inverse output result sign "
    "values values_stable"
)
"""Overloads of operators that write into arguments with names other than `out`."""

_STATISTICS = ("running_mean", "running_var")
WRITTEN: Final[Mapping[str, tuple[str, ...]]] = {
    "_batch_norm_with_update": _STATISTICS,
    "_cummax_helper": ("values", "indices"),
    "_cummin_helper": ("values", "indices"),
    "_flash_attention_forward_no_dropout_inplace": ("out",),
    "_fused_moving_avg_obs_fq_helper": ("running_min", "running_max", "scale", "zero_point"),
    "_native_batch_norm_legit": _STATISTICS,
    "batch_norm": _STATISTICS,
    "cudnn_batch_norm": _STATISTICS,
    "fused_moving_avg_obs_fake_quant": ("running_min", "running_max", "scale", "zero_point"),
    "instance_norm": _STATISTICS,
    "miopen_batch_norm": _STATISTICS,
    "native_batch_norm": _STATISTICS,
    "rrelu_with_noise": ("noise",),
    "rrelu_with_noise_": ("noise",),
}
"""Arguments that are written to although the name does not end in `_`."""

_TRAINING = ("training", "train", "use_input_stats")
_ONLY_IN_TRAINING = frozenset(
    ("_native_batch_norm_legit", "batch_norm", "cudnn_batch_norm", "instance_norm")
) | {"miopen_batch_norm", "native_batch_norm", "rrelu_with_noise"}

RANDOM: Final = _names(
    "_cudnn_init_dropout_state _fused_dropout _sample_dirichlet _standard_gamma bernoulli binomial "
    "cauchy exponential geometric gru log_normal lstm multinomial native_dropout normal "
    "normal_functional poisson rand rand_like randint randint_like randn randn_like random "
    "randperm rnn_relu rnn_tanh rrelu rrelu_with_noise rrelu_with_noise_functional "
    "scaled_dot_product_attention uniform"
)
"""Operators that draw from the shared random state; their order decides the numbers each gets."""

_RUN_RANDOM = ("graphsafe_run_with_rng_state", "run_and_save_rng_state")
"""Higher-order operators that run another one and advance a random state."""

_CHANCES = ("dropout_p", "p", "dropout")

OVERWRITES: Final = _names(
    "abs acos acosh add addcdiv addcmul asin asinh atan atan2 atanh bitwise_and bitwise_not "
    "bitwise_or bitwise_xor ceil celu clamp clamp_max clamp_min clip copysign cos cosh deg2rad "
    "digamma div elu erf erfc erfinv exp exp2 expm1 floor fmod frac gelu hardsigmoid hardswish "
    "hardtanh hypot leaky_relu lerp lgamma log log10 log1p log2 logical_and logical_not "
    "logical_or logical_xor logit masked_fill mish mul nan_to_num neg nextafter pow rad2deg "
    "reciprocal relu relu6 remainder round rsqrt selu sgn sigmoid sign silu sin sinc sinh sqrt "
    "square sub tan tanh threshold trunc xlogy"
)
"""Operators with a twin, as `add_`, that writes element by element into the first tensor."""

UNKNOWN_EFFECTS: Final = ("triton_kernel_wrapper_mutation", "triton_kernel_wrapper_functional")
"""Operators that run kernels whose writes no program records."""

WITHOUT_VIEWS: Final = _names(
    "aten dim_order_ops prims prim higher_order quantized_decomposed torchvision _operator "
    "operator math torch builtins"
)
"""Namespaces whose operators are known by the tables above."""


def require_known_effects(operator: str, where: str) -> None:
    """Raise `FormatError`, with the operator's name, if its effect on tensors is unknown."""
    base = (*operator.split("."), "")[1]
    if base in RESIZINGS:
        raise FormatError(f"{where} ({operator}) gives a tensor another storage")
    if base in UNKNOWN_EFFECTS:
        raise FormatError(f"{where} ({operator}) runs a kernel with unknown effects")


def writes_to(operator: str, arguments: Sequence[str], settings: Mapping[str, object]) -> list[str]:
    """Return the names of the arguments that an operator of `aten` (`aten.add_.Tensor`) writes to.

    `arguments` are the names of its tensor arguments, in order, `settings` its other arguments.
    """
    _, base, overload = (*operator.split("."), "", "")[:3]
    if base in RELABELINGS:
        return []
    if base in _ONLY_IN_TRAINING and not _trains(settings):
        # Statistics of a norm are updated in training alone.
        return []
    found = [x for x in WRITTEN.get(base, ()) if x in arguments]
    # `add_` changes its argument, `__add__` does not, `__iadd__` does.
    is_inplace = base.endswith("_") and not base.endswith("__")
    if is_inplace or (base.startswith("__i") and base.endswith("__")):
        found += arguments[:1]
    if is_out_variant(overload):
        found += [x for x in arguments if x == "out"]
    return found


def is_out_variant(overload: str) -> bool:
    """Return True if an overload's name is that of one that writes its results into arguments."""
    return overload.lower().startswith("out") or overload.endswith("_out")


def draws_numbers(base: str, settings: Mapping[str, object]) -> bool:
    """Return True if an operator draws from the random state."""
    # An operator in place, such as `dropout_`, draws as well.
    name = base.removesuffix("_")
    if name in _RUN_RANDOM:
        return True
    if name in DROPOUTS:
        return not drops_nothing(settings)
    if name == "scaled_dot_product_attention" or name.startswith("_scaled_dot_product_"):
        return settings.get("dropout_p", 0.0) not in (0, 0.0)
    if name in ("lstm", "gru", "rnn_relu", "rnn_tanh"):
        return settings.get("dropout", 0.0) not in (0, 0.0) and _trains(settings)
    return name in RANDOM and (name not in ("rrelu", "native_dropout") or _trains(settings))


def drops_nothing(settings: Mapping[str, object]) -> bool:
    """Return True if a dropout has no effect: it does not train, or its probability is 0."""
    return not _trains(settings) or any(settings.get(key) in (0, 0.0) for key in _CHANCES)


def _trains(settings: Mapping[str, object]) -> bool:
    """Return True if an operator is in training mode; without the setting, it may be."""
    told = [settings[key] for key in _TRAINING if key in settings]
    # Not told: the worse case for each caller, that it trains.
    return any(told) if told else True
