"""What was published of trainings on devices, beside what is predicted for them; writes docs/predicted-vs-published.md.

    python benchmarks/published.py [--write docs/predicted-vs-published.md]

The TX2 paper (Liu, Liu, Du and Li, arXiv 1906.04278), LifeLearner (SenSys'23) and the jetson-inference
tutorial.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import cache
from math import exp, hypot, log
from pathlib import Path
from typing import Final

import torch
from torch import Tensor, nn

from wattstep import devices, engines, workloads
from wattstep.predict import Prediction, predictor_for
from wattstep.predict.power import Ranged, power_of
from wattstep.schema.step_graph import StepFamily
from wattstep.schema.workload import ModuleSource, OptimizerSettings, Preparation

SMALL, LARGE = 4, 64  # batch sizes of the paper
VISION: Final = (
    "densenet40", "resnet50", "squeezenet", "vgg16", "xception", "inceptionv1", "alexnet",
)  # fmt: skip
SUITE: Final = (*VISION, "char-cnn", "dcgan", "dqn")
GROWTH: Final = (2.2, 10.5)
PAPER: Final = "TX2 paper"
HEAD: Final = """# Predicted beside published

Written by `python benchmarks/published.py --write docs/predicted-vs-published.md`: what others published of \
trainings on devices, beside what [`wattstep predict`](predict.md) says of them. No fit has seen these figures; but the ranges of full power of the \
Jetson Nano and the Raspberry Pi were drawn with LifeLearner's means in view. \
A row agrees where the published figure lies within the predicted 90 % interval (of a range: where the \
predicted value lies within it); else it says by how much it is off. Rows without an interval compare \
predicted values, whose errors are partly common.

| source | what | published | predicted | agrees |
|---|---|---|---|---|
"""
WHY: Final = """
## Why not

- **The paper's networks are not quite these.** It says neither its input's size nor its stems, and its framework \
is TensorFlow of 2019, which runs a graph and fills memory in advance; predictions are for torch 1.6, fitted to CNNs \
at 224 px, which starts each operation from Python. That is why small steps (deep RL, SqueezeNet, AlexNet) are \
predicted longer, and why what is the same at each batch size is more of them: energy and time then grow less \
from batch 4 to 64. A step of deep RL is predicted with what it plays for its samples (163 operations that the host \
starts, 23 ms whatever the batch); whether the paper's has that it does not say. VGG16 and AlexNet at 32 px are mostly the update of large matrices, which does not grow at all.
- **GPU beside CPU.** The device's file takes what its GPU and CPU draw in stress tests, both estimates from lines of \
tegrastats; that 1.5 cores are busy starting kernels is an assumption. The published ratio of 4 says that \
the GPU's power is taken too low, the CPU's too high, or both: 57 % of the system for the GPU says the former.
- **The LSTM.** The paper's GPU is busy a quarter of the time in it, and memory draws most. Predicted is a \
recurrent layer in its library's kernels, one after the other, of which nobody knows how long they wait on this board: the \
interval is three times either way for it, and the load is that of a GPU that never waits. Here prediction and paper \
disagree, and the paper is to be believed.
- **Utilization.** A prediction calls a GPU busy while kernels are queued; gaps between them, which tegrastats \
sees, are not in it. Of vision models at batch 64 (95 %) that is a small difference.
- **Memory** of the paper is what TensorFlow reserved, not what the training needs; torch takes less.
- **LifeLearner** trains with latent replay in parts of a network, in a program of its own; its seconds cannot be \
predicted from what is published. Its mean power can: joules over seconds. A Raspberry Pi's is from the \
range of its file between one busy core and all.
"""


class Block(nn.Module):
    """Two convolutions and what goes around them (He et al., arXiv 1512.03385)."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.way = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs),
        )  # fmt: skip
        self.around = nn.Sequential()
        if stride > 1:
            self.around = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )
        self.last = nn.ReLU()

    def forward(self, features: Tensor) -> Tensor:
        """The sum of both ways."""
        made: Tensor = self.last(self.way(features) + self.around(features))
        return made


def resnet18() -> nn.Module:
    """ResNet18 of 1,000 classes."""
    blocks = [
        Block(inputs, outputs, stride)
        for before, outputs, first in ((64, 64, 1), (64, 128, 2), (128, 256, 2), (256, 512, 2))
        for inputs, stride in ((before, first), (outputs, 1))
    ]
    return nn.Sequential(
        nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1),
        *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000),
    )  # fmt: skip


