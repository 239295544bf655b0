"""Energy of trainings beside emulated boards, whose truth is known, predicted from the device's file alone.

    wattstep calibrate-device --out this.toml
    python benchmarks/energy_emulated.py this.toml RUNS [--workloads lenet,dqn] [--boards jetson-tx2]

Two questions. Power: what an emulated board draws while one core trains, of its model, beside the
prediction from the device's shipped file, whose values were not drawn from the emulator's; for this
nothing trains. Energy: each workload trains on this machine with one thread while an emulated board
follows its load (`--target emulate:BOARD`), and what its input truly carried over the measured steps is
kept in the run; the prediction has this machine's calibrated time. A training that had less than
`LEAST` of a core says nothing of a prediction for a free machine: it is named and left out. RUNS is a
folder: runs that are there are not made again.
"""

from __future__ import annotations

import argparse
import itertools
import subprocess
import sys
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np
import torch

import wattstep
from wattstep import devices, engines, workloads
from wattstep.devices.table import Device
from wattstep.predict import CpuPredictor
from wattstep.record.hosts.emulation.power import clocks_for, module_watts, part_watts, spread
from wattstep.record.hosts.emulation.settings import make_settings
from wattstep.record.hosts.emulation.truth import read_truth
from wattstep.schema.step_graph import StepFamily
from wattstep.schema.workload import Preparation

BOARDS: Final = ("jetson-tx2", "jetson-orin-nano")
MODELS: Final = (
    "jetson-nano", "jetson-tx2", "jetson-xavier-nx", "jetson-agx-xavier", "jetson-orin-nano", "jetson-orin-nx",
    "jetson-agx-orin",
)  # fmt: skip
LEAST: Final = 0.9
INPUTS: Final = {"jetson-tx2": "VDD_IN", "jetson-orin-nano": "VDD_IN", "jetson-nano": "POM_5V_IN"}
WORKLOADS: Final = ("lenet", "densenet40", "dqn", "resnet8")
BATCH: Final = 16


@dataclass(frozen=True, kw_only=True)
class Case:
    """One training.

    Attributes:
        step: Time in s, measured and predicted.
        watts: Mean power over the measured steps, true and predicted.
        joules: Of a step, likewise.
        held: Whether the true energy lies in its predicted 90 % interval.
        core: Part of a core that the training had.
    """

    step: tuple[float, float]
    watts: tuple[float, float]
    joules: tuple[float, float]
    held: bool
    core: float


def board_with_our_time(calibrated: Device, board: str) -> Device:
    """This machine's calibration with a board's power and as many cores as it has."""
    shipped = devices.find(board)
    cores = sum(each.cores for each in shipped.processors.values() if each.kind == "cpu")
    cpu = next(each for each in calibrated.processors.values() if each.kind == "cpu")
    return replace(
        calibrated,
        processors={"cpu": replace(cpu, cores=cores)},
        power=shipped.power,
        thermal=shipped.thermal,
    )


def model_watts(board: str) -> float:
    """What an emulated board draws in W while one core is busy all the time, at its highest clock."""
    settings = make_settings(board, {})
    load = spread(settings, 1.0)
    clocks = clocks_for(settings.board, load, 1.0)
    return module_watts(settings, part_watts(settings, load, clocks))


@cache
def captured(workload: str) -> StepFamily:
    """The step of a workload."""
    return engines.find("torch").capture(
        workloads.find(workload), Preparation(batch_size=BATCH), "fp32"
    )


def print_models(calibrated: Device, names: list[str]) -> None:
    """Power of each board beside its prediction, of each workload."""
    print("| board | power, true | predicted | off |")
    print("|---|---:|---:|---:|")
    errors = []
    for board in MODELS:
        truth = model_watts(board)
        device = board_with_our_time(calibrated, board)
        predicted = [
            float(CpuPredictor(captured(name), device).at(BATCH).mean_power) for name in names
        ]
        misses = [off((truth, each)) for each in predicted]
        errors += [abs(each) for each in misses]
        print(
            f"| {board} | {truth:.2f} W | {min(predicted):.2f} to {max(predicted):.2f} W | {min(misses):+.0f} to {max(misses):+.0f} % |"
        )
    print(f"power: median {np.median(errors):.1f} %, largest {max(errors):.0f} %\n")


