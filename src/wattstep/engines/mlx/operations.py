"""torch's operations (ATen) as MLX makes them, by their names; images are (N, C, H, W) as in torch."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import mlx.core as mx

Array = Any  # an mlx.core.array
_TYPES: Final = {
    "float32": mx.float32, "int64": mx.int64, "int32": mx.int32, "bool": mx.bool_,
}  # fmt: skip


def _pair(value: Any) -> tuple[int, int]:
    first, second = (value, value) if isinstance(value, int) else (value * 2)[:2]
    return int(first), int(second)


def _axes(values: Array, dims: Any) -> Any:
    """All where none is named."""
    return tuple(range(values.ndim)) if dims in (None, []) else dims


def conv2d(
    values: Array, weight: Array, bias: Any = None, stride: Any = 1, padding: Any = 0,
    dilation: Any = 1, groups: int = 1,
) -> Array:  # fmt: skip
    """Convolution of images; MLX has channels last."""
    made = mx.conv2d(
        values.transpose(0, 2, 3, 1), weight.transpose(0, 2, 3, 1),
        _pair(stride), _pair(padding), _pair(dilation), groups,
    ).transpose(0, 3, 1, 2)  # fmt: skip
    return made if bias is None else made + bias.reshape(1, -1, 1, 1)


def conv1d(
    values: Array, weight: Array, bias: Any = None, stride: Any = 1, padding: Any = 0,
    dilation: Any = 1, groups: int = 1,
) -> Array:  # fmt: skip
    """Convolution of sequences."""
    step, edge, spread = (
        each if isinstance(each, int) else int(each[0]) for each in (stride, padding, dilation)
    )
    made = mx.conv1d(
        values.transpose(0, 2, 1), weight.transpose(0, 2, 1), step, edge, spread, groups
    ).transpose(0, 2, 1)
    return made if bias is None else made + bias.reshape(1, -1, 1)


def linear(values: Array, weight: Array, bias: Any = None) -> Array:
    """Product with a transposed matrix."""
    made = values @ weight.T
    return made if bias is None else made + bias


def batch_norm(
    values: Array, weight: Any, bias: Any, running_mean: Array, running_var: Array,
    training: bool, momentum: float, eps: float,
) -> tuple[Array, ...]:  # fmt: skip
    """Output, mean, reciprocal deviation, and the running statistics after it."""
    assert training
    axes = (0, *range(2, values.ndim))
    shape = [1, -1, *[1] * (values.ndim - 2)]
    mean, variance = values.mean(axes), values.var(axes)
    scale = mx.rsqrt(variance + eps)
    made = (values - mean.reshape(shape)) * scale.reshape(shape)
    if weight is not None:
        made = made * weight.reshape(shape) + bias.reshape(shape)
    count = values.size // values.shape[1]
    unbiased = variance * (count / (count - 1))
    return (
        made, mean, scale,
        (1 - momentum) * running_mean + momentum * mean,
        (1 - momentum) * running_var + momentum * unbiased,
    )  # fmt: skip


def layer_norm(
    values: Array, shape: Sequence[int], weight: Any = None, bias: Any = None, eps: float = 1e-5,
    cudnn: bool = True,
) -> Array:  # fmt: skip
    """Normalisation over the last dimensions."""
    axes = tuple(range(values.ndim - len(shape), values.ndim))
    centred = values - values.mean(axes, keepdims=True)
    made = centred * mx.rsqrt(mx.square(centred).mean(axes, keepdims=True) + eps)
    made = made if weight is None else made * weight
    return made if bias is None else made + bias


def gelu(values: Array, approximate: str = "none") -> Array:
    """Exact, or by tanh."""
    if approximate == "tanh":
        inner = math.sqrt(2 / math.pi) * (values + 0.044715 * values * values * values)
        return 0.5 * values * (1 + mx.tanh(inner))
    return 0.5 * values * (1 + mx.erf(values / math.sqrt(2)))


def hardtanh(values: Array, low: float = -1.0, high: float = 1.0) -> Array:
    """No gradient at its ends, as in torch."""
    return mx.where(values <= low, low, mx.where(values >= high, high, values))


def hardswish(values: Array) -> Array:
    """Of torch's slopes at its corners."""
    middle = values * (values + 3) / 6
    return mx.where(values < -3, 0.0, mx.where(values <= 3, middle, values))


def cross_entropy(
    scores: Array, targets: Array, weight: Any = None, reduction: int = 1, ignore: int = -100,
    smoothing: float = 0.0,
) -> Array:  # fmt: skip
    """Mean of those that are not ignored; classes are dimension 1, or the only one."""
    if weight is not None or reduction != 1:
        raise ValueError("cross entropy with weights, or without a mean")
    axis = 1 if scores.ndim > 1 else 0
    logs = scores - mx.logsumexp(scores, axis, keepdims=True)
    valid = targets != ignore
    places = mx.expand_dims(mx.where(valid, targets, 0), axis)
    loss = -mx.take_along_axis(logs, places, axis).squeeze(axis)
    if smoothing:
        loss = (1 - smoothing) * loss - smoothing * logs.mean(axis)
    return (loss * valid).sum() / valid.sum()