@cache
def predicted(name: str, batch: int) -> Prediction:
    """A workload of the suite on the TX2."""
    captured = _captured(name)
    return predictor_for(captured, devices.find("jetson-tx2"), engine="torch-1.6").at(batch)


@cache
def _captured(name: str) -> StepFamily:
    return engines.find("torch").capture(
        workloads.find(name), Preparation(batch_size=LARGE), "fp32"
    )


def growth(name: str, quantity: str) -> float:
    """How much larger a figure is at batch 64 than at batch 4."""
    small, large = (float(getattr(predicted(name, size), quantity)) for size in (SMALL, LARGE))
    return large / small


def parts(name: str, batch: int = LARGE) -> dict[str, Ranged]:
    """Power of a step by part, in W; "all" is the total."""
    power = predicted(name, batch).power
    assert power is not None
    return {"all": power[0], **power[1]}


def ratio(above: Ranged, below: Ranged) -> Ranged:
    """Of two that miss independently."""
    value = above.value / below.value
    down = hypot(log(above.value / above.low), log(below.high / below.value))
    up = hypot(log(above.high / above.value), log(below.value / below.low))
    return Ranged(value=value, low=value * exp(-down), high=value * exp(up))


def judged(published: float, one: Ranged) -> str:
    """Whether the published figure lies within the predicted interval."""
    if one.low <= published <= one.high:
        return "yes"
    return f"no: {max(one.value / published, published / one.value):.1f} times off"


def row(source: str, what: str, published: str, value: str, verdict: str) -> str:
    """A line of the table."""
    return f"| {source} | {what} | {published} | {value} | {verdict} |"


def of_figure(figure: object, scale: float = 1.0) -> Ranged:
    """A figure with its interval."""
    ends = [getattr(figure, name) * scale for name in ("value", "low", "high")]
    return Ranged(value=ends[0], low=ends[1], high=ends[2])


def spelt(one: Ranged, unit: str) -> str:
    """A number with its interval."""
    return f"{one.value:.3g} ({one.low:.3g} to {one.high:.3g}) {unit}".strip()


