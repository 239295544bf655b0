"""Training with MNN on phones with a Snapdragon 855, predicted for networks that the fit has not seen.

    python benchmarks/predict_sd855.py REFERENCE [--write FILE.toml]

REFERENCE holds `sd855-training-measured.csv`: GoogLeNet and AlexNet as Cai et al. (2021) trained them,
on two phones, one of them with all cores or the large ones alone. Values are fitted to one network and
judged on the other, each in turn; then to both, for the device's file. Networks are written down here
as the source's own definitions have them (GoogLeNet without activations, and with a second
convolution that halves the image, too).
"""

from __future__ import annotations

import argparse
import csv
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from scipy.optimize import least_squares
from torch import Tensor, nn

from wattstep import devices, engines
from wattstep.predict.mnn.predictor import operation_seconds, resident
from wattstep.predict.mnn.work import MnnWork, work_of
from wattstep.schema.step_graph import StepGraph
from wattstep.schema.workload import ModuleSource, OptimizerSettings, Preparation

SGD: Final = OptimizerSettings.parse("sgd,momentum=0.9,weight_decay=0.00004")
SOURCE: Final = (
    "fitted to raw logs of Cai et al. 2021 (GoogLeNet and AlexNet with MNN on a Meizu 16T and a Xiaomi Mi 9) by "
    "benchmarks/predict_sd855.py"
)
FITTED: Final = (
    "two CNNs of 0.5 and 1 GMAC at 224 px, batch 1 to 32, SGD in fp32 with MNN, 4 threads"
)
BEGIN: Final = "# What follows is written by benchmarks/predict_sd855.py.\n"
MODE: Final = "1.71GHz"  # of the device's file, by words of the reference
ALL_CORES: Final = "all cores userspace 1.7088GHz"
SETUP_SPREAD: Final = 0.15  # of phones and cores around what is common to them
SCATTER: Final = {"time": 0.1, "memory": 0.05}
QUANTITIES: Final = ("step time", "memory of the process")

# Value: prior, its standard deviation in the logarithm, what it rests on.
TIME: Final = {
    # Four Cortex-A76 at 1.71 GHz do 109 GFLOP/s; a product of matrices reaches some two thirds.
    "second_per_flop": (1 / 7.0e10, 0.3),
    # A core writes 3 to 10 GB/s; MNN's copies between layouts use one, and pages are new each step.
    "second_per_byte": (1 / 1.5e9, 0.5),
    # A command is made, given memory and handed to threads, anew in each step.
    "command_s": (5e-5, 0.7),
}
MEMORY: Final = {
    "floor": (2.5e7, 0.4),  # MNN's library, the program and its images
    # Parameters, gradients, momentum, and what an update makes of the three.
    "copies": (6.0, 0.15),
    "tensors": (1.0, 0.05),  # all that a step makes: counted, not fitted
}


class Inception(nn.Module):
    """Four ways side by side, without activations."""

    def __init__(
        self, inputs: int, one: int, before3: int, three: int, before5: int, five: int, pooled: int
    ) -> None:
        super().__init__()
        self.one = nn.Conv2d(inputs, one, 1)
        self.three = nn.Sequential(
            nn.Conv2d(inputs, before3, 1), nn.Conv2d(before3, three, 3, padding=1)
        )
        self.five = nn.Sequential(
            nn.Conv2d(inputs, before5, 1), nn.Conv2d(before5, five, 5, padding=2)
        )
        self.pooled = nn.Sequential(nn.MaxPool2d(3, 1, 1), nn.Conv2d(inputs, pooled, 1))

    def forward(self, features: Tensor) -> Tensor:
        """Concatenation of the four."""
        return torch.cat([way(features) for way in self.children()], 1)


def googlenet() -> nn.Module:
    """GoogLeNet of the source."""
    halved = lambda: nn.MaxPool2d(3, 2, 1)  # noqa: E731
    return nn.Sequential(
        nn.Conv2d(3, 64, 7, 2, 3), halved(), nn.Conv2d(64, 192, 3, 2, 1), halved(),
        Inception(192, 64, 96, 128, 16, 32, 32), Inception(256, 128, 128, 192, 32, 96, 64), halved(),
        Inception(480, 192, 96, 208, 16, 48, 64), Inception(512, 160, 112, 224, 24, 64, 64),
        Inception(512, 128, 128, 256, 24, 64, 64), Inception(512, 112, 144, 288, 32, 64, 64),
        Inception(528, 256, 160, 320, 32, 128, 128), halved(),
        Inception(832, 256, 160, 320, 32, 128, 128), Inception(832, 384, 192, 384, 48, 128, 128),
        nn.AdaptiveAvgPool2d(1), nn.Conv2d(1024, 10, 1), nn.Flatten(),
    )  # fmt: skip


