"""Rewrites of a network while it is traced, so that an engine trains it right: each computes the same.

A rewrite takes the place of a function of torch wherever the network calls it, in a module or by
itself, and only where it is exactly equivalent; where it is not, the function stays, and what the
engine cannot train is refused by its conformance test.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

_SKIPPED: Final = object()  # the function stays as it is
Rewrite = Callable[..., Any]


def _pair(value: int | Sequence[int]) -> tuple[int, int]:
    first, second = (value, value) if isinstance(value, int) else tuple(value)
    return int(first), int(second)


def flatten(values: Tensor, start_dim: int = 0, end_dim: int = -1) -> Any:
    """`flatten` as `reshape`."""
    dims = values.dim()
    start, end = start_dim % max(dims, 1), end_dim % max(dims, 1)
    sizes = list(map(int, values.shape))
    return values.reshape(*sizes[:start], math.prod(sizes[start : end + 1]), *sizes[end + 1 :])


def global_average(values: Tensor, output_size: Any) -> Any:
    """Average pooling to one pixel as a mean over height and width."""
    if any(size != 1 for size in _pair(output_size)):
        return _SKIPPED
    return values.mean(dim=(-2, -1), keepdim=True)


def average_to_size(values: Tensor, output_size: Any) -> Any:
    """Average pooling to a size that is no factor of the image's, as products with matrices of its windows."""
    rows, columns = (
        int(size if wanted is None else wanted)
        for wanted, size in zip(_both(output_size), values.shape[-2:], strict=True)
    )
    height, width = (int(size) for size in values.shape[-2:])
    if height % rows == 0 and width % columns == 0:
        return _SKIPPED
    down = torch.tensor(_averages(height, rows), dtype=values.dtype)
    across = torch.tensor(_averages(width, columns), dtype=values.dtype)
    return down @ values @ across.T


def _both(value: Any) -> Sequence[Any]:
    return value if isinstance(value, (tuple, list)) else (value, value)


def _averages(size: int, wanted: int) -> list[list[float]]:
    """The matrix (wanted, size) of adaptive pooling along one side."""
    matrix = []
    for place in range(wanted):
        begin, end = place * size // wanted, -(-(place + 1) * size // wanted)
        matrix.append([1 / (end - begin) if begin <= at < end else 0.0 for at in range(size)])
    return matrix


