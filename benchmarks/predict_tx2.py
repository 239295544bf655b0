"""Training on a Jetson TX2, predicted for families of networks that the fit has not seen.

    python benchmarks/predict_tx2.py REFERENCE [--cache FOLDER] [--write FILE.toml]

REFERENCE holds `tx2-training-pruned.csv` and `tx2-pruned-layers.csv`: three families of networks at 13
levels of pruning, measured on the board. Values of the kinds of operations are fitted to two families
and judged on the third, each in turn; then to all three, for the device's file.

Few values, each with a prior that a fit leaves only where measurements insist: what a prior rests on
stands beside it. Rows of one network are not independent, so they do not count as if they were.
"""

from __future__ import annotations

import argparse
import csv
import pickle
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from scipy.optimize import least_squares
from torch import Tensor, nn

from wattstep import devices, engines
from wattstep.predict.memory import fit_probability, has_products, replay, system_memory
from wattstep.predict.time import host_seconds, kernel_seconds, overlapped, step_time
from wattstep.predict.work import CODES, CONVOLUTIONS, Work, work_of
from wattstep.schema.step_graph import StepFamily
from wattstep.schema.workload import ModuleSource, OptimizerSettings, Preparation
from wattstep.workloads.torch import find

MIB: Final = 1 << 20
FAMILIES: Final = ("resnet18", "mobilenetv2", "squeezenet")
BATCHES: Final = (2, 4, 8, 16, 32, 64, 80, 100, 128, 160, 200, 256)  # of the fit
SGD: Final = OptimizerSettings(
    name="sgd", rate=0.1, options={"momentum": 0.9, "weight_decay": 5e-4}
)
# A step is taken to scatter by 10 % around the model; a network's rows count as few, an unpruned
# network's (which people train) as more.
SCATTER: Final = 0.1
WEIGHT: Final = {True: 0.6, False: 0.25}
NEAR_WALL_MIB: Final = 6150  # of used memory: from here on the system swaps, and times say nothing

# Value: prior and its standard deviation in the logarithm; the kinds that share it; what it rests on.
DENSE: Final = ("dense convolution",)
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
# Times of a forward and a backward pass at batch 16 on a Pascal Titan X with cuDNN 5.1, in ms
# (https://github.com/jcjohnson/cnn-benchmarks): no part of the fit, since framework, library and the choice
# of kernels differ, but a look at families that the table lacks, up to a common factor.
PASCAL: Final = {
    "alexnet": 14.56, "googlenet": 39.14, "vgg16": 128.62, "resnet50": 103.58,
}  # fmt: skip
PASCAL_PEAK, PASCAL_BANDWIDTH = 10.97e12, 480e9
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


@dataclass(kw_only=True)
class Network:
    """A network of the table with what was measured of it, one entry a batch size."""

    family: str
    pruned: int
    captured: StepFamily
    batches: list[int]
    seconds: np.ndarray[Any, Any]
    allocated: np.ndarray[Any, Any]
    reserved: np.ndarray[Any, Any]
    system: np.ndarray[Any, Any]
    failed: list[int]
    works: dict[int, Work] = field(default_factory=dict)
    replays: dict[int, Any] = field(default_factory=dict)

    def work(self, batch: int) -> Work:
        """Kernels at a batch size."""
        if batch not in self.works:
            self.works[batch] = work_of(self.captured.at(batch))
        return self.works[batch]

    def memory(self, batch: int) -> Any:
        """Memory at a batch size."""
        if batch not in self.replays:
            self.replays[batch] = replay(self.captured.at(batch))
        return self.replays[batch]


# --- the networks, from their layers -----------------------------------------------------------


def _layer(row: dict[str, str]) -> nn.Module:
    if row["kind"] == "conv":
        return nn.Conv2d(
            int(row["inputs"]), int(row["outputs"]), int(row["kernel"]), int(row["stride"]),
            int(row["padding"]), groups=int(row["groups"]), bias=row["bias"] == "1",
        )  # fmt: skip
    if row["kind"] == "batch_norm":
        return nn.BatchNorm2d(int(row["outputs"]))
    return nn.Linear(int(row["inputs"]), int(row["outputs"]))