def trained(workload: str, board: str, runs: Path) -> Path:
    """The folder of a run beside an emulated board."""
    folder = runs / f"{workload}-{board}"
    if not folder.exists():
        command = [
            sys.executable, "-m", "wattstep", "run", workload, "--batch", str(BATCH), "--threads", "1", "--seconds", "5",
            "--target", f"emulate:{board},truth=10ms", "--cooldown", "none", "--trace", "none", "-q", "-o", str(folder),
        ]  # fmt: skip
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    [run] = folder.iterdir()
    return run


def truth_of(path: Path, board: str) -> tuple[float, float, float]:
    """Mean power of the board's input in W over the clean steps, the mean step in s, and the part of a core in use."""
    run = wattstep.load(path)
    steps, clean = run.series.steps, run.breakdown.clean
    begins, ends = steps.start_ns[clean], steps.end_ns[clean]
    columns, rows = read_truth(path)
    place = next(i for i, each in enumerate(columns) if each.name == f"{INPUTS[board]}.true")
    joules = 0.0
    for before, after in itertools.pairwise(rows):
        inside = np.minimum(after[0], ends) - np.maximum(before[0], begins)
        joules += float(np.maximum(inside, 0).sum()) * 1e-9 * after[place] * columns[place].scale
    seconds = (ends - begins) * 1e-9
    t_ns, used = run.series.raw("cpu0.busy_time")
    first, last = np.searchsorted(t_ns, [begins[0], ends[-1]]).tolist()
    last = min(last, len(t_ns) - 1)
    core = float(used[last] - used[first]) / (float(t_ns[last] - t_ns[first]) * 1e-9)
    return joules / float(seconds.sum()), float(seconds.mean()), core


def judged(workload: str, board: str, calibrated: Device, runs: Path) -> Case:
    """A training beside its prediction."""
    watts, step, core = truth_of(trained(workload, board, runs), board)
    made = CpuPredictor(captured(workload), board_with_our_time(calibrated, board)).at(BATCH)
    energy = made.energy_per_step
    assert energy.low is not None
    assert energy.high is not None
    joules = watts * step
    return Case(
        step=(step, float(made.step_time)),
        watts=(watts, float(made.mean_power)),
        joules=(joules, float(energy)),
        held=energy.low <= joules <= energy.high,
        core=core,
    )


def off(pair: tuple[float, float]) -> float:
    """By how much a prediction is off, in percent."""
    return 100 * (pair[1] / pair[0] - 1)


def main() -> None:
    """Trains what is not there yet, predicts and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("calibrated", type=Path)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--workloads", default=",".join(WORKLOADS))
    parser.add_argument("--boards", default=",".join(BOARDS))
    given = parser.parse_args()
    torch.set_num_threads(1)
    calibrated = devices.find(str(given.calibrated))
    print_models(calibrated, given.workloads.split(","))
    print(
        "| board | workload | power, true | predicted | off | step, measured | predicted | off | energy, true | predicted | off |"
    )
    print("|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
    cases = []
    for board in given.boards.split(","):
        for workload in given.workloads.split(","):
            one = judged(workload, board, calibrated, given.runs)
            if one.core < LEAST:
                print(f"{board}, {workload}: left out, it had {100 * one.core:.0f} % of a core")
                continue
            cases.append(one)
            print(
                f"| {board} | {workload} | {one.watts[0]:.2f} W | {one.watts[1]:.2f} W | {off(one.watts):+.1f} % "
                f"| {1e3 * one.step[0]:.4g} ms | {1e3 * one.step[1]:.4g} ms | {off(one.step):+.0f} % "
                f"| {1e3 * one.joules[0]:.4g} mJ | {1e3 * one.joules[1]:.4g} mJ | {off(one.joules):+.0f} % |",
                flush=True,
            )
    if not cases:
        print("no training was undisturbed: nothing is known of energy")
        return
    for name in ("watts", "step", "joules"):
        errors = [abs(off(getattr(case, name))) for case in cases]
        print(f"{name}: median {np.median(errors):.1f} %, largest {max(errors):.0f} %")
    print(f"energy in its 90 % interval: {100 * np.mean([case.held for case in cases]):.0f} %")


if __name__ == "__main__":
    main()