def alexnet() -> nn.Module:
    """AlexNet of the source."""
    return nn.Sequential(
        nn.Conv2d(3, 96, 11, 4), nn.ReLU(), nn.MaxPool2d(3, 2),
        nn.Conv2d(96, 256, 5, padding=2), nn.ReLU(), nn.MaxPool2d(3, 2),
        nn.Conv2d(256, 384, 3, padding=1), nn.ReLU(), nn.Conv2d(384, 384, 3, padding=1), nn.ReLU(),
        nn.Conv2d(384, 256, 3, padding=1), nn.MaxPool2d(3, 2), nn.Flatten(),
        nn.Linear(6400, 4096), nn.ReLU(), nn.Dropout(), nn.Linear(4096, 10),
    )  # fmt: skip


MAKERS: Final = {"googlenet": googlenet, "alexnet": alexnet}


@dataclass(frozen=True, kw_only=True, eq=False)
class Case:
    """One row that was measured.

    Attributes:
        network: Of `MAKERS`.
        setup: Phone and cores.
        batch: Size.
        graph: Of the step.
        work: Of the step.
        seconds: Measured, of a step.
        resident: Measured, of the process in B; nan: not measured.
    """

    network: str
    setup: str
    batch: int
    graph: StepGraph
    work: MnnWork
    seconds: float
    resident: float