class Rebuilt(nn.Module):
    """What the three families have in common: their layers by name."""

    def __init__(self, rows: Sequence[dict[str, str]]) -> None:
        super().__init__()
        self.rows = {row["layer"]: row for row in rows}
        for row in rows:
            if row["kind"] not in ("max_pool", "avg_pool"):
                self.add_module(row["layer"], _layer(row))
        self.blocks = [
            name[: -len("_conv1")]
            for name in self.rows
            if name.endswith("_conv1") and name.startswith(("layer", "bottlenecks"))
        ]
        self.relu = nn.ReLU(inplace=True)
        self.drop = nn.Dropout(0.5)
        self.average = nn.AdaptiveAvgPool2d(1)

    def call(self, name: str, features: Tensor) -> Tensor:
        made: Tensor = self._modules[name](features)  # type: ignore[misc]
        return made

    def scores(self, features: Tensor) -> Tensor:
        return self.call("fc", torch.flatten(self.average(features), 1))


class ResNet18(Rebuilt):
    """He et al., arXiv 1512.03385, with channels left out."""

    def forward(self, images: Tensor) -> Tensor:
        features = self.relu(self.call("bn1", self.call("conv1", images)))
        features = nn.functional.max_pool2d(features, 3, 2, 1)
        for block in self.blocks:
            made = self.relu(self.call(f"{block}_bn1", self.call(f"{block}_conv1", features)))
            made = self.call(f"{block}_bn2", self.call(f"{block}_conv2", made))
            if f"{block}_downsample_0" in self.rows:
                short = self.call(f"{block}_downsample_0", features)
                features = self.call(f"{block}_downsample_1", short)
            made += features
            features = self.relu(made)
        return self.scores(features)


class MobileNetV2(Rebuilt):
    """Sandler et al., arXiv 1801.04381, with channels left out."""

    def forward(self, images: Tensor) -> Tensor:
        clip = nn.functional.relu6
        features = clip(self.call("bn1", self.call("conv1", images)), inplace=True)
        for block in self.blocks:
            made = clip(self.call(f"{block}_bn1", self.call(f"{block}_conv1", features)), True)
            made = clip(self.call(f"{block}_bn2", self.call(f"{block}_conv2", made)), True)
            made = self.call(f"{block}_bn3", self.call(f"{block}_conv3", made))
            if not block.endswith("_0"):
                made += features
            features = made
        features = clip(self.call("bn_last", self.call("conv_last", features)), True)
        return self.call("fc", self.drop(torch.flatten(self.average(features), 1)))


class SqueezeNet(Rebuilt):
    """Iandola et al., arXiv 1602.07360, with channels left out.

    That the activation follows the concatenation is what the memory measured of it shows.
    """

    def forward(self, features: Tensor) -> Tensor:
        narrow = features
        for name, row in self.rows.items():
            if row["kind"] == "max_pool":
                features = nn.functional.max_pool2d(features, 3, 2, ceil_mode=True)
            elif row["kind"] == "avg_pool":
                features = torch.flatten(self.average(features), 1)
            elif name.endswith("squeeze"):
                features = self.relu(self.call(name, features))
            elif name.endswith("expand1x1"):
                narrow, features = self.call(name, features), features
            elif name.endswith("expand3x3"):
                features = self.relu(torch.cat([narrow, self.call(name, features)], 1))
            else:
                dropped = self.drop(features) if name.startswith("classifier") else features
                features = self.relu(self.call(name, dropped))
        return features


MAKERS: Final = {"resnet18": ResNet18, "mobilenetv2": MobileNetV2, "squeezenet": SqueezeNet}


