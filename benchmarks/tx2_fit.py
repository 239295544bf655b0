"""Values of the kinds of operations on a Jetson TX2, fitted to measured networks, and what they miss of others.

For `predict_tx2.py`. Few values, each with a prior that a fit leaves only where measurements insist: what a
prior rests on stands beside it. Rows of one network are not independent, so they do not count as if they
were.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final

import numpy as np
from scipy import stats
from scipy.optimize import least_squares

from tx2_networks import MIB, Network
from wattstep.predict.memory import has_products, system_memory
from wattstep.predict.time import host_seconds, kernel_seconds, overlapped, step_time
from wattstep.predict.work import CODES, CONVOLUTIONS, Work

BATCHES: Final = (2, 4, 8, 16, 32, 64, 80, 100, 128, 160, 200, 256)  # of the fit
# A step is taken to scatter by 10 % around the model; a network's rows count as few, an unpruned
# network's (which people train) as more.
SCATTER: Final = 0.1
WEIGHT: Final = {True: 0.6, False: 0.25}
NEAR_WALL_MIB: Final = 6150  # of used memory: from here on the system swaps, and times say nothing

# Value: prior and its standard deviation in the logarithm; the kinds that share it; what it rests on.
PRIORS: Final[dict[str, tuple[float, float, tuple[tuple[str, str], ...]]]] = {
    # VGG-16, nearly all 3×3, trains at 1.05 of the peak in all on a Pascal card of the same kernels
    # (https://github.com/jcjohnson/cnn-benchmarks: 128.6 ms at batch 16 on a Titan X of 10.97 TFLOP/s),
    # traffic and first layer included: Winograd's transform saves multiplications.
    "dense forward": (1.5, 0.3, (("dense convolution", "forward_efficiency"),)),
    "dense data": (1.5, 0.3, (("dense convolution", "data_efficiency"),)),
    "dense weights": (1.5, 0.3, (("dense convolution", "weights_efficiency"),)),
    # A product of matrices of middling shapes.
    "pointwise": (
        0.5,
        0.3,
        tuple(
            ("pointwise convolution", f"{name}_efficiency")
            for name in ("forward", "data", "weights")
        ),
    ),
    "strided": (
        0.5,
        0.4,
        tuple(("strided convolution", f"{name}_efficiency") for name in ("forward", "data")),
    ),
    "strided weights": (0.3, 0.5, (("strided convolution", "weights_efficiency"),)),
    # Tensors are read and written by transforms, too: several times over the memory's bandwidth.
    "dense traffic": (4.0, 0.5, (("dense convolution", "traffic_times"),)),
    "pointwise traffic": (4.0, 0.5, (("pointwise convolution", "traffic_times"),)),
    "strided traffic": (3.0, 0.5, (("strided convolution", "traffic_times"),)),
    "half rows": (8.0, 0.4, (("convolution", "half_rows"),)),
    "half depth": (24.0, 0.5, (("convolution", "half_depth"),)),
    "half parallel": (20_000.0, 1.0, (("convolution", "half_parallel"),)),
    "dense unaligned": (0.7, 0.25, (("dense convolution", "unaligned"),)),
    "pointwise unaligned": (0.9, 0.15, (("pointwise convolution", "unaligned"),)),
    # Plain loops of torch 1.6, an output a thread; for weights a block reads everything anew a tap.
    "depthwise forward": (0.06, 0.6, (("depthwise convolution", "forward_efficiency"),)),
    "depthwise data": (0.06, 0.6, (("depthwise convolution", "data_efficiency"),)),
    "depthwise weights": (0.035, 0.6, (("depthwise convolution", "weights_efficiency"),)),
    # Shares of the bandwidth; statistics are a second pass over what is normalised.
    "normalization": (0.45, 0.3, (("normalization", "bandwidth_efficiency"),)),
    "normalization backward": (0.45, 0.3, (("normalization backward", "bandwidth_efficiency"),)),
    "elementwise": (0.7, 0.2, (("elementwise", "bandwidth_efficiency"),)),
    "bias gradient": (0.3, 0.5, (("bias gradient", "bandwidth_efficiency"),)),
    "pooling": (0.3, 0.5, (("pooling", "bandwidth_efficiency"),)),
    "optimizer": (0.7, 0.2, (("optimizer", "bandwidth_efficiency"),)),
    # An operation of torch takes some 10 µs on a desktop's core; this board's are 5 to 10 times as slow.
    "forward start": (120e-6, 0.4, (("step", "forward_start_s"),)),
    "backward start": (90e-6, 0.4, (("step", "backward_start_s"),)),
    "optimizer start": (45e-6, 0.4, (("step", "optimizer_start_s"),)),
    "kernel gap": (10e-6, 0.5, (("step", "kernel_gap_s"),)),
}
# What is not fitted: value, ends and what it rests on; sides of kernels are those that the table has.
GUESSED: Final[dict[str, dict[str, tuple[float, float, float, str]]]] = {
    "convolution": {"tile": (32, 24, 64, "the least tile of rows of cuDNN's kernels for Pascal")},
    "strided convolution": {
        "unaligned": (1, 0.65, 1.05, "strided kernels have no fast variant to lose"),
    },
    "depthwise convolution": {
        "traffic_times": (1.5, 1, 3, "a loop an output reads its neighbours from the cache"),
    },
    "matrix product": {
        "bandwidth_efficiency": (0.6, 0.45, 0.8, "reads of matrices, as of other tensors"),
    },
}
KERNELS_SEEN: Final = {
    "dense convolution": (3, 3),
    "pointwise convolution": (1, 1),
    "strided convolution": (3, 7),
    "depthwise convolution": (3, 3),
}


def values_of(logarithms: np.ndarray[Any, Any]) -> dict[str, dict[str, float]]:
    """Values by kind, as a device's file has them."""
    values: dict[str, dict[str, float]] = {"step": {}, "convolution": {}}
    for kind, guessed in GUESSED.items():
        values.setdefault(kind, {}).update({name: value for name, (value, *_) in guessed.items()})
    for kind, (least, most) in KERNELS_SEEN.items():
        values.setdefault(kind, {}).update(least_kernel=least, most_kernel=most)
    for (_, _, places), logarithm in zip(PRIORS.values(), logarithms, strict=True):
        for kind, name in places:
            values.setdefault(kind, {})[name] = float(np.exp(logarithm))
    return values


