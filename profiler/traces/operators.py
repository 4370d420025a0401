"""Operators by what they do to each element; `kind` names the measured rate that limits them."""

from __future__ import annotations

# FLOPs an element and the measured rate that limits them (see accelerators/probe.py).
ELEMENT: dict[str, tuple[float, str]] = {}
for _names, _flops, _kind in (
    ("add sub rsub mul neg abs sign maximum minimum max min clamp clamp_min clamp_max relu "
     "threshold_backward hardtanh hardtanh_backward leaky_relu leaky_relu_backward floor ceil "
     "round eq ne lt le gt ge logical_and logical_or logical_not bitwise_and bitwise_or "
     "bitwise_not where masked_fill isfinite isnan square relu6 hardswish hardsigmoid "
     "hardswish_backward hardsigmoid_backward masked_scale", 1, "add"),
    ("div reciprocal sqrt rsqrt fmod remainder floor_divide true_divide", 4, "add"),
    ("addcmul lerp mse_loss smooth_l1_loss huber_loss mse_loss_backward smooth_l1_loss_backward "
     "huber_loss_backward sigmoid_backward tanh_backward l1_loss glu_backward", 3, "add"),
    ("addcdiv", 6, "add"),
    ("exp exp2 expm1 sigmoid silu elu softplus glu mish selu celu", 10, "exp"),
    ("silu_backward elu_backward softplus_backward mish_backward", 12, "exp"),
    ("log log2 log10 log1p log_sigmoid_forward binary_cross_entropy "
     "binary_cross_entropy_with_logits binary_cross_entropy_backward "
     "log_sigmoid_backward", 10, "log"),
    ("tanh sin cos tan atan atan2 asin acos sinh cosh pow", 15, "tanh"),
    ("erf erfc gelu gelu_backward erfinv", 20, "erf"),
    ("bernoulli uniform normal random rand_like randn_like native_dropout exponential", 20, "rand"),
):  # fmt: skip
    for _name in _names.split():
        ELEMENT[_name] = (_flops, _kind)

REDUCE = {
    "sum": 1, "mean": 1, "amax": 1, "amin": 1, "argmax": 1, "argmin": 1, "max": 1, "min": 1,
    "prod": 1, "norm": 2, "linalg_vector_norm": 2, "var": 3, "std": 3, "var_mean": 3, "any": 1,
    "all": 1, "nansum": 1, "count_nonzero": 1,
}  # fmt: skip

# Row-wise functions: FLOPs an element of the first argument, rate, tensors of its size written
ROWS: dict[str, tuple[float, str, int]] = {
    "_softmax": (13, "exp", 1), "_log_softmax": (13, "exp", 1),
    "_softmax_backward_data": (4, "add", 1), "_log_softmax_backward_data": (12, "exp", 1),
    "nll_loss_forward": (1, "add", 0), "nll_loss_backward": (1, "add", 1),
    "nll_loss2d_forward": (1, "add", 0), "nll_loss2d_backward": (1, "add", 1),
    "logsumexp": (12, "exp", 0), "native_layer_norm": (8, "add", 1),
    "native_layer_norm_backward": (14, "add", 1), "native_batch_norm": (8, "add", 1),
    "native_batch_norm_backward": (14, "add", 1), "native_group_norm": (8, "add", 1),
    "native_group_norm_backward": (14, "add", 1), "cudnn_batch_norm": (8, "add", 1),
    "cudnn_batch_norm_backward": (14, "add", 1), "miopen_batch_norm": (8, "add", 1),
    "miopen_batch_norm_backward": (14, "add", 1), "_fused_rms_norm": (6, "add", 1),
    "cumsum": (1, "add", 1), "cumprod": (1, "add", 1),
}  # fmt: skip

# Optimizers in one pass: FLOPs and bytes (of fp32) a parameter
FUSED = {
    "_fused_adam_": (14, 28), "_fused_adamw_": (15, 28), "_fused_sgd_": (3, 16),
    "_fused_adagrad_": (6, 20),
}  # fmt: skip

# Only data movement: bytes = read + written; "copy" arguments are (written, read)
MOVES = {
    "copy_", "cat", "stack", "index", "index_select", "gather", "scatter", "scatter_add", "roll",
    "index_put_", "_index_put_impl_", "index_add_", "masked_select", "flip", "repeat", "tril",
    "triu", "constant_pad_nd", "reflection_pad2d", "im2col", "col2im", "embedding", "narrow_copy",
    "fill_", "zero_", "masked_fill_", "arange", "pixel_shuffle", "embedding_dense_backward",
    "nonzero", "one_hot", "diag_embed", "select_backward", "slice_backward", "as_strided_copy",
    "index_copy_", "scatter_", "scatter_add_", "split_with_sizes_copy", "clone", "contiguous",
    "channel_shuffle", "_to_copy", "eye",
}  # fmt: skip

# No work at all: views, allocations, conversions whose copy is an operator of its own
_VIEW_NAMES = """
_has_compatible_shallow_copy_type _local_scalar_dense _nested_tensor_from_mask _reshape_alias
_unsafe_view _version alias as_strided as_strided_ broadcast_tensors broadcast_to can_cast chunk
data detach detach_ diagonal dropout empty empty_like empty_strided expand expand_as flatten
full full_like imag is_leaf is_nonzero item lift_fresh linear_out mT matrix_H movedim narrow
new_empty new_empty_strided new_zeros numpy_T ones ones_like output_nr permute rand randn real
record_stream requires_grad_ reshape resize_ resolve_conj resolve_neg result_type scalar_tensor
select set_ size slice split split_with_sizes squeeze squeeze_ stride swapaxes t tensor_split to
transpose type_as unbind unflatten unfold unsqueeze unsqueeze_ view view_as view_as_complex
view_as_real zeros zeros_like
"""
VIEWS = frozenset(_VIEW_NAMES.split())