def _windows(values: Tensor, kernel: Any, stride: Any, padding: Any, ceil: bool) -> Any:
    """Values (..., rows, height, columns, width) of windows that tile the image, else None."""
    height, width = _pair(kernel)
    steps = _pair(stride) if stride not in (None, [], ()) else (height, width)
    rows, columns = int(values.shape[-2]), int(values.shape[-1])
    if steps != (height, width) or _pair(padding) != (0, 0):
        return None
    if rows % height or columns % width:  # what is left over at the edges is not looked at
        if ceil:
            return None
        values = values[..., : rows // height * height, : columns // width * width]
    return values.reshape(
        *map(int, values.shape[:-2]), rows // height, height, columns // width, width
    )


def max_pool(
    values: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False, return_indices: bool = False,
) -> Any:  # fmt: skip
    """Max pooling by windows that do not overlap, as a maximum over reshaped windows.

    Where two values of a window are equal the gradient is shared among them, which max pooling
    gives to the first: with values from a rectifier, many of which are zero, this is another
    training, so that the conformance test decides.
    """
    if return_indices or _pair(dilation) != (1, 1):
        return _SKIPPED
    windows = _windows(values, kernel_size, stride, padding, ceil_mode)
    return _SKIPPED if windows is None else windows.amax(dim=(-3, -1))


def _places(size: int, window: int, step: int, padding: int, ceil: bool) -> int:
    """Places of a window along one side; a last one that began beyond the image is none."""
    room = size + 2 * padding - window
    places = (-(-room // step) if ceil else room // step) + 1
    return places - 1 if ceil and (places - 1) * step >= size + padding else places


def _framed(values: Tensor, dim: int, before: int, after: int) -> Tensor:
    """Values with so many of minus infinity before and after them; no padding, which ExecuTorch cannot undo."""
    shape = list(map(int, values.shape))
    edges = []
    for width in (before, after):
        shape[dim] = width
        edges.append([torch.full(shape, float("-inf"), dtype=values.dtype)] if width else [])
    return torch.cat([*edges[0], values, *edges[1]], dim) if any(edges) else values


def max_pool_by_comparisons(
    values: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False, return_indices: bool = False,
) -> Any:  # fmt: skip
    """Max pooling as the larger of each two values in turn, of equal ones the first, as it picks them.

    Any windows, also those that overlap or reach over the edge.
    """
    if return_indices or _pair(dilation) != (1, 1):
        return _SKIPPED
    height, width = _pair(kernel_size)
    down, right = (height, width) if stride in (None, [], ()) else _pair(stride)
    above, left = _pair(padding)
    rows = _places(int(values.shape[-2]), height, down, above, ceil_mode)
    columns = _places(int(values.shape[-1]), width, right, left, ceil_mode)
    below = max((rows - 1) * down + height - int(values.shape[-2]) - above, 0)
    beside = max((columns - 1) * right + width - int(values.shape[-1]) - left, 0)
    if above or left or below or beside:
        values = _framed(_framed(values, -1, left, beside), -2, above, below)
    highest: Tensor | None = None
    for y in range(height):
        for x in range(width):
            one = values[
                ...,
                y : y + (rows - 1) * down + 1 : down,
                x : x + (columns - 1) * right + 1 : right,
            ]
            highest = one if highest is None else torch.where(highest >= one, highest, one)
    return highest


def chosen_max_pool(
    values: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False, return_indices: bool = False,
) -> Any:  # fmt: skip
    """Max pooling as the larger of each two values in turn, of equal ones the first, as it picks them.

    For engines that give the whole gradient to each of equal values, or a wrong one to what is sliced or
    padded: values come by reshaping and splitting, the larger of two by a product with 0 or 1.
    """
    if return_indices or _pair(dilation) != (1, 1):
        return _SKIPPED
    kernels, paddings = _pair(kernel_size), _pair(padding)
    strides = _pair(stride) if stride not in (None, [], ()) else kernels
    # Of a window the first row that has its maximum, and there the first column: columns, then rows.
    for dim, kernel, step, before in reversed(
        list(zip((-2, -1), kernels, strides, paddings, strict=True))
    ):
        size = int(values.shape[dim]) + 2 * before
        count = (size - kernel) // step + 1
        if ceil_mode and (size - kernel) % step and count * step < size - before:
            count += 1  # a window that is not whole, unless it lies in the padding
        values = _largest(values, dim, count, kernel, step, before)
    return values


def _largest(values: Tensor, dim: int, count: int, kernel: int, step: int, before: int) -> Tensor:
    """The maximum of each of `count` windows along a dimension, of equal values the first."""
    shifts = (kernel - 1) // step + 1
    whole = step * (count + shifts - 1)
    size = int(values.shape[dim])
    shape = list(map(int, values.shape))
    if before + size > whole:  # the last values lie in no window
        values = torch.split(values, [whole - before, before + size - whole], dim)[0]
        size = whole - before
    edges = []
    for width in (before, whole - before - size):
        shape[dim] = width
        edges.append(
            [torch.full(shape, torch.finfo(torch.float32).min, dtype=values.dtype)] if width else []
        )
    if any(edges):
        values = torch.cat([*edges[0], values, *edges[1]], dim)
    shape[dim] = whole // step
    at = values.dim() + dim + 1
    phases = (
        [values]
        if step == 1
        else [
            one.reshape(shape)
            for one in torch.split(values.reshape(*shape[:at], step, *shape[at:]), 1, at)
        ]
    )
    largest: Tensor | None = None
    for place in range(kernel):
        one, shift = phases[place % step], place // step
        widths = [width for width in (shift, count, shifts - 1 - shift) if width]
        if len(widths) > 1:
            one = torch.split(one, widths, dim)[1 if shift else 0]
        if largest is None:
            largest = one
        else:
            first = (largest >= one).to(one.dtype)
            largest = largest * first + one * (1 - first)
    assert largest is not None
    return largest


def gelu(values: Tensor, approximate: str = "none") -> Any:
    """The Gaussian error linear unit by the error function."""
    if approximate != "none":
        return _SKIPPED
    return values * (torch.erf(values * math.sqrt(0.5)) * 0.5 + 0.5)


def same_type(values: Tensor, *to: Any, **how: Any) -> Any:
    """A conversion to float32 of what is float32 already, as nothing."""
    if values.dtype != torch.float32 or how or to not in ((), (torch.float32,)):
        return _SKIPPED
    return values


def index(values: Tensor, at: Any) -> Any:
    """`values[:, k]` and `values[:, k:l]` as parts of a split."""
    places = at if isinstance(at, tuple) else (at,)
    *whole, last = places
    if any(each != slice(None) for each in whole) or len(places) > values.dim():
        return _SKIPPED
    dim = len(places) - 1
    size = int(values.shape[dim])
    if isinstance(last, slice):
        begin, end, step = last.indices(size)
        if step != 1 or (begin, end) == (0, size) or end <= begin:
            return _SKIPPED
    elif isinstance(last, int) and not isinstance(last, bool):
        begin = last % size
        end = begin + 1
    else:
        return _SKIPPED
    widths = [width for width in (begin, end - begin, size - end) if width]
    parts = torch.split(values, widths, dim)
    part = parts[1 if begin else 0]
    if isinstance(last, slice):
        return part
    shape = list(map(int, values.shape))
    return part.reshape(shape[:dim] + shape[dim + 1 :])


def average_pool(
    values: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
    count_include_pad: bool = True, divisor_override: Any = None,
) -> Any:  # fmt: skip
    """Average pooling by windows that do not overlap, as a mean over reshaped windows."""
    if divisor_override is not None:
        return _SKIPPED
    windows = _windows(values, kernel_size, stride, padding, ceil_mode)
    return _SKIPPED if windows is None else windows.mean(dim=(-3, -1))


def attention(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None,
    dropout_p: float = 0.0, is_causal: bool = False, scale: float | None = None,
    enable_gqa: bool = False, *, drop: Callable[[Tensor, float], Tensor] | None = None,
) -> Any:  # fmt: skip
    """Attention by its parts.

    Args:
        query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa: As of
            `scaled_dot_product_attention`.
        drop: Drops weights, as torch's own does; None: where any are dropped the function stays.
    """
    if enable_gqa or (dropout_p and drop is None):
        return _SKIPPED
    scores = query @ key.transpose(-2, -1)
    scores = scores * (int(query.shape[-1]) ** -0.5 if scale is None else scale)
    if is_causal:
        length = int(scores.shape[-1])
        attn_mask = torch.ones(length, length, dtype=torch.bool).tril()
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        scores = scores.masked_fill(~attn_mask, float("-inf"))
    elif attn_mask is not None:
        scores = scores + attn_mask
    weights = scores.softmax(dim=-1)
    return (weights if drop is None else drop(weights, dropout_p)) @ value


def hard_swish(values: Tensor, inplace: bool = False) -> Any:
    """Hard swish as torch defines it, by a clipped sum."""
    return values * (values + 3).clamp(0, 6) / 6


def hard_sigmoid(values: Tensor, inplace: bool = False) -> Any:
    """Hard sigmoid as torch defines it, by a clipped sum."""
    return (values + 3).clamp(0, 6) / 6


def local_response_norm(
    values: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Any:
    """Normalisation of images by the squares of neighbouring channels, which an average pooling adds up."""
    if values.dim() != 4 or size % 2 == 0:
        return _SKIPPED
    count, channels, height, width = map(int, values.shape)
    squares = (values * values).reshape(count, 1, channels, height * width)
    means = functional.avg_pool2d(squares, (size, 1), stride=1, padding=(size // 2, 0))
    return values / (means.reshape(count, channels, height, width) * alpha + k) ** beta


def batch_norm(
    values: Tensor, running_mean: Any, running_var: Any, weight: Any = None, bias: Any = None,
    training: bool = False, momentum: float = 0.1, eps: float = 1e-5,
) -> Any:  # fmt: skip
    """Normalisation over the batch by its mean and variance, without the running statistics."""
    if not training:
        return _SKIPPED
    dims = [0, *range(2, values.dim())]
    centred = values - values.mean(dim=dims, keepdim=True)
    scale = ((centred * centred).mean(dim=dims, keepdim=True) + eps).rsqrt()
    shape = [1, -1, *[1] * (values.dim() - 2)]
    if weight is not None:
        scale = scale * weight.reshape(shape)
    normal = centred * scale
    return normal if bias is None else normal + bias.reshape(shape)


def fixed_batch_norm(
    values: Tensor, running_mean: Any, running_var: Any, weight: Any = None, bias: Any = None,
    training: bool = False, momentum: float = 0.1, eps: float = 1e-5,
) -> Any:  # fmt: skip
    """Normalisation by statistics that stay as they are, as a scale and a shift of each channel."""
    if training:
        return _SKIPPED
    scale = (running_var + eps).rsqrt()
    if weight is not None:
        scale = scale * weight
    shift = -running_mean * scale
    if bias is not None:
        shift = shift + bias
    shape = [1, -1, *[1] * (values.dim() - 2)]
    return values * scale.reshape(shape) + shift.reshape(shape)


def fixed_batch_norm_by_steps(
    values: Tensor, running_mean: Any, running_var: Any, weight: Any = None, bias: Any = None,
    training: bool = False, momentum: float = 0.1, eps: float = 1e-5,
) -> Any:  # fmt: skip
    """As `fixed_batch_norm`, with each parameter in an operation of its own, where none is folded away."""
    if training:
        return _SKIPPED
    shape = [1, -1, *[1] * (values.dim() - 2)]
    scale = (running_var + eps).rsqrt().reshape(shape)
    normal = (values - running_mean.reshape(shape)) * scale
    if weight is not None:
        normal = normal * weight.reshape(shape)
    return normal if bias is None else normal + bias.reshape(shape)


def layer_norm(
    values: Tensor, normalized_shape: Sequence[int], weight: Any = None, bias: Any = None,
    eps: float = 1e-5,
) -> Any:  # fmt: skip
    """Normalisation of each sample by its mean and variance."""
    dims = list(range(-len(normalized_shape), 0))
    centred = values - values.mean(dim=dims, keepdim=True)
    normal = centred * ((centred * centred).mean(dim=dims, keepdim=True) + eps).rsqrt()
    if weight is not None:
        normal = normal * weight
    return normal if bias is None else normal + bias


class Rewriting(TorchFunctionMode):
    """Puts rewrites in the place of functions while a network runs.

    Args:
        names: Of `REWRITES`.

    Attributes:
        applied: Sentences of those that took a place.
    """

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__()
        self._by_function: dict[Any, list[tuple[str, Rewrite]]] = {}
        for name in names:
            functions, rewrite, _ = REWRITES[name]
            for function in functions:  # the first that may take its place does
                self._by_function.setdefault(function, []).append((name, rewrite))
        self._applied: dict[str, int] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for name, rewrite in self._by_function.get(func, ()):
            result = rewrite(*args, **(kwargs or {}))  # within which torch calls no mode
            if result is not _SKIPPED:
                self._applied[name] = self._applied.get(name, 0) + 1
                return result
        return func(*args, **(kwargs or {}))

    @property
    def applied(self) -> list[str]:
        """A sentence of each rewrite, with how many functions it replaced."""
        return [f"{REWRITES[name][2]} ({count}×)" for name, count in sorted(self._applied.items())]


# By name: the functions of torch whose place it takes, itself, and what is said of it.
REWRITES: Final[Mapping[str, tuple[Sequence[Any], Rewrite, str]]] = {
    "flatten": ((torch.flatten, Tensor.flatten), flatten, "flatten as reshape"),
    "global average": (
        (functional.adaptive_avg_pool2d,), global_average, "average over an image as mean",
    ),
    "average to size": (
        (functional.adaptive_avg_pool2d,), average_to_size,
        "average to a size that is no factor of the image's as products with matrices",
    ),
    "attention": (
        (functional.scaled_dot_product_attention,), attention,
        "attention as products with a softmax between them",
    ),
    "fixed batch norm": (
        (functional.batch_norm,), fixed_batch_norm,
        "batch normalisation by fixed statistics as scale and shift",
    ),
    "fixed batch norm by steps": (
        (functional.batch_norm,), fixed_batch_norm_by_steps,
        "batch normalisation by fixed statistics as its sums and products",
    ),
    "hard swish": ((functional.hardswish,), hard_swish, "hard swish as a clipped sum"),
    "hard sigmoid": ((functional.hardsigmoid,), hard_sigmoid, "hard sigmoid as a clipped sum"),
    "local response norm": (
        (functional.local_response_norm,), local_response_norm,
        "local response normalisation by an average pooling over channels",
    ),
    "max pool": (
        (functional.max_pool2d, torch.max_pool2d),
        max_pool, "max pooling as maximum over reshaped windows",
    ),
    "max pool by comparisons": (
        (functional.max_pool2d, torch.max_pool2d),
        max_pool_by_comparisons, "max pooling by comparing the values of each window in turn",
    ),
    "chosen max pool": (
        (functional.max_pool2d, torch.max_pool2d),
        chosen_max_pool,
        "max pooling as the larger of each two values in turn",
    ),
    "gelu": ((functional.gelu,), gelu, "GELU by the error function"),
    "same type": (
        (Tensor.float, Tensor.to), same_type, "conversion from float32 to float32 left out",
    ),
    "index": ((Tensor.__getitem__,), index, "indexing as a split"),
    "average pool": (
        (functional.avg_pool2d,), average_pool, "average pooling as mean over reshaped windows",
    ),
    "batch norm": (
        (functional.batch_norm,), batch_norm,
        "batch normalisation by mean and variance; running statistics are not kept",
    ),
    "layer norm": (
        (functional.layer_norm,), layer_norm, "layer normalisation by mean and variance",
    ),
}  # fmt: skip