def fit(
    networks: Sequence[Network], device: Any
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Logarithms of the values, and their standard deviations."""
    middle = np.log([prior for prior, _, _ in PRIORS.values()])
    spread = np.array([spread for _, spread, _ in PRIORS.values()])
    cases = [
        (network.work(batch), np.log(seconds), WEIGHT[network.pruned == 0] / SCATTER)
        for network in networks
        for batch, seconds in of_times(network)
        if batch in BATCHES
    ]
    stack = Stack([work for work, _, _ in cases])
    wanted, weights = np.array([(seconds, weight) for _, seconds, weight in cases]).T
    peak, bandwidth = rates(device)

    def residuals(logarithms: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        values = values_of(logarithms)
        host = host_seconds(stack.starts, values["step"])
        seconds = overlapped(stack.seconds(values, peak, bandwidth), host)
        return np.concatenate(
            [(np.log(seconds) - wanted) * weights, (logarithms - middle) / spread]
        )

    solved = least_squares(residuals, middle, loss="soft_l1")
    scatter = np.sqrt(np.diag(np.linalg.inv(solved.jac.T @ solved.jac)))
    return solved.x, scatter


class Stack:
    """Steps one after the other in arrays, so that all are computed at once."""

    def __init__(self, works: Sequence[Work]) -> None:
        small = [condensed(work) for work in works]
        self._begins = np.cumsum([0, *(len(work.kinds) for work in small[:-1])])
        columns = [each.name for each in fields(Work) if each.name != "starts"]
        joined: dict[str, Any] = {
            name: np.concatenate([getattr(work, name) for work in small]) for name in columns
        }
        self._work = replace(small[0], **joined)
        self.starts: Any = {  # of all steps at once
            phase: np.array([work.starts[phase] for work in works]) for phase in works[0].starts
        }

    def seconds(self, values: Any, peak: float, bandwidth: float) -> np.ndarray[Any, Any]:
        """Time of each step on the device."""
        kernels = kernel_seconds(self._work, values, peak=peak, bandwidth=bandwidth)
        return np.add.reduceat(kernels, self._begins)


def condensed(work: Work) -> Work:
    """The same work with kernels of one kind in one row, where only their traffic counts."""
    single = np.isin(work.kinds, [CODES[kind] for kind in CONVOLUTIONS])
    kinds = np.unique(work.kinds[~single])
    sums: dict[str, Any] = {}
    for each in fields(Work):
        column = getattr(work, each.name)
        if each.name == "starts":
            continue
        if each.name in ("counts", "traffic", "flops"):
            rest = np.array([column[~single & (work.kinds == kind)].sum() for kind in kinds])
        else:
            rest = kinds if each.name == "kinds" else np.zeros(len(kinds), column.dtype)
        sums[each.name] = np.concatenate([column[single], rest])
    return replace(work, **sums)


def rates(device: Any) -> tuple[float, float]:
    """Peak and bandwidth."""
    return device.processors["gpu"].peak["fp32"].value, device.memory.bandwidth.value


def of_times(network: Network) -> list[tuple[int, float]]:
    """Batch sizes with their step times, where the board did not swap."""
    return [
        (batch, seconds)
        for batch, seconds, system in zip(
            network.batches, network.seconds, network.system, strict=True
        )
        if seconds > 0 and not system > NEAR_WALL_MIB * MIB
    ]


def time_misses(
    networks: Sequence[Network], values: Any, device: Any
) -> list[tuple[Network, int, float]]:
    """Logarithm of predicted over measured step times."""
    peak, bandwidth = rates(device)
    return [
        (
            network,
            batch,
            float(
                np.log(
                    step_time(network.work(batch), values, peak=peak, bandwidth=bandwidth).total
                    / seconds
                )
            ),
        )
        for network in networks
        for batch, seconds in of_times(network)
    ]


def fit_system(networks: Sequence[Network], floor: float) -> dict[str, float]:
    """Values of `system_memory`, from reserved and used memory as both were measured."""
    pairs = [
        (reserved, system, has_products(network.captured.small))
        for network in networks
        for reserved, system in zip(network.reserved, network.system, strict=True)
        if reserved > 0 and system < 6000 * MIB
    ]
    learns_products = len({products for _, _, products in pairs}) > 1

    def named(numbers: np.ndarray[Any, Any]) -> dict[str, float]:
        products = float(numbers[1]) * MIB if learns_products else 0.0
        return {"libraries": float(numbers[0]) * MIB, "products": products}

    def residuals(numbers: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        values = named(numbers)
        takes = [
            system_memory(reserved, values | {"stays": 0.0}, floor=floor, products=products)
            for reserved, _, products in pairs
        ]
        return np.log(np.array(takes) / [system for _, system, _ in pairs]) / 0.03

    start = np.array([1100.0, 200.0])
    return named(least_squares(residuals, start, x_scale=100, loss="soft_l1").x)


@dataclass(kw_only=True)
class Misses:
    """Logarithms of predicted over measured, by quantity, a row each."""

    rows: dict[str, list[tuple[Network, int, float]]]

    def of(self, quantity: str) -> np.ndarray[Any, Any]:
        """Of one quantity."""
        return np.array([miss for _, _, miss in self.rows[quantity]])


def judge(
    networks: Sequence[Network], values: Any, system: dict[str, float], device: Any
) -> Misses:
    """What predictions with these values miss."""
    floor = device.floors["torch-1.6"].memory.value
    usable = device.memory.usable.value
    system = system | {"stays": device.kinds["torch-1.6"]["memory"].values["stays"].value}
    rows: dict[str, list[tuple[Network, int, float]]] = {
        "step time": time_misses(networks, values, device)
    }
    for network in networks:
        products = has_products(network.captured.small)
        for batch, allocated, reserved, used in zip(
            network.batches, network.allocated, network.reserved, network.system, strict=True
        ):
            if not used > 0:
                continue
            predicted = network.memory(batch)
            takes = min(  # what trained had no more
                usable,
                system_memory(
                    predicted.reserved, system, floor=floor, products=products, usable=usable
                ),
            )
            for name, mine, theirs in (
                ("allocated", predicted.allocated, allocated),
                ("reserved", predicted.reserved, reserved),
                ("used by the system", takes, used),
            ):
                rows.setdefault(name, []).append((network, batch, float(np.log(mine / theirs))))
    return Misses(rows=rows)


def reaches_of(families: Sequence[Misses]) -> dict[str, float]:
    """Half of the 90 % intervals by quantity, as logarithms, of a family that is not among these.

    Families' 90 % quantiles of the misses are taken as normal in the logarithm; how far they are apart is taken
    as the same for all quantities, since few families say little of one. The interval reaches to where a
    further family's quantile lies with 90 % (Student's t of a prediction).
    """
    logarithms = {
        quantity: np.log([np.quantile(np.abs(each.of(quantity)), 0.9) for each in families])
        for quantity in families[0].rows
    }
    number = len(families)
    spread = float(np.sqrt(np.mean([np.var(each, ddof=1) for each in logarithms.values()])))
    student = stats.t.ppf(0.9, len(logarithms) * (number - 1)) * np.sqrt(1 + 1 / number)
    return {
        quantity: float(np.exp(np.mean(each) + student * spread))
        for quantity, each in logarithms.items()
    }
