"""An AGX Orin's trainings predicted with nothing read off a network, then off the board: what each misses.

    python benchmarks/orin_left_out.py

The protocol of the best claims: one network left out, then one board. Efficiencies of kinds are the TX2's
everywhere. Of the Orin's own trainings two values are read off TinyLlama's: the time in which its host starts
an operation, and the rate of the update (`predict_orin.py`). Without them a start takes what the TX2's takes, by
the clocks of their CPUs, and the update has the TX2's efficiency. A third board, a Nano, has one published
step. Each board's power has been published of its own trainings only, so power cannot leave one out.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from statistics import median
from typing import Any, Final

from predict_orin import BATCH, MEASURED, PEAK_MIB, PHASES, VGG9, TinyLlama
from published import resnet18
from wattstep import devices, engines
from wattstep.predict import Prediction, Predictor
from wattstep.predict.time import StepTime
from wattstep.schema.step_graph import StepFamily
from wattstep.schema.workload import ModuleSource, OptimizerSettings, Preparation

CPU_HZ: Final = {"TX2": 2.0352e9, "MAXN": 2.2016e9, "50W": 1.4976e9}
NANO_S: Final = 0.7  # ResNet18, 224 px, batch 8 (jetson-inference tutorial)
MIB: Final = 1 << 20


def captured(make: Any, shape: tuple[int, ...], batch: int, **how: Any) -> StepFamily:
    """The step of a module."""
    optimizer = OptimizerSettings.parse(how.pop("optimizer"))
    precision = how.pop("precision", "fp32")
    source = ModuleSource(make=make, name="network", input_shape=shape, optimizer=optimizer, **how)
    made: StepFamily = engines.find("torch").capture(
        source, Preparation(batch_size=batch), precision
    )
    return made


def predicted(
    step: StepFamily, batch: int, mode: str, *, left_out: bool, precision: str = "fp32"
) -> Prediction:
    """A training on the Orin; left out: without the values that TinyLlama's training gave."""
    orin = devices.find("agx-orin")
    one = Predictor(step, orin, precision=precision, mode=mode)
    if left_out:
        tx2 = devices.find("jetson-tx2").kinds["torch-1.6"]
        slower = CPU_HZ["TX2"] / CPU_HZ[mode]
        starts = {key: slower * value.value for key, value in tx2["step"].values.items()}
        update = {key: value.value for key, value in tx2["optimizer"].values.items()}
        values = {**one.fitted.values, "step": starts, "optimizer": update}
        one.fitted = replace(one.fitted, values=values)
    return one.at(batch)


def off(mine: float, theirs: float) -> float:
    """In percent of what was measured."""
    return 100 * (mine / theirs - 1)


def main() -> None:
    """Prints each figure's miss, then medians and largest ones."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    vgg9 = {
        size: captured(
            lambda size=size, classes=classes: VGG9(size, classes),
            (3, size, size), BATCH, optimizer="adam", classes=classes,
        )
        for size, classes in ((32, 10), (64, 200))
    }  # fmt: skip
    llama = captured(
        TinyLlama, (16,), 2, optimizer="adamw", precision="bf16", classes=None, integers=True
    )
    nano = Predictor(
        captured(resnet18, (3, 224, 224), 8, optimizer="sgd,momentum=0.9", classes=1000),
        devices.find("jetson-nano"),
    ).at(8)
    for title, of_vgg9, of_llama in (
        ("network left out", False, True),
        ("board left out", True, True),
    ):
        small, large = (predicted(vgg9[size], BATCH, "50W", left_out=of_vgg9) for size in (32, 64))
        one = predicted(llama, 2, "MAXN", left_out=of_llama, precision="bf16")
        time, energy = float(small.step_time), float(small.energy_per_step)
        assert one.power is not None
        assert isinstance(one.time, StepTime)
        rail = one.power[1]["gpu"].value + one.power[1]["soc"].value
        misses = {
            "time": {
                "VGG9 in 50W": off(1e3 * time, MEASURED["ms"]),
                "VGG9, 64 over 32 px": off(float(large.step_time) / time, MEASURED["times"]),
                **{
                    f"TinyLlama, {phase}": off(1e3 * seconds, PHASES[phase])
                    for phase, seconds in one.time.alone.items()
                },
            },
            "power": {
                "VGG9 in 50W": off(float(small.mean_power), MEASURED["W"]),
                "TinyLlama, VDD_GPU_SOC": off(rail, 14.4),
            },
            "energy": {
                "VGG9 in 50W": off(energy, MEASURED["J"]),
                "VGG9, 64 over 32 px": off(
                    float(large.energy_per_step) / energy, MEASURED["energy_times"]
                ),
            },
            "memory": {"TinyLlama, tensors": off(float(one.allocated_memory) / MIB, PEAK_MIB)},
        }
        if title == "board left out":
            misses["time"]["Nano, ResNet18"] = off(float(nano.step_time), NANO_S)
        print(title)
        for quantity, each in misses.items():
            sizes = [abs(miss) for miss in each.values()]
            told = ", ".join(f"{name} {miss:+.0f} %" for name, miss in each.items())
            print(
                f"  {quantity}: median {median(sizes):.0f} %, largest {max(sizes):.0f} % of {len(sizes)}: {told}"
            )


if __name__ == "__main__":
    main()
