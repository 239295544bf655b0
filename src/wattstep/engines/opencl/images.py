"""Pooling of images."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from wattstep.engines.exported.aten import Node
from wattstep.engines.opencl.layers import pair
from wattstep.engines.opencl.lowering import Handler, Lowering, Refusal, Shape
from wattstep.engines.opencl.plan import Launch, Tensor, Written


def _places(size: int, window: int, step: int, padding: int, ceil: bool) -> int:
    """Places of a window along one side; a last one that began beyond the image is none."""
    room = size + 2 * padding - window
    places = (-(-room // step) if ceil else room // step) + 1
    return places - 1 if ceil and (places - 1) * step >= size + padding else places


def _pool(
    lowering: Lowering, node: Node, kernel: Any, stride: Any, padding: Any, *, ceil: bool = False,
    with_padding: bool = True, out_shape: Shape | None = None, maximum: bool = False,
) -> None:  # fmt: skip
    x = lowering.given(node, 0)
    height, width = x.shape[-2:]
    planes = math.prod(x.shape[:-2])
    (kh, kw), (py, px) = pair(kernel), pair(padding)
    sy, sx = pair(stride) if stride not in (None, []) else (kh, kw)
    oh, ow = _places(height, kh, sy, py, ceil), _places(width, kw, sx, px, ceil)
    out = lowering.made(node, out_shape or (*x.shape[:-2], oh, ow), x)
    shape = (planes, height, width, kh, kw, sy, sx, py, px, oh, ow)
    flops = planes * oh * ow * kh * kw
    name = "maximum" if maximum else "average"
    places = Tensor(
        name=f"places of {node['name']}", count=out.tensor.count, category="feature_maps"
    )
    more: tuple[Any, ...] = () if maximum else (int(with_padding),)
    lowering.forward(
        node,
        Launch(
            file="pooling", kernel=name, kind="pooling", size=(oh, planes), flops=flops,
            arguments=(
                *shape, *more, x.tensor, Written(tensor=out.tensor),
                *((Written(tensor=places),) if maximum else ()),
            ),
        ),
    )  # fmt: skip

    def back() -> None:
        if not lowering.needs(x):
            return
        gradient, target = lowering.gradient_of(out), lowering.target(x)
        tiles = (
            not maximum
            and (kh, kw, 0, 0) == (sy, sx, py, px)
            and oh * kh <= height
            and ow * kw <= width
        )
        how, fixed = ("average_of_tiles", ()) if tiles else (name, more)
        lowering.back(
            node,
            Launch(
                file="pooling", kernel=f"{how}_backward", kind="pooling", size=(height, planes),
                flops=flops, defines=target.defines,
                arguments=(
                    *shape, *fixed, gradient, *((places,) if maximum else ()), target.written,
                    *target.further,
                ),
            ),
        )  # fmt: skip

    lowering.backward.append(back)


def _given(node: Node, *usual: Any) -> list[Any]:
    """Arguments after the first, with what is usual where they are left out."""
    given = node["args"][1:]
    return [*given, *usual[len(given) :]]


def average(lowering: Lowering, node: Node) -> None:
    """Average pooling."""
    kernel, stride, padding, ceil, with_padding, divisor = _given(node, 1, [], 0, False, True, None)
    if divisor is not None:
        raise Refusal(node, f"divisor {divisor}")
    _pool(lowering, node, kernel, stride, padding, ceil=ceil, with_padding=with_padding)


def maximum(lowering: Lowering, node: Node) -> None:
    """Max pooling."""
    kernel, stride, padding, dilation, ceil = _given(node, 1, [], 0, 1, False)
    if pair(dilation) != (1, 1):
        raise Refusal(node, f"dilation {dilation}")
    _pool(lowering, node, kernel, stride, padding, ceil=ceil, maximum=True)


def adaptive(lowering: Lowering, node: Node) -> None:
    """Average pooling to a size."""
    x = lowering.given(node, 0)
    wanted, sides = pair(node["args"][1]), x.shape[-2:]
    if any(side % size for side, size in zip(sides, wanted, strict=True)):
        raise Refusal(node, f"to {wanted}, which is no factor of {sides}")
    kernel = [side // size for side, size in zip(sides, wanted, strict=True)]
    _pool(lowering, node, kernel, kernel, 0)


def mean(lowering: Lowering, node: Node) -> None:
    """The average of whole images."""
    x = lowering.given(node, 0)
    dims, keep = _given(node, [], False)[:2]
    rank = len(x.shape)
    if rank < 3 or sorted(each % rank for each in dims or []) != [rank - 2, rank - 1]:
        raise Refusal(node, f"over dimensions {dims}, only over those of images")
    shape = (*x.shape[:-2], 1, 1) if keep else x.shape[:-2]
    _pool(lowering, node, x.shape[-2:], x.shape[-2:], 0, out_shape=shape)


HANDLERS: Final[Mapping[str, Handler]] = {
    "avg_pool2d": average,
    "max_pool2d": maximum,
    "max_pool2d_with_indices": maximum,
    "adaptive_avg_pool2d": adaptive,
    "_adaptive_avg_pool2d": adaptive,
    "mean": mean,
}