def load(reference: Path, cache: Path | None) -> list[Network]:
    """The networks with what was measured of them."""
    layers = defaultdict(list)
    with (reference / "tx2-pruned-layers.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            layers[row["network"], int(row["pruned_percent"])].append(row)
    measured = defaultdict(list)
    with (reference / "tx2-training-pruned.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            measured[row["network"], int(row["pruned_percent"])].append(row)
    networks = []
    for (family, pruned), rows in layers.items():
        of_it = measured[family, pruned]
        trained = [row for row in of_it if row["outcome"] == "trained"]

        def column(name: str, trained: list[dict[str, str]] = trained) -> np.ndarray[Any, Any]:
            return np.array([float(row[name] or "nan") for row in trained])

        source = ModuleSource(
            make=lambda family=family, rows=rows: MAKERS[family](rows),  # type: ignore[misc]
            name=family,
            input_shape=(3, 224, 224),
            classes=1000,
            optimizer=SGD,
        )
        networks.append(
            Network(
                family=family,
                pruned=pruned,
                captured=_captured(source, f"{family}-{pruned}", cache),
                batches=[int(row["batch_size"]) for row in trained],
                seconds=column("step_ms") / 1e3,
                allocated=column("allocated_mib") * MIB,
                reserved=column("reserved_mib") * MIB,
                system=column("system_used_mib") * MIB,
                failed=[int(row["batch_size"]) for row in of_it if row["outcome"] != "trained"],
            )
        )
    return networks


def _captured(source: ModuleSource, name: str, cache: Path | None) -> StepFamily:
    path = None if cache is None else cache / f"{name}.pkl"
    if path is not None and path.exists():
        kept: StepFamily = pickle.loads(path.read_bytes())
        return kept
    made = engines.find("torch").capture(source, Preparation(batch_size=1), "fp32")
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(pickle.dumps(made))
    return made


# --- the fit -----------------------------------------------------------------------------------


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


def load_pascal(cache: Path | None) -> list[tuple[Work, float]]:
    """Kernels of a forward and a backward pass of published networks, with their time in s."""
    passes = []
    for name, published in PASCAL.items():
        workload = find(name)
        source = ModuleSource(
            make=lambda workload=workload: workload.build(classes=1000, image_size=224),  # type: ignore[misc]
            name=name,
            input_shape=(3, 224, 224),
            classes=1000,
            optimizer=SGD,
        )
        work = work_of(_captured(source, name, cache).at(16))
        both = work.kinds != CODES["optimizer"]
        columns = [each.name for each in fields(Work) if each.name != "starts"]
        kept = replace(work, **{column: getattr(work, column)[both] for column in columns})
        passes.append((kept, published / 1e3))
    return passes


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
            system_memory(reserved, values, floor=floor, products=products)
            for reserved, _, products in pairs
        ]
        return np.log(np.array(takes) / [system for _, system, _ in pairs]) / 0.03

    start = np.array([1100.0, 200.0])
    return named(least_squares(residuals, start, x_scale=100, loss="soft_l1").x)


# --- judged --------------------------------------------------------------------------------------


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
            takes = min(
                usable, system_memory(predicted.reserved, system, floor=floor, products=products)
            )
            for name, mine, theirs in (
                ("allocated", predicted.allocated, allocated),
                ("reserved", predicted.reserved, reserved),
                ("used by the system", takes, used),
            ):
                rows.setdefault(name, []).append((network, batch, float(np.log(mine / theirs))))
    return Misses(rows=rows)


def reach(parts: Sequence[np.ndarray[Any, Any]]) -> float:
    """Half of the 90 % interval, as a logarithm: of families not seen, each counting as much as another.

    The mean of the families' 90 % quantiles and twice their standard deviation: families are few.
    """
    quantiles = [float(np.quantile(np.abs(part), 0.9)) for part in parts]
    return float(np.mean(quantiles) + 2 * np.std(quantiles))


def table(by_family: dict[str, Misses]) -> list[str]:
    """The figures of each family, each predicted by a fit to the other two."""
    lines = [
        "| left out | quantity | cases | median | 90 % | largest | bias | in the 90 % interval |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for family, misses in by_family.items():
        for quantity in misses.rows:
            mine = misses.of(quantity)
            others = [each.of(quantity) for name, each in by_family.items() if name != family]
            width = reach(others)
            off = np.abs(np.expm1(mine)) * 100
            held = np.mean(np.abs(mine) <= width) * 100
            lines.append(
                f"| {family} | {quantity} | {len(mine)} | {np.median(off):.1f} % | {np.quantile(off, 0.9):.1f} % "
                f"| {off.max():.0f} % | {np.expm1(np.median(mine)) * 100:+.1f} % | {held:.0f} % of ±{np.expm1(width) * 100:.0f} % |"
            )
    for quantity in next(iter(by_family.values())).rows:
        off = (
            np.abs(np.expm1(np.concatenate([each.of(quantity) for each in by_family.values()])))
            * 100
        )
        lines.append(
            f"| all three | {quantity} | {len(off)} | {np.median(off):.1f} % | {np.quantile(off, 0.9):.1f} % | {off.max():.0f} % | | |"
        )
    return lines


def pooled(by_family: dict[str, Misses]) -> list[str]:
    """How often 90 % intervals hold, each family's from the misses of the other two."""
    lines = []
    for quantity in next(iter(by_family.values())).rows:
        held: list[bool] = []
        for family, misses in by_family.items():
            others = [each.of(quantity) for name, each in by_family.items() if name != family]
            held += list(np.abs(misses.of(quantity)) <= reach(others))
        lines.append(
            f"90 % intervals of {quantity} hold in {100 * np.mean(held):.0f} % of all cases"
        )
    return lines


def promised(networks: Sequence[Network], device: Any, reaches: dict[str, float]) -> str:
    """Of batches that are said to fit with 98 %, how many ran out."""
    most = device.memory.usable.value - STAYS_MIB * MIB
    said = [
        (network, batch)
        for network in networks
        for batch in [*network.batches, *network.failed]
        if fit_probability(network.memory(batch).reserved, most, reaches["reserved"]) >= 0.98
    ]
    broken = sum(batch in network.failed for network, batch in said)
    return f"of {len(said)} batches said to fit with 98 %, {broken} ran out of memory"


def walls(networks: Sequence[Network], reservable: float) -> list[str]:
    """Batch sizes at which memory runs out: predicted and measured, in steps of the grid."""
    grid = sorted({batch for network in networks for batch in [*network.batches, *network.failed]})
    off: dict[str, list[int]] = defaultdict(list)
    for network in networks:
        if not network.failed:
            continue
        first = min(batch for batch in network.failed if batch > min(network.failed) - 1)
        last = max(network.batches)
        if first < last:  # it failed once and trained with more
            first = next((batch for batch in network.failed if batch > last), first)
        mine = next(
            (batch for batch in grid if network.memory(batch).reserved > reservable), grid[-1] + 1
        )
        steps = (grid.index(mine) if mine in grid else len(grid)) - grid.index(first)
        off[network.family].append(steps)
    return [
        f"memory runs out, {family}: {sum(abs(s) <= 1 for s in steps)} of {len(steps)} within one step of the grid; "
        f"steps off: {steps}"
        for family, steps in off.items()
    ]


INTERVALS: Final = {
    "step time": "step_time",
    "allocated": "allocated",
    "reserved": "reserved",
    "used by the system": "system",
}
SOURCE: Final = (
    "fitted to raw data of perf4sight (arXiv 2108.05580): ResNet18, MobileNetV2 and SqueezeNet at 13 levels "
    "of pruning, by benchmarks/predict_tx2.py"
)
FITTED: Final = "CNNs of 0.01 to 1.8 GMAC at 224 px, batch 2 to 256, SGD in fp32 on torch 1.6"
SEEN: Final = (
    "published measurement",
    "sides of kernels of the trainings in raw data of perf4sight (arXiv 2108.05580)",
)
READ_OFF: Final = (
    "estimate",
    "usable memory that segments never get: read off the batches that fitted and those that ran out",
)
STAYS_MIB: Final = (
    65  # of usable memory that segments never get: a batch fitted at 6150 MiB, none above
)
BEGIN: Final = "# What follows is written by benchmarks/predict_tx2.py.\n"


def toml(
    logarithms: np.ndarray[Any, Any],
    scatter: np.ndarray[Any, Any],
    systems: Sequence[dict[str, float]],
    reaches: dict[str, tuple[float, float, float]],
) -> str:
    """The fitted values as the device's file has them.

    Args:
        logarithms: Of the values of kinds.
        scatter: Their standard deviations.
        systems: Values of memory: fitted to all families, then without each.
        reaches: Of the intervals, with their ends.
    """
    kinds: dict[str, dict[str, str]] = defaultdict(dict)
    for kind, guessed in GUESSED.items():
        for name, (value, low, high, why) in guessed.items():
            kinds[kind][name] = _value(value, low, high, ("estimate", why))
    for kind, (least, most) in KERNELS_SEEN.items():
        kinds[kind] |= {
            "least_kernel": _value(least, least, least, SEEN),
            "most_kernel": _value(most, most, most, SEEN),
        }
    for (_, _, places), logarithm, deviation in zip(
        PRIORS.values(), logarithms, scatter, strict=True
    ):
        middle, low, high = np.exp(logarithm + 1.645 * deviation * np.array([0, -1, 1]))
        for kind, name in places:
            kinds[kind][name] = _value(middle, low, high)
    for name, value in systems[0].items():
        others = [each[name] for each in systems if each[name] > 0]
        kinds["memory"][name] = _value(value, 0.95 * min(others), 1.05 * max(others))
    stays = (STAYS_MIB * MIB, 0.0, 4 * STAYS_MIB * MIB)
    kinds["memory"]["stays"] = _value(*stays, READ_OFF)
    kinds["interval"] = {name: _value(*ends) for name, ends in reaches.items()}
    lines = [BEGIN.rstrip()]
    for kind, values in kinds.items():
        lines += [
            "",
            f'[kinds."torch-1.6"."{kind}"]',
            f'fitted = "{FITTED}"',
            'basis = "calibration"',
            f'source = "{SOURCE}"',
            *(f"{name} = {value}" for name, value in values.items()),
        ]
    return "\n".join(lines) + "\n"


def _value(value: float, low: float, high: float, other: tuple[str, str] | None = None) -> str:
    ends = f"value = {value:.4g}, low = {low:.4g}, high = {high:.4g}"
    return (
        "{ "
        + (ends if other is None else f'{ends}, basis = "{other[0]}", source = "{other[1]}"')
        + " }"
    )


def main() -> None:
    """Fits, judges and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("reference", type=Path)
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--write", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    device = devices.find("jetson-tx2")
    floor = device.floors["torch-1.6"].memory.value
    networks = load(given.reference, given.cache)
    pascal = load_pascal(given.cache)
    by_family: dict[str, Misses] = {}
    for family in FAMILIES:
        seen = [each for each in networks if each.family != family]
        unseen = [each for each in networks if each.family == family]
        values = values_of(fit(seen, device)[0])
        by_family[family] = judge(unseen, values, fit_system(seen, floor), device)
    print("\n".join(table(by_family)))
    whole = list(by_family.values())
    reaches = {
        name: reach([each.of(quantity) for each in whole]) for quantity, name in INTERVALS.items()
    }
    of_families = {
        name: [reach([each.of(quantity)]) for each in whole] for quantity, name in INTERVALS.items()
    }
    print("half of the 90 % interval, in logarithms:", {k: round(v, 3) for k, v in reaches.items()})
    for only in (True, False):
        off = [
            abs(np.expm1(miss)) * 100
            for each in whole
            for network, _, miss in each.rows["step time"]
            if (network.pruned == 0) is only
        ]
        print(
            f"step time, {'unpruned' if only else 'pruned'}: median {np.median(off):.1f} %, largest {max(off):.0f} %"
        )
    logarithms, scatter = fit(networks, device)
    whole_values = values_of(logarithms)
    for (name, published), (work, _) in zip(PASCAL.items(), pascal, strict=True):
        kernels = kernel_seconds(work, whole_values, peak=PASCAL_PEAK, bandwidth=PASCAL_BANDWIDTH)
        print(f"Pascal Titan X, {name}: {kernels.sum() * 1e3:.1f} ms for {published} ms")
    print("\n".join(pooled(by_family)))
    print(promised(networks, device, reaches))
    print("\n".join(walls(networks, device.memory.usable.value - STAYS_MIB * MIB)))
    seen_too = judge(networks, values_of(logarithms), fit_system(networks, floor), device)
    for quantity in seen_too.rows:
        off = np.abs(np.expm1(seen_too.of(quantity))) * 100
        print(
            f"fitted to all: {quantity}: median {np.median(off):.1f} %, largest {off.max():.0f} %"
        )
    for (name, (prior, spread, _)), logarithm, deviation in zip(
        PRIORS.items(), logarithms, scatter, strict=True
    ):
        print(
            f"{name:24} {np.exp(logarithm):10.4g} x/÷ {np.exp(1.645 * deviation):.2f}  prior {prior:g} ({(logarithm - np.log(prior)) / spread:+.1f})"
        )
    system = fit_system(networks, floor)
    print({name: round(value / MIB, 2) for name, value in system.items()})
    if given.write is not None:
        before, _, _ = given.write.read_text().partition(BEGIN)
        systems = [
            system,
            *(
                fit_system([n for n in networks if n.family != family], floor)
                for family in FAMILIES
            ),
        ]
        ends = {
            name: (value, min(of_families[name]), max(value, *of_families[name]))
            for name, value in reaches.items()
        }
        made = toml(logarithms, scatter, systems, ends)
        given.write.write_text(before.rstrip() + "\n\n" + made)


if __name__ == "__main__":
    main()