def of_the_paper() -> Iterator[str]:
    """Rows of the TX2 paper."""
    energies = {name: growth(name, "energy_per_step") for name in SUITE}
    inside = sum(GROWTH[0] <= value <= GROWTH[1] for value in energies.values())
    listed = ", ".join(
        f"{name} {value:.1f}" for name, value in sorted(energies.items(), key=lambda item: item[1])
    )
    yield row(
        PAPER, "energy of a step, batch 64 over 4", "2.2 to 10.5 times", listed,
        f"{inside} of {len(energies)} in the range",
    )  # fmt: skip
    joules = {name: float(predicted(name, LARGE).energy_per_step) for name in VISION}
    most, least = max(joules, key=lambda n: joules[n]), min(joules, key=lambda n: joules[n])
    verdict = f"most: {'yes' if most == 'densenet40' else 'no'}; least: {'yes' if least == 'squeezenet' else 'no'}"
    yield row(
        PAPER, "most and least energy of vision models, batch 64", "DenseNet40, SqueezeNet",
        f"{most} {joules[most]:.3g} J, {least} {joules[least]:.3g} J (densenet40 {joules['densenet40']:.3g} J)", verdict,
    )  # fmt: skip
    for name in ("resnet50", "vgg16"):
        one = ratio(parts(name)["gpu"], parts(name)["cpu"])
        yield row(PAPER, f"{name}: power of the GPU over the CPU's", "4", spelt(one, ""), judged(4, one))  # fmt: skip
        one = ratio(parts(name)["gpu"], parts(name)["memory"])
        yield row(PAPER, f"{name}: power of the GPU over the memory's", "2", spelt(one, ""), judged(2, one))  # fmt: skip
    share = max(parts(name)["gpu"].value / parts(name)["all"].value for name in VISION)
    yield row(
        PAPER, "power of the GPU, of the system's, at most", "57.4 %", f"{100 * share:.0f} %",
        "yes" if abs(share - 0.574) < 0.06 else f"no: {0.574 / share:.1f} times off",
    )  # fmt: skip
    one = ratio(parts("char-cnn", SMALL)["memory"], parts("char-cnn", SMALL)["gpu"])
    yield row(
        PAPER, "LSTM (char-cnn, batch 4): power of the memory over the GPU's", "more than 1", spelt(one, ""),
        "yes" if one.value > 1 else "in its interval" if one.high > 1 else "no",
    )  # fmt: skip
    for name, *published in (
        ("densenet40", 81.6, 96.4), ("squeezenet", 71.4, 84.5), ("resnet50", 85.6, 95.6), ("char-cnn", 25, 25),
    ):  # fmt: skip
        loads = [100 * predicted(name, size).load["gpu"] for size in (SMALL, LARGE)]
        off = max(abs(mine - theirs) for mine, theirs in zip(loads, published, strict=True))
        yield row(
            PAPER, f"{name}: utilization of the GPU, batch 4 and 64",
            " and ".join(f"{each:g} %" for each in published),
            " and ".join(f"{each:.0f} %" for each in loads), "yes" if off <= 10 else f"no: {off:.0f} points off",
        )  # fmt: skip
    step = of_figure(predicted("dqn", SMALL).step_time, 1e3)
    yield row(PAPER, "deep RL: a step, whatever the batch", "4.5 ms", spelt(step, "ms") + " at batch 4", judged(4.5, step))  # fmt: skip
    times = growth("dqn", "throughput")
    yield row(PAPER, "deep RL: throughput, batch 64 over 4", "15.3 times", f"{times:.1f} times", f"{15.3 / times:.1f} times less")  # fmt: skip
    for size, samples in ((SMALL, 9.0), (LARGE, 55.0)):
        one = of_figure(predicted("resnet50", size).throughput)
        yield row(PAPER, f"resnet50: throughput at batch {size}", f"{samples:g} samples/s", spelt(one, "samples/s"), judged(samples, one))  # fmt: skip
    times = growth("densenet40", "throughput")
    yield row(PAPER, "densenet40: throughput, batch 64 over 4", "1.7 times", f"{times:.1f} times", f"{times / 1.7:.1f} times more")  # fmt: skip
    for name, peak in (("vgg16", 6.3), ("resnet50", 5.8), ("squeezenet", 5.7)):
        one = of_figure(predicted(name, LARGE).system_memory, 1e-9)
        yield row(PAPER, f"{name}: peak memory at batch 64", f"{peak:g} GB, reserved in advance", spelt(one, "GB"), judged(peak, one))  # fmt: skip


def of_others() -> Iterator[str]:
    """Rows of other sources."""
    nano = devices.find("jetson-nano")
    source = ModuleSource(
        make=resnet18, name="resnet18", input_shape=(3, 224, 224), classes=1000,
        optimizer=OptimizerSettings.parse("sgd,momentum=0.9,weight_decay=0.0001"),
    )  # fmt: skip
    captured = engines.find("torch").capture(source, Preparation(batch_size=8), "fp32")
    one = of_figure(predictor_for(captured, nano).at(8).step_time)
    yield row("jetson-inference tutorial", "Jetson Nano, ResNet18 at 224 px, batch 8: a step", "about 0.7 s", spelt(one, "s"), judged(0.7, one))  # fmt: skip
    small = predictor_for(_captured("alexnet"), nano).at(16)
    one = of_figure(small.mean_power)
    yield row("LifeLearner", "Jetson Nano, continual learning on CIFAR-100: mean power (1.9 kJ in 415 s)", "4.6 W", spelt(one, "W") + ", AlexNet at batch 16", judged(4.6, one))  # fmt: skip
    pi = devices.find("raspberry-pi-3b-plus")
    totals = [power_of(pi.power, {"cpu": cores / 4, "memory": 0.3}) for cores in (1, 4)]
    assert totals[0] is not None
    assert totals[1] is not None
    one = Ranged(
        value=(totals[0][0].value + totals[1][0].value) / 2, low=totals[0][0].low, high=totals[1][0].high
    )  # fmt: skip
    yield row("LifeLearner", "Raspberry Pi 3B+, the same: mean power (1.3 kJ in 460 s)", "2.7 to 2.9 W", spelt(one, "W") + ", one core to all", judged(2.8, one))  # fmt: skip


def main() -> None:
    """Prints the page, or writes it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--write", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    page = HEAD + "\n".join([*of_the_paper(), *of_others()]) + "\n" + WHY
    if given.write is None:
        print(page)
    else:
        given.write.write_text(page)


if __name__ == "__main__":
    main()