def load(reference: Path) -> list[Case]:
    """The rows with the work of their steps."""
    families = {
        name: engines.find("torch").capture(
            ModuleSource(
                make=make, name=name, input_shape=(3, 224, 224), classes=10, optimizer=SGD
            ),
            Preparation(batch_size=32),
            "fp32",
        )
        for name, make in MAKERS.items()
    }
    cases = []
    with (reference / "sd855-training-measured.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            name, batch = row["network"].split()[0], int(row["batch_size"])
            graph = families[name].at(batch)
            cases.append(
                Case(
                    network=name,
                    setup=row["phone"],
                    batch=batch,
                    graph=graph,
                    work=work_of(graph),
                    seconds=float(row["step_ms"]) / 1e3,
                    # The source reads top, which counts in units of 1,024.
                    resident=float(row["resident_mb"] or "nan") * 1024**2,
                )
            )
    return cases


def fit_memory(cases: Sequence[Case]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Logarithms of `MEMORY`, and their standard deviations."""
    middle = np.log([prior for prior, _ in MEMORY.values()])
    spread = np.array([spread for _, spread in MEMORY.values()])
    seen = [case for case in cases if case.resident > 0]

    def residuals(logarithms: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        misses = [np.log(memory_of(case, logarithms) / case.resident) for case in seen]
        return np.concatenate(
            [np.array(misses) / SCATTER["memory"] / 2, (logarithms - middle) / spread]
        )

    return _solved(residuals, middle)


def memory_of(case: Case, logarithms: np.ndarray[Any, Any]) -> float:
    """Predicted memory of the process in B."""
    floor, copies, tensors = np.exp(logarithms)
    return resident(case.work, floor=floor, copies=copies, tensors=tensors).total


def fit_time(
    cases: Sequence[Case], copies: float
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Logarithms of `TIME` and of each setup's factor, and their standard deviations."""
    setups = sorted({case.setup for case in cases})
    middle = np.concatenate([np.log([prior for prior, _ in TIME.values()]), np.zeros(len(setups))])
    spread = np.array([*(spread for _, spread in TIME.values()), *[SETUP_SPREAD] * len(setups)])

    def residuals(logarithms: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        misses = [
            np.log(time_of(case, logarithms, copies) / case.seconds)
            + logarithms[len(TIME) + setups.index(case.setup)]
            for case in cases
        ]
        return np.concatenate(
            [np.array(misses) / SCATTER["time"] / 2, (logarithms - middle) / spread]
        )

    return _solved(residuals, middle)


def time_of(case: Case, logarithms: np.ndarray[Any, Any], copies: float) -> float:
    """Predicted time of a step in s, whatever the phone."""
    flop, byte, command = np.exp(logarithms[: len(TIME)])
    return float(
        operation_seconds(
            case.work, case.graph, flop=flop, byte=byte, command=command, copies=copies
        ).sum()
    )


def _solved(residuals: Any, middle: Any) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    solved = least_squares(residuals, middle, loss="soft_l1")
    return solved.x, np.sqrt(np.diag(np.linalg.inv(solved.jac.T @ solved.jac)))


def misses_of(
    cases: Sequence[Case], memory: np.ndarray[Any, Any], time: np.ndarray[Any, Any]
) -> dict[str, np.ndarray[Any, Any]]:
    """Logarithms of predicted over measured, by quantity."""
    copies = float(np.exp(memory[1]))
    return {
        "step time": np.array(
            [np.log(time_of(case, time, copies) / case.seconds) for case in cases]
        ),
        "memory of the process": np.array(
            [np.log(memory_of(case, memory) / case.resident) for case in cases if case.resident > 0]
        ),
    }


def fitted(cases: Sequence[Case]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Logarithms of memory's values and of time's."""
    memory, _ = fit_memory(cases)
    return memory, fit_time(cases, float(np.exp(memory[1])))[0]


def reach(misses: np.ndarray[Any, Any]) -> float:
    """Half of the 90 % interval of a network that was left out, as a logarithm, from the misses of others.

    A half more than their 90 % quantile: one network says little of the next.
    """
    return 1.5 * float(np.quantile(np.abs(misses), 0.9))


def toml(cases: Sequence[Case], reaches: dict[str, tuple[float, float, float]]) -> str:
    """The device's values."""
    memory, of_memory = fit_memory(cases)
    time, of_time = fit_time(cases, float(np.exp(memory[1])))
    setups = sorted({case.setup for case in cases})
    factor = next(float(time[len(TIME) + i]) for i, name in enumerate(setups) if ALL_CORES in name)
    kinds = {
        "step": dict(zip(TIME, map(_ends, time, of_time), strict=False)),
        "memory": dict(zip(list(MEMORY)[1:], map(_ends, memory[1:], of_memory[1:]), strict=True)),
        "time in mode": {f'"{MODE}"': _ends(factor, 0.03)},
        "interval": {name: _value(*ends) for name, ends in reaches.items()},
    }
    lines = [BEGIN.rstrip()]
    for kind, values in kinds.items():
        lines += ["", f'[kinds.mnn."{kind}"]', f'fitted = "{FITTED}"', 'basis = "calibration"']
        lines += [
            f'source = "{SOURCE}"',
            *(f"{name} = {value}" for name, value in values.items()),
        ]
    return "\n".join(lines) + "\n"


def _ends(logarithm: float, deviation: float) -> str:
    half = 1.645 * deviation
    return _value(*(float(np.exp(logarithm + each)) for each in (0, -half, half)))


def _value(value: float, low: float, high: float) -> str:
    return f"{{ value = {value:.4g}, low = {low:.4g}, high = {high:.4g} }}"


def main() -> None:
    """Fits, judges and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("reference", type=Path)
    parser.add_argument("--write", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    devices.find("snapdragon-855")
    cases = load(given.reference)
    by_network: dict[str, dict[str, np.ndarray[Any, Any]]] = {}
    for name in MAKERS:
        values = fitted([case for case in cases if case.network != name])
        by_network[name] = misses_of([case for case in cases if case.network == name], *values)
    print("| left out | quantity | cases | median | largest | bias | in the 90 % interval |")
    print("|---|---|---|---|---|---|---|")
    held: dict[str, list[bool]] = defaultdict(list)
    for name, misses in by_network.items():
        for quantity in QUANTITIES:
            mine = misses[quantity]
            width = reach(
                np.concatenate(
                    [each[quantity] for other, each in by_network.items() if other != name]
                )
            )
            held[quantity] += list(np.abs(mine) <= width)
            off = 100 * np.abs(np.expm1(mine))
            print(
                f"| {name} | {quantity} | {len(mine)} | {np.median(off):.1f} % | {off.max():.0f} % "
                f"| {np.expm1(np.median(mine)) * 100:+.1f} % | {100 * np.mean(np.abs(mine) <= width):.0f} % of ±{100 * np.expm1(width):.0f} % |"
            )
    reaches = {}
    for quantity in QUANTITIES:
        both = np.concatenate([misses[quantity] for misses in by_network.values()])
        off = 100 * np.abs(np.expm1(both))
        print(
            f"| both | {quantity} | {len(off)} | {np.median(off):.1f} % | {off.max():.0f} % | | {100 * np.mean(held[quantity]):.0f} % |"
        )
        single = [reach(misses[quantity]) for misses in by_network.values()]
        ends = (max(single), min(single), max(single))  # of the next network: the worse of two
        names = ["step_time"] if quantity == QUANTITIES[0] else ["allocated", "reserved", "system"]
        reaches.update(dict.fromkeys(names, ends))
    memory, of_memory = fit_memory(cases)
    time, of_time = fit_time(cases, float(np.exp(memory[1])))
    names = [*MEMORY, *TIME, *sorted({case.setup for case in cases})]
    for label, value, deviation in zip(
        names, [*memory, *time], [*of_memory, *of_time], strict=True
    ):
        print(f"{label}: {np.exp(value):.4g} x/÷ {np.exp(1.645 * deviation):.2f}")
    for quantity, left in misses_of(cases, memory, time).items():
        off = 100 * np.abs(np.expm1(left))
        print(
            f"fitted to both: {quantity}: median {np.median(off):.1f} %, largest {off.max():.0f} %"
        )
    if given.write is not None:
        before, _, _ = given.write.read_text().partition(BEGIN)
        given.write.write_text(before.rstrip() + "\n\n" + toml(cases, reaches))


if __name__ == "__main__":
    main()
