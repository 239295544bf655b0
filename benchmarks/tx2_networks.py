"""Networks measured on a Jetson TX2, rebuilt from their layers and captured, with what was measured of each.

For `predict_tx2.py`. The reference holds three families of networks at 13 levels of pruning; beside them
stand four published networks that were timed on another card.
"""

from __future__ import annotations

import csv
import pickle
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor, nn

from wattstep import engines
from wattstep.predict.allocator import Allocator
from wattstep.predict.memory import replay, training
from wattstep.predict.work import CODES, Work, work_of
from wattstep.schema.step_graph import StepFamily
from wattstep.schema.workload import ModuleSource, OptimizerSettings, Preparation
from wattstep.workloads.torch import find

MIB: Final = 1 << 20
FAMILIES: Final = ("resnet18", "mobilenetv2", "squeezenet")
SGD: Final = OptimizerSettings(
    name="sgd", rate=0.1, options={"momentum": 0.9, "weight_decay": 5e-4}
)
# Times of a forward and a backward pass at batch 16 on a Pascal Titan X with cuDNN 5.1, in ms
# (https://github.com/jcjohnson/cnn-benchmarks): no part of the fit, since framework, library and the choice
# of kernels differ, but a look at families that the table lacks, up to a common factor.
PASCAL: Final = {
    "alexnet": 14.56, "googlenet": 39.14, "vgg16": 128.62, "resnet50": 103.58,
}  # fmt: skip
RECORDED: Final = (2, 1, 1, 1)  # how often each step's peaks count in the source's means
PASCAL_PEAK, PASCAL_BANDWIDTH = 10.97e12, 480e9


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

    def recorded(self, batch: int) -> tuple[float, float]:
        """Allocated and reserved memory in B as the source's program counted them at a batch size.

        It emptied the allocator's cache before each of four steps, began the peaks anew before that, and wrote
        down the mean of the peaks, the first step's twice (ICIdsl/perf4sight, profiling/tx2).
        """
        allocator = Allocator()
        steps = training(self.captured.at(batch), allocator, gradients_stay=True)
        peaks = []
        for _ in RECORDED:
            next(steps)
            peaks.append((allocator.most_allocated, allocator.most_reserved))
            allocator.most_allocated = allocator.allocated
            allocator.most_reserved = allocator.reserved
            allocator.release()
        allocated, reserved = np.average(peaks, axis=0, weights=RECORDED)
        return float(allocated), float(reserved)


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
