"""What of a training lies beyond the trainings that values were fitted to, and how much less sure that makes it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import hypot, log
from typing import Final

import numpy as np

from wattstep.predict.time import StepTime, Values
from wattstep.predict.work import CODES, CONVOLUTIONS, KERNELS, Work
from wattstep.schema.arrays import IntArray
from wattstep.schema.step_graph import Convolution, StepGraph

# Of the trainings that the values of the Jetson TX2 are fitted to (`fitted` in its file): batch sizes, GMAC of
# a sample's forward pass, sides of images, with what is near enough to the one side that they had.
BATCHES: Final = (2, 256)
GMAC: Final = (0.01, 1.8)
SIDES: Final = (150, 336)
SIDE: Final = 224

PRODUCTS_SPREAD: Final = log(
    2
)  # by which products of matrices may be off, which nothing was fitted to
STRANGE_SPREAD: Final = log(3)  # and other work of kinds that no training of the fit had
OUTSIDE_SPREAD: Final = log(1.5)  # the whole step, for each thing that is out of range
MEMORY_SPREAD: Final = log(1.25)  # memory, if anything is
WORTH_SAYING: Final = 0.05

PRODUCTS: Final = "matrix product"
_STRANGE_KINDS: Final = frozenset((PRODUCTS, "attention", "recurrent", "embedding"))
_FITTED_OTHERS: Final = frozenset(("aten::bernoulli_", "aten::ones_like", "aten::zeros_like"))
GATHERS: Final = re.compile(r"::(index|gather|scatter|sort|topk|cumsum)")
_OTHER_OPTIMIZER: Final = re.compile(r"sqrt|addcdiv|addcmul|lerp")


def strange_convolution(shapes: Convolution) -> str:
    """What a convolution is, but for transposed ones, that no training of a fit had; "" where they had its like."""
    if len(shapes.kernel) != 2:
        return f"convolution in {len(shapes.kernel)} dimension{'s'[: len(shapes.kernel) > 1]}"
    if max(shapes.dilation, default=1) > 1:
        return "dilated convolution"
    return "grouped convolution" if 1 < shapes.groups != shapes.inputs else ""


def strange_operation(graph: StepGraph, place: int) -> str:
    """What an operation is that no training of the fit had; "" where they had its like."""
    shapes = graph.convolutions.get(place)
    name, kind = graph.names[place], graph.kinds[place]
    if graph.layers[place] in graph.recurrent:
        return "recurrent"
    if shapes is not None:
        if len(shapes.kernel) == 2 and shapes.transposed:
            return "transposed convolution"
        return strange_convolution(shapes)
    if graph.phases[place] == "optimizer":
        return ""
    if kind in _STRANGE_KINDS:
        return kind
    if kind == "normalization" and "batch_norm" not in name:
        return name.removeprefix("aten::").removesuffix("_backward").removeprefix("native_")
    if "softmax" in name and "log_softmax" not in name:
        return "softmax"
    if (kind == "other" and name not in _FITTED_OTHERS) or GATHERS.search(name):
        return name.removeprefix("aten::")
    return ""


@dataclass(frozen=True, kw_only=True, eq=False)
class Strange:
    """Kernels that are like none of the trainings that values were fitted to.

    Attributes:
        names: What there is of them, as of `strange_operation`; the first is "".
        codes: Index into `names` of each kernel of a step, shape (n,).
    """

    names: tuple[str, ...]
    codes: IntArray


def kernel_ranges(values: Values) -> tuple[tuple[float, float], ...]:
    """The shortest and longest side of a kernel that each of `CONVOLUTIONS` was fitted to."""
    return tuple(
        (values[kind]["least_kernel"], values[kind]["most_kernel"]) for kind in CONVOLUTIONS
    )


def strange_kernels(
    graph: StepGraph, work: Work, ranges: tuple[tuple[float, float], ...]
) -> Strange:
    """What of a step's kernels no training of the fit had.

    Args:
        graph: Of the step.
        work: Its kernels.
        ranges: As of `kernel_ranges`.
    """
    of_kind = dict(zip((CODES[kind] for kind in CONVOLUTIONS), ranges, strict=True))

    def named(place: int, code: int, side: float) -> str:
        if code not in of_kind:
            return "" if place in graph.convolutions else strange_operation(graph, place)
        least, most = of_kind[code]
        strange = strange_operation(graph, place)
        return strange or ("" if least <= side <= most else f"{KERNELS[code]} of {side:g}")

    kernels = zip(work.operations.tolist(), work.kinds.tolist(), work.sides.tolist(), strict=True)
    each = [named(*kernel) for kernel in kernels]
    names = tuple(dict.fromkeys(["", *each]))
    return Strange(names=names, codes=np.array([names.index(name) for name in each]))


def strange_shares(strange: Strange, time: StepTime) -> Mapping[str, float]:
    """Part of the step's time by kinds of work that no value was fitted to, 0 to 1, the largest first.

    Args:
        strange: Of its kernels.
        time: What they take.
    """
    seconds = np.bincount(strange.codes, time.kernels, len(strange.names)).tolist()
    ordered = sorted(zip(strange.names[1:], seconds[1:], strict=True), key=lambda item: -item[1])
    return {name: taken / time.total for name, taken in ordered}


def out_of_range(graph: StepGraph) -> list[str]:
    """What of a training is beyond the range of those that values were fitted to, with that range."""
    batch = graph.batch_size
    forward = [phase == "forward" for phase in graph.phases]
    gmac = float(graph.flops[forward].sum()) / 2 / batch / 1e9
    side = max((max(one.input_size) for one in graph.convolutions.values()), default=0)
    optimizer = any(
        phase == "optimizer" and _OTHER_OPTIMIZER.search(name)
        for name, phase in zip(graph.names, graph.phases, strict=True)
    )
    outside = []
    if not BATCHES[0] <= batch <= BATCHES[1]:
        outside.append(f"batch {round(batch):,} (fitted: {BATCHES[0]} to {BATCHES[1]})")
    if not GMAC[0] <= gmac <= GMAC[1]:
        outside.append(f"{gmac:.2g} GMAC a sample (fitted: {GMAC[0]:g} to {GMAC[1]:g})")
    if side == 0:
        outside.append("no convolution (fitted: networks of convolutions)")
    elif not SIDES[0] <= side <= SIDES[1]:
        outside.append(f"inputs of {side} px (fitted: {SIDE})")
    if optimizer:
        outside.append("an optimizer that is no SGD (fitted: SGD)")
    return outside


def reach_beyond(
    reach: Mapping[str, float], shares: Mapping[str, float], outside: list[str]
) -> dict[str, float]:
    """Half of the 90 % intervals by quantity, as logarithms, with what is beyond the fit.

    Args:
        reach: Within the fit.
        shares: As of `strange_shares`.
        outside: As of `out_of_range`.
    """
    strange = sum(
        share * (PRODUCTS_SPREAD if name == PRODUCTS else STRANGE_SPREAD)
        for name, share in shares.items()
    )
    beyond = {
        key: hypot(each, MEMORY_SPREAD) if outside or sum(shares.values()) > WORTH_SAYING else each
        for key, each in reach.items()
    }
    beyond["step_time"] = hypot(reach["step_time"], strange, OUTSIDE_SPREAD * len(outside) ** 0.5)
    return beyond


def notes_beyond(shares: Mapping[str, float], outside: list[str]) -> list[str]:
    """What a reader must know of it."""
    notes = []
    if outside:
        notes.append(
            f"beyond what values were fitted to: {'; '.join(outside)}: intervals are wider by an estimated factor"
        )
    strange = sum(shares.values())
    if strange > WORTH_SAYING:
        names = ", ".join(list(shares)[:3]) + (", ..." if len(shares) > 3 else "")
        notes.append(
            f"{100 * strange:.0f} % of the step is in operations that no value was fitted to ({names}): the "
            "interval is wider by an estimated factor"
        )
    return notes
