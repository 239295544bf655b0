"""Layers with weights: linear layers, convolutions, batch normalisation."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from wattstep.engines.exported.aten import Node
from wattstep.engines.opencl.lowering import Handler, Lowering, Refusal, Value
from wattstep.engines.opencl.plan import WORKSPACE, Launch, Tensor, Written

COLUMNS, MOST_ROWS = 8, 8  # of a work item of `product`
RIGHT, MOST_LEFT = 4, 4  # of `product_of_rows`
PRODUCT: Final = "matrix product"
INPUT_GRADIENT: Final = "convolution input gradient"
WEIGHT_GRADIENT: Final = "convolution weight gradient"
BY_ROW, BY_COLUMN = 1, 2  # of a bias


def pair(value: Any) -> tuple[int, int]:
    """Both sides of what may be one number for both."""
    first, second = (value, value) if isinstance(value, int) else (*value, *value)[:2]
    return int(first), int(second)


def _blocks(count: int, size: int) -> int:
    return -(-count // size)


def _rows(count: int, most: int) -> int:
    """Rows of a block, of as few equal blocks as there can be."""
    return _blocks(count, _blocks(count, most))


def _product(
    rows: int, columns: int, samples: int, *, more: int = 0, defines: Mapping[str, int], **of: Any
) -> Launch:
    """A launch of `product`.

    Args:
        rows: Of each product.
        columns: Likewise.
        samples: Products.
        more: Further blocks of columns.
        defines: Constants.
        of: Further fields of the launch.
    """
    high = _rows(rows, MOST_ROWS)
    return Launch(
        file="product", kernel="product", defines={**defines, "ROWS": high},
        size=(_blocks(columns, COLUMNS) + more, _blocks(rows, high), samples), **of,
    )  # fmt: skip


def _product_of_rows(
    rows: int, columns: int, *, groups: int = 1, defines: Mapping[str, int], **of: Any
) -> Launch:
    """A launch of `product_of_rows`, of one product for each group; arguments as of `_product`."""
    high = _rows(rows, MOST_LEFT)
    return Launch(
        file="product", kernel="product_of_rows", defines={**defines, "LEFT": high},
        size=(_blocks(columns, RIGHT), _blocks(rows, high), groups), **of,
    )  # fmt: skip


def linear(lowering: Lowering, node: Node) -> None:
    """x w^T + b, of rows of x."""
    x, weight, bias = lowering.given(node, 0), lowering.given(node, 1), lowering.optional(node, 2)
    outputs, inputs = weight.shape
    rows = math.prod(x.shape[:-1])
    out = lowering.made(
        node, (*x.shape[:-1], outputs), *(each for each in (x, weight, bias) if each is not None)
    )
    with_bias = {"BIAS": BY_COLUMN} if bias is not None else {}
    lowering.forward(
        node,
        _product_of_rows(
            rows, outputs, kind=PRODUCT, flops=2 * rows * inputs * outputs,
            arguments=(
                rows, outputs, inputs, 1, x.tensor, 0, inputs, weight.tensor, 0, inputs, outputs,
                Written(tensor=out.tensor), *((bias.tensor,) if bias is not None else ()),
            ),
            defines={**with_bias, **lowering.activate(node, out)},
        ),
    )  # fmt: skip

    def back() -> None:
        if not lowering.needs(out):
            return
        gradient, launches = lowering.gradient_of(out), []
        if lowering.needs(x):
            target = lowering.target(x)
            launches.append(
                _product(
                    rows, inputs, 1, kind=PRODUCT, flops=2 * rows * inputs * outputs,
                    arguments=(
                        rows, inputs, outputs, gradient, 0, outputs, 1, weight.tensor, 0, inputs, 0,
                        inputs, target.written, *target.further,
                    ),
                    defines=target.defines,
                )
            )  # fmt: skip
        launches += _weight_gradients(lowering, x, weight, bias, gradient, rows)
        lowering.back(node, *launches)

    lowering.backward.append(back)


def _weight_gradients(
    lowering: Lowering, x: Value, weight: Value, bias: Value | None, gradient: Tensor, rows: int
) -> list[Launch]:
    """Of a linear layer; where kernels are fused with their update, in one launch."""
    outputs, inputs = weight.shape
    shape = (outputs, inputs, rows, gradient, 0, 1, outputs, x.tensor, 0, inputs, 0, inputs)
    flops = 2 * rows * inputs * outputs
    of_weight = lowering.update_arguments(weight)
    if of_weight is not None:
        of_bias = () if bias is None else lowering.update_arguments(bias) or ()
        more = 0 if bias is None else 1
        return [
            _product(
                outputs, inputs, 1, more=more, kind=PRODUCT, updates=True, flops=flops,
                arguments=(*shape, *of_weight, *of_bias),
                defines={"UPDATE": 1, "SUMS": more},
            )
        ]  # fmt: skip
    launches = []
    if lowering.needs(weight):
        target = lowering.target(weight)
        launches.append(
            _product(
                outputs, inputs, 1, kind=PRODUCT, flops=flops,
                arguments=(*shape, target.written), defines=target.defines,
            )
        )  # fmt: skip
    if bias is not None and lowering.needs(bias):
        launches.append(_bias_gradient(lowering, bias, gradient, rows, 1))
    return launches


def _bias_gradient(
    lowering: Lowering, bias: Value, gradient: Tensor, samples: int, pixels: int
) -> Launch:
    """Sums of (samples, channels, pixels) by channel."""
    (channels,) = bias.shape
    target = lowering.target(bias)
    return Launch(
        file="product", kernel="sums", kind="reduction", size=(channels,), grouped=True,
        flops=samples * channels * pixels,
        arguments=(samples, pixels, gradient, channels * pixels, pixels, target.written),
        defines=target.defines,
    )  # fmt: skip


def conv2d(lowering: Lowering, node: Node) -> None:
    """Convolution of images, by the columns of its windows."""
    x, weight, bias = lowering.given(node, 0), lowering.given(node, 1), lowering.optional(node, 2)
    given = node["args"]
    _, stride, padding, dilation, groups = [*given, *_USUAL[len(given) - 2 :]][2:7]
    if isinstance(padding, str):
        raise Refusal(node, f"padding {padding!r}")
    samples, channels, height, width = x.shape
    outputs, _, kh, kw = weight.shape
    (sy, sx), (py, px), (dy, dx) = pair(stride), pair(padding), pair(dilation)
    oh = (height + 2 * py - dy * (kh - 1) - 1) // sy + 1
    ow = (width + 2 * px - dx * (kw - 1) - 1) // sx + 1
    # A group is a convolution of its own: its channels, places of windows and outputs follow each other.
    places, pixels, own = channels // groups * kh * kw, oh * ow, outputs // groups
    out = lowering.made(
        node, (samples, outputs, oh, ow),
        *(each for each in (x, weight, bias) if each is not None),
    )  # fmt: skip
    shape = (channels, height, width, kh, kw, sy, sx, py, px, dy, dx, oh, ow)
    plain = (kh, kw, sy, sx, py, px) == (1, 1, 1, 1, 0, 0)  # windows are the image itself
    flops = 2 * samples * outputs * places * pixels

    def windows() -> tuple[Tensor, list[Launch]]:
        if plain:
            return x.tensor, []
        columns = Tensor(
            name=f"windows of {node['name']}", count=samples * groups * places * pixels,
            category=WORKSPACE,
        )  # fmt: skip
        launch = Launch(
            file="convolution", kernel="windows", kind="data movement",
            size=(groups * places, samples),
            arguments=(*shape, x.tensor, Written(tensor=columns)),
        )  # fmt: skip
        return columns, [launch]

    columns, launches = windows()
    with_bias = {"BIAS": BY_ROW} if bias is not None else {}
    product = _product(
        own, pixels, samples * groups, kind="convolution", flops=flops,
        arguments=(
            own, pixels, places, weight.tensor, own * places, places, 1, columns, places * pixels,
            pixels, own * pixels, pixels, Written(tensor=out.tensor),
            *((bias.tensor,) if bias is not None else ()),
        ),
        defines={**_turns(groups), **with_bias, **lowering.activate(node, out)},
    )  # fmt: skip
    lowering.forward(node, *launches, product)

    def back() -> None:
        if not lowering.needs(out):
            return
        gradient, launches = lowering.gradient_of(out), []
        if lowering.needs(weight):
            # Fused, the columns of the forward pass stay; else they are made once more, as between
            # operations that know nothing of each other.
            again, moved = (columns, []) if lowering.fused else windows()
            target = lowering.target(weight)
            launches += [
                *moved,
                _product_of_rows(
                    own, places, groups=groups, kind=WEIGHT_GRADIENT, flops=flops,
                    arguments=(
                        own, places, pixels, samples, gradient, outputs * pixels, pixels, again,
                        groups * places * pixels, pixels, places, target.written,
                    ),
                    defines=target.defines,
                ),
            ]  # fmt: skip
        if bias is not None and lowering.needs(bias):
            launches.append(_bias_gradient(lowering, bias, gradient, samples, pixels))
        if lowering.needs(x):
            launches += _image_gradient(lowering, x, weight, gradient, shape, groups, plain, flops)
        lowering.back(node, *launches)

    lowering.backward.append(back)


def _turns(groups: int) -> dict[str, int]:
    """Constants of `product` where groups of channels have weights of their own."""
    return {"GROUPS": groups} if groups > 1 else {}


_USUAL: Final = (None, 1, 0, 1, 1)  # bias, stride, padding, dilation, groups


def _image_gradient(
    lowering: Lowering, x: Value, weight: Value, gradient: Tensor, shape: tuple[int, ...],
    groups: int, plain: bool, flops: int,
) -> list[Launch]:  # fmt: skip
    samples = x.shape[0]
    own, places = weight.shape[0] // groups, math.prod(weight.shape[1:])
    channels, height, (oh, ow) = shape[0], shape[1], shape[-2:]
    pixels = oh * ow
    target = lowering.target(x)
    columns = Tensor(
        name=f"gradient of windows of {x.tensor.name}",
        count=samples * groups * places * pixels, category=WORKSPACE,
    )  # fmt: skip
    product = _product(
        places, pixels, samples * groups, kind=INPUT_GRADIENT, flops=flops,
        arguments=(
            places, pixels, own, weight.tensor, own * places, 1, places, gradient, own * pixels,
            pixels, places * pixels, pixels,
            *((target.written, *target.further) if plain else (Written(tensor=columns),)),
        ),
        defines={**_turns(groups), **(target.defines if plain else {})},
    )  # fmt: skip
    if plain:
        return [product]
    back = Launch(
        file="convolution", kernel="image_of_windows", kind=INPUT_GRADIENT,
        size=(height, channels, samples), flops=samples * groups * places * pixels,
        arguments=(*shape, columns, target.written, *target.further), defines=target.defines,
    )  # fmt: skip
    return [product, back]


def batch_norm(lowering: Lowering, node: Node) -> None:
    """Batch normalisation by the statistics of the batch; running ones are kept."""
    x, weight, bias = (
        lowering.given(node, 0),
        lowering.optional(node, 1),
        lowering.optional(node, 2),
    )
    if weight is None or bias is None:
        raise Refusal(node, "without scale and shift")
    mean, variance = lowering.given(node, 3), lowering.given(node, 4)
    training, momentum, eps = node["args"][5:8]
    if not training:
        raise Refusal(node, "by fixed statistics")
    samples, channels = x.shape[:2]
    pixels = math.prod(x.shape[2:])
    planes = samples * channels
    out = lowering.made(node, x.shape, x, weight, bias)
    statistics = Tensor(
        name=f"statistics of {node['name']}", count=2 * channels, category="feature_maps"
    )
    lowering.forward(
        node,
        Launch(
            file="normalization", kernel="statistics", kind="normalization", size=(channels,),
            grouped=True, flops=4 * planes * pixels,
            arguments=(
                samples, channels, pixels, float(eps), float(momentum), x.tensor,
                Written(tensor=statistics), Written(tensor=mean.tensor, read=True),
                Written(tensor=variance.tensor, read=True),
            ),
        ),
        Launch(
            file="normalization", kernel="normalized", kind="normalization", size=(pixels, planes),
            chunked=True, flops=3 * planes * pixels,
            arguments=(
                planes, channels, pixels, x.tensor, statistics, weight.tensor, bias.tensor,
                Written(tensor=out.tensor),
            ),
            defines=lowering.activate(node, out),
        ),
    )  # fmt: skip

    def back() -> None:
        if not lowering.needs(out):
            return
        gradient = lowering.gradient_of(out)
        # Both are needed for the gradient of the values, also where scale and shift do not train.
        of_weight, of_bias = (
            lowering.target(each).written
            if lowering.needs(each)
            else Written(tensor=Tensor(name="sum", count=channels, category=WORKSPACE))
            for each in (weight, bias)
        )
        if of_weight.read or of_bias.read:
            raise Refusal(node, "scale or shift is used twice")
        launches = [
            Launch(
                file="normalization", kernel="normalize_sums", kind="normalization",
                size=(channels,), grouped=True, flops=4 * planes * pixels,
                arguments=(
                    samples, channels, pixels, x.tensor, statistics, gradient, of_weight, of_bias,
                ),
            )
        ]  # fmt: skip
        if lowering.needs(x):
            target = lowering.target(x)
            launches.append(
                Launch(
                    file="normalization", kernel="normalize_backward", kind="normalization",
                    size=(pixels, planes), chunked=True, flops=6 * planes * pixels,
                    arguments=(
                        planes, channels, pixels, float(samples * pixels), x.tensor, statistics,
                        weight.tensor, of_weight.tensor, of_bias.tensor, gradient, target.written,
                        *target.further,
                    ),
                    defines=target.defines,
                )
            )  # fmt: skip
        lowering.back(node, *launches)

    lowering.backward.append(back)


HANDLERS: Final[Mapping[str, Handler]] = {
    "linear": linear,
    "conv2d": conv2d,
    "_native_batch_norm_legit_functional": batch_norm,
}