def expand(values: Array, shape: Sequence[int], implicit: bool = False) -> Array:
    """Broadcast; -1 leaves a dimension as it is."""
    before = [1] * (len(shape) - values.ndim) + list(values.shape)
    wanted = [old if new == -1 else new for old, new in zip(before, shape, strict=True)]
    return mx.broadcast_to(values, wanted)


def cut(values: Array, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Array:
    """`slice`."""
    places: list[slice] = [slice(None)] * values.ndim
    places[dim] = slice(start, None if end is None else min(end, values.shape[dim]), step)
    return values[tuple(places)]


def split(values: Array, sizes: Any, dim: int = 0) -> list[Array]:
    """Into parts of one size, or of these sizes."""
    whole = values.shape[dim]
    if isinstance(sizes, int):
        return list(mx.split(values, range(sizes, whole, sizes), dim))
    ends = [sum(sizes[: i + 1]) for i in range(len(sizes) - 1)]
    return list(mx.split(values, ends, dim))


def pad(values: Array, sizes: Sequence[int], value: float = 0.0) -> Array:
    """By torch's order: the last dimension first."""
    widths = [(0, 0)] * values.ndim
    for i in range(len(sizes) // 2):
        widths[-1 - i] = (sizes[2 * i], sizes[2 * i + 1])
    return mx.pad(values, widths, constant_values=value)


def average_pool(
    values: Array, kernel: Any, stride: Any = None, padding: Any = 0, ceil: bool = False,
    with_padding: bool = True, divisor: Any = None,
) -> Array:  # fmt: skip
    """By the sum of shifted images."""
    (high, wide), (above, left) = _pair(kernel), _pair(padding)
    down, right = _pair(stride) if stride else (high, wide)
    if ceil or divisor is not None or ((above or left) and not with_padding):
        raise ValueError("average pooling of another kind")
    values = pad(values, (left, left, above, above))
    rows = (values.shape[-2] - high) // down * down + 1
    columns = (values.shape[-1] - wide) // right * right + 1
    shifted = (
        values[..., y : y + rows : down, x : x + columns : right]
        for y in range(high)
        for x in range(wide)
    )
    return sum(shifted) / (high * wide)


def adaptive_average(values: Array, size: Sequence[int]) -> Array:
    """Average pooling to a size that divides the image's."""
    *before, height, width = values.shape
    rows, columns = size
    if height % rows or width % columns:
        raise ValueError("adaptive average pooling to a size that is no divisor")
    shape = (*before, rows, height // rows, columns, width // columns)
    return values.reshape(shape).mean((-3, -1))


def mean(values: Array, dims: Any = None, keep: bool = False, dtype: Any = None) -> Array:
    """Over some dimensions, or all."""
    return values.mean(_axes(values, dims), keepdims=keep)


def total(values: Array, dims: Any = None, keep: bool = False, dtype: Any = None) -> Array:
    """Likewise the sum."""
    return values.sum(_axes(values, dims), keepdims=keep)


def squeeze(values: Array, dims: Any = None) -> Array:
    """Dimensions of one, of these."""
    if dims is None:
        return values.squeeze()
    axes = [dims] if isinstance(dims, int) else dims
    return values.squeeze([axis for axis in axes if values.shape[axis] == 1])


def permute(values: Array, dims: Sequence[int]) -> Array:
    """Dimensions in another order."""
    return values.transpose(*dims)


def convert(values: Array, dtype: Any = None, **_: Any) -> Array:
    """Of another type."""
    return values if dtype is None else values.astype(dtype)


def like(make: Callable[..., Array]) -> Callable[..., Array]:
    """Of a shape, or of another array's."""

    def made(of: Any, *more: Any, dtype: Any = None, **_: Any) -> Array:
        shape = of.shape if isinstance(of, mx.array) else of
        return make(shape, *more, dtype=dtype or mx.float32)

    return made


def arange(*bounds: Any, dtype: Any = None, **_: Any) -> Array:
    """Whole numbers."""
    make: Callable[..., Array] = mx.arange  # whose overloads know no spread arguments
    return make(*bounds, dtype=dtype or mx.int64)


def attend(
    query: Array, key: Array, value: Array, mask: Any = None, dropout: float = 0.0,
    causal: bool = False, scale: Any = None, enable_gqa: bool = False,
) -> Array:  # fmt: skip
    """Attention by its parts."""
    if dropout or enable_gqa:
        raise ValueError("attention that drops, or shares keys")
    scores = query @ key.swapaxes(-1, -2) * (query.shape[-1] ** -0.5 if scale is None else scale)
    if causal:
        later = mx.triu(mx.ones(scores.shape[-2:], dtype=mx.bool_), 1)
        scores = mx.where(later, -math.inf, scores)
    if mask is not None:
        scores = mx.where(mask, scores, -math.inf) if mask.dtype == mx.bool_ else scores + mask
    return mx.softmax(scores, -1, precise=True) @ value


def mean_squared(values: Array, targets: Array, reduction: int = 1) -> Array:
    """Mean of squared differences."""
    if reduction != 1:
        raise ValueError("a squared error without a mean")
    return mx.square(values - targets).mean()


def sums(sign: int) -> Callable[..., Array]:
    """a + sign * alpha * b."""
    return lambda a, b, alpha=1: a + sign * alpha * b


def addmm(bias: Array, a: Array, b: Array, beta: float = 1, alpha: float = 1) -> Array:
    """beta * bias + alpha * a @ b."""
    return beta * bias + alpha * (a @ b)


def pick(values: Array, axis: int, place: int) -> Array:
    """One place of a dimension."""
    return values[(slice(None),) * (axis % values.ndim) + (place,)]


def unbind(values: Array, axis: int = 0) -> list[Array]:
    """All places of a dimension."""
    return [pick(values, axis, place) for place in range(values.shape[axis])]


# By ATen's names, without their overloads.
OPERATIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "_native_batch_norm_legit_functional": batch_norm,
    "_softmax": lambda a, axis, half=False: mx.softmax(a, axis, precise=True),
    "_to_copy": convert,
    "_unsafe_view": mx.reshape,
    "abs": mx.abs,
    "add": sums(1),
    "adaptive_avg_pool2d": adaptive_average,
    "addmm": addmm,
    "alias": lambda a: a,
    "amax": lambda a, dims=None, keep=False: a.max(_axes(a, dims), keepdims=keep),
    "arange": arange,
    "avg_pool2d": average_pool,
    "bitwise_not": mx.logical_not,
    "bmm": mx.matmul,
    "broadcast_tensors": lambda arrays: mx.broadcast_arrays(*arrays),
    "cat": lambda arrays, axis=0: mx.concatenate(arrays, axis),
    "clone": lambda a, **_: a,
    "constant_pad_nd": pad,
    "contiguous": lambda a, **_: a,
    "conv1d": conv1d,
    "conv2d": conv2d,
    "cos": mx.cos,
    "cross_entropy_loss": cross_entropy,
    "detach": mx.stop_gradient,
    "div": lambda a, b: a / b,
    "embedding": lambda weight, places, *_: weight[places],
    "eq": mx.equal,
    "erf": mx.erf,
    "exp": mx.exp,
    "expand": expand,
    "flatten": lambda a, first=0, last=-1: mx.flatten(a, first, last),
    "full": like(lambda shape, value, dtype: mx.full(shape, value, dtype=dtype)),
    "gather": lambda a, axis, places: mx.take_along_axis(a, places, axis),
    "ge": mx.greater_equal,
    "gelu": gelu,
    "getitem": lambda parts, place: parts[place],
    "gt": mx.greater,
    "hardsigmoid": lambda a: hardtanh(a / 6 + 0.5, 0.0, 1.0),
    "hardswish": hardswish,
    "hardtanh": hardtanh,
    "layer_norm": layer_norm,
    "le": mx.less_equal,
    "linear": linear,
    "log": mx.log,
    "log_softmax": lambda a, axis, dtype=None: a - mx.logsumexp(a, axis, keepdims=True),
    "logical_not": mx.logical_not,
    "lt": mx.less,
    "masked_fill": lambda a, mask, value: mx.where(mask, value, a),
    "matmul": mx.matmul,
    "mean": mean,
    "mm": mx.matmul,
    "mse_loss": mean_squared,
    "mul": lambda a, b: a * b,
    "ne": mx.not_equal,
    "neg": mx.negative,
    "ones": like(mx.ones),
    "pad": lambda a, sizes, mode="constant", value=None: pad(a, sizes, value or 0.0),
    "permute": permute,
    "pow": mx.power,
    "relu": lambda a: mx.where(a > 0, a, 0.0),
    "reshape": mx.reshape,
    "rsqrt": mx.rsqrt,
    "rsub": lambda a, b, alpha=1: b - alpha * a,
    "scaled_dot_product_attention": attend,
    "select": pick,
    "sigmoid": mx.sigmoid,
    "silu": lambda a: a * mx.sigmoid(a),
    "sin": mx.sin,
    "slice": cut,
    "softmax": lambda a, axis, dtype=None: mx.softmax(a, axis, precise=True),
    "split": split,
    "split_with_sizes": split,
    "sqrt": mx.sqrt,
    "squeeze": squeeze,
    "stack": lambda arrays, axis=0: mx.stack(arrays, axis),
    "sub": sums(-1),
    "sum": total,
    "t": lambda a: a.T,
    "tanh": mx.tanh,
    "transpose": mx.swapaxes,
    "tril": lambda a, diagonal=0: mx.tril(a, diagonal),
    "triu": lambda a, diagonal=0: mx.triu(a, diagonal),
    "unbind": unbind,
    "unsqueeze": mx.expand_dims,
    "view": mx.reshape,
    "where": mx.where,
    "zeros": like(mx.zeros),
    "zeros_like": like(mx.zeros),
}


def type_of(name: str) -> Any:
    """MLX's type of torch's name; whole numbers keep their width.

    Raises:
        ValueError: There is none.
    """
    if name not in _TYPES:
        raise ValueError(f"numbers of {name}")
    return _TYPES[name]
