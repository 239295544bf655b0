"""Activations, sums, products value by value, and joining of channels."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from wattstep.engines.exported.aten import Node
from wattstep.engines.opencl.lowering import (
    ACTIVATIONS,
    Handler,
    Lowering,
    Refusal,
    Value,
    check_activation,
)
from wattstep.engines.opencl.plan import Argument, Launch, Tensor, Written


def _each(kernel: str, count: int, *arguments: Argument, kind: str, **defines: int) -> Launch:
    return Launch(
        file="elementwise", kernel=kernel, size=(count,), chunked=True, kind=kind, flops=count,
        arguments=(count, *arguments), defines=defines,
    )  # fmt: skip


def activation(lowering: Lowering, node: Node) -> None:
    """One that no kernel before it has made as well."""
    check_activation(node)
    x, code = lowering.given(node, 0), ACTIVATIONS[node["op"]]
    out = lowering.made(node, x.shape, x)
    count = x.tensor.count
    lowering.forward(
        node,
        _each("activate", count, x.tensor, Written(tensor=out.tensor), kind="activation", ACT=code),
    )

    def back() -> None:
        if not lowering.needs(x):
            return
        gradient, target = lowering.gradient_of(out), lowering.target(x)
        if target.further:
            raise Refusal(node, "an activation of an activation")
        lowering.back(
            node,
            _each(
                "activation_backward", count, gradient, out.tensor, target.written,
                kind="activation", **{**target.defines, "DACT": code},
            ),
        )  # fmt: skip

    lowering.backward.append(back)


def add(lowering: Lowering, node: Node) -> None:
    """The sum of two tensors of one shape."""
    a, b = _both(lowering, node)
    if node["kwargs"].get("alpha", 1) != 1:
        raise Refusal(node, "with a factor")
    out = lowering.made(node, a.shape, a, b)
    count = out.tensor.count
    lowering.forward(
        node,
        _each(
            "add", count, a.tensor, b.tensor, Written(tensor=out.tensor), kind="elementwise",
            **lowering.activate(node, out),
        ),
    )  # fmt: skip

    def back() -> None:
        if not lowering.needs(out):
            return
        gradient, launches = lowering.gradient_of(out), []
        for each in (a, b):
            if lowering.needs(each):
                target = lowering.target(each)
                kind = "elementwise" if target.defines else "data movement"
                launches.append(
                    _each(
                        "pass", count, gradient, target.written, *target.further, kind=kind,
                        **target.defines,
                    )
                )  # fmt: skip
        lowering.back(node, *launches)

    lowering.backward.append(back)


def multiply(lowering: Lowering, node: Node) -> None:
    """The product of two tensors of one shape, value by value: a mask of dropout."""
    a, b = _both(lowering, node)
    out = lowering.made(node, a.shape, a, b)
    count = out.tensor.count
    lowering.forward(
        node,
        _each(
            "multiply", count, a.tensor, b.tensor, Written(tensor=out.tensor), kind="elementwise"
        ),
    )

    def back() -> None:
        if not lowering.needs(out):
            return
        gradient, launches = lowering.gradient_of(out), []
        for each, other in ((a, b), (b, a)):
            if lowering.needs(each):
                target = lowering.target(each)
                launches.append(
                    _each(
                        "multiply", count, gradient, other.tensor, target.written, *target.further,
                        kind="elementwise", **target.defines,
                    )
                )  # fmt: skip
        lowering.back(node, *launches)

    lowering.backward.append(back)


def _both(lowering: Lowering, node: Node) -> tuple[Value, Value]:
    if not all(isinstance(each, dict) and "of" in each for each in node["args"][:2]):
        raise Refusal(node, "with a number")
    a, b = lowering.given(node, 0), lowering.given(node, 1)
    if a.shape != b.shape:
        raise Refusal(node, f"of shapes {a.shape} and {b.shape}")
    return a, b


def join(lowering: Lowering, node: Node) -> None:
    """Tensors one after the other along a dimension."""
    parts = [lowering.values[each["of"]] for each in node["args"][0]]
    rank = len(parts[0].shape)
    axis = (node["args"][1] if len(node["args"]) > 1 else 0) % rank
    shape = list(parts[0].shape)
    shape[axis] = sum(each.shape[axis] for each in parts)
    out = lowering.made(node, tuple(shape), *parts)
    rows, whole = math.prod(shape[:axis]), math.prod(shape[axis:])
    widths = [math.prod(each.shape[axis:]) for each in parts]
    begins = [sum(widths[:at]) for at in range(len(widths))]

    def copied(width: int, source: Tensor, of: tuple[int, int], to: Written, at: tuple[int, int],
               further: tuple[Argument, ...] = (), **defines: int) -> Launch:  # fmt: skip
        return Launch(
            file="elementwise", kernel="copy_rows", size=(width, rows), chunked=True,
            kind="data movement", arguments=(rows, width, source, *of, to, *at, *further),
            defines=defines,
        )  # fmt: skip

    placed = list(zip(parts, widths, begins, strict=True))
    lowering.forward(
        node,
        *(
            copied(width, each.tensor, (width, 0), Written(tensor=out.tensor), (whole, begin))
            for each, width, begin in placed
        ),
    )

    def back() -> None:
        if not lowering.needs(out):
            return
        gradient, launches = lowering.gradient_of(out), []
        for each, width, begin in placed:
            if lowering.needs(each):
                target = lowering.target(each)
                launches.append(
                    copied(
                        width, gradient, (whole, begin), target.written, (width, 0),
                        target.further, **target.defines,
                    )
                )  # fmt: skip
        lowering.back(node, *launches)

    lowering.backward.append(back)


HANDLERS: Final[Mapping[str, Handler]] = {
    **dict.fromkeys(ACTIVATIONS, activation),
    "add": add,
    "mul": multiply,
    "cat": join,
}
