"""Floating-point operations of torch operations, from the shapes they were called with.

Multiply-adds count as two. Only operations that are products of matrices or convolutions are
counted, as in the literature; the rest is None (not known), never 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

Shape = Sequence[int]


def flops_of(name: str, shapes: Sequence[Any], values: Sequence[Any]) -> int | None:
    """FLOPs of one call.

    Args:
        name: Operation, e.g. "aten::addmm".
        shapes: Of each input: a shape, a list of shapes, or None for what is no tensor.
        values: Of each input that is no tensor: its value (numbers and lists of numbers), else None.
    """
    formula = _FORMULAS.get(name)
    if formula is None:
        return None
    try:
        return formula(shapes, values)
    except (IndexError, TypeError, ValueError):  # called in a form that the formula does not know
        return None


def _mm(shapes: Sequence[Any], values: Sequence[Any]) -> int:
    (n, k), (_, m) = shapes[0], shapes[1]
    return int(2 * n * k * m)


def _addmm(shapes: Sequence[Any], values: Sequence[Any]) -> int:
    return _mm(shapes[1:], values)


def _bmm(shapes: Sequence[Any], values: Sequence[Any]) -> int:
    (b, n, k), (_, _, m) = shapes[0], shapes[1]
    return int(2 * b * n * k * m)


def _baddbmm(shapes: Sequence[Any], values: Sequence[Any]) -> int:
    return _bmm(shapes[1:], values)


def _spatial(value: Any, count: int) -> list[int]:
    numbers = list(value) if isinstance(value, (list, tuple)) else [value]
    return [int(n) for n in (numbers if len(numbers) == count else numbers * count)]


def _convolution(shapes: Sequence[Any], values: Sequence[Any]) -> int:
    """aten::convolution(input, weight, bias, stride, padding, dilation, transposed, ...)."""
    x, w = shapes[0], shapes[1]
    if values[6]:  # transposed: every input element meets the kernel once
        return int(2 * prod(x) * prod(w[1:]))
    rank = len(x) - 2
    stride, padding, dilation = (_spatial(values[i], rank) for i in (3, 4, 5))
    out = [
        (x[2 + d] + 2 * padding[d] - dilation[d] * (w[2 + d] - 1) - 1) // stride[d] + 1
        for d in range(rank)
    ]
    return int(2 * x[0] * prod(out) * prod(w))


def _convolution_backward(shapes: Sequence[Any], values: Sequence[Any]) -> int:
    """aten::convolution_backward(grad_output, input, weight, ..., output_mask last)."""
    grad, _, w = shapes[0], shapes[1], shapes[2]
    x = shapes[1]
    transposed = bool(values[7])
    one = 2 * (prod(x) * prod(w[1:]) if transposed else grad[0] * prod(grad[2:]) * prod(w))
    mask = values[-1]
    wanted = sum(map(bool, mask[:2])) if isinstance(mask, (list, tuple)) and len(mask) >= 2 else 2
    return int(one * wanted)


def _lstm_layer(shapes: Sequence[Any], values: Sequence[Any]) -> int:
    """aten::mkldnn_rnn_layer(input (T, N, I), w_ih (4H, I), w_hh (4H, H), ...)."""
    t, n, i = shapes[0]
    gates, h = shapes[2]
    return int(2 * t * n * gates * (i + h))


def _lstm_layer_backward(shapes: Sequence[Any], values: Sequence[Any]) -> int:
    """aten::mkldnn_rnn_layer_backward(input, w_ih, w_hh, ...): gradients of inputs and weights."""
    return 2 * _lstm_layer(shapes, values)


def _attention(shapes: Sequence[Any], values: Sequence[Any]) -> int:
    """Query (..., L, E), key (..., S, E), value (..., S, V): scores, then their sums of values."""
    *batch, length, size = shapes[0]
    return int(2 * prod(batch) * length * shapes[1][-2] * (size + shapes[2][-1]))


def _attention_backward(shapes: Sequence[Any], values: Sequence[Any]) -> int:
    """(grad_output, query, key, value, ...): the scores anew, and four gradients."""
    *batch, length, size = shapes[1]
    return int(2 * prod(batch) * length * shapes[2][-2] * (3 * size + 2 * shapes[3][-1]))


_FORMULAS: dict[str, Callable[[Sequence[Any], Sequence[Any]], int]] = {
    "aten::mm": _mm,
    "aten::addmm": _addmm,
    "aten::bmm": _bmm,
    "aten::baddbmm": _baddbmm,
    "aten::convolution": _convolution,
    "aten::convolution_backward": _convolution_backward,
    "aten::mkldnn_rnn_layer": _lstm_layer,
    "aten::mkldnn_rnn_layer_backward": _lstm_layer_backward,
    "aten::_scaled_dot_product_flash_attention_for_cpu": _attention,
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward": _attention_backward,
}
COUNTED = frozenset(_FORMULAS)
