"""The metrics of a run: of each its name, unit, words and meaning, and where it is shown and compared.

One entry a metric; what computes it is named here too, where that is a function of its own
(`computed`), else one of the groups of `run/metrics.py`. Another package adds one by a line of its
`pyproject.toml`: `[project.entry-points."wattstep.metrics"]`, `name = "package.module:METRIC"`.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from wattstep.schema.registry import Registry
from wattstep.schema.spelling import Notation as Notation


@dataclass(frozen=True, kw_only=True)
class Metric:
    """Name and meaning of a metric.

    Attributes:
        label: Its name for readers.
        meaning: What it is, in one line.
        unit: SI unit, of those that are compared or computed on their own.
        notation: "times": a ratio is shown as a factor.
        headline: Whether it belongs to the first figures of a run; these are in the order of
            `METRICS`.
        compared: Whether comparisons of runs know it.
        of: "step": it grows with the size of a step, and is compared between steps of one size only.
        subject: How a comparison speaks of it: "a step of B" ...
        verb: ... "takes" 12 % less ...
        thing: ... "energy"; "": comparisons list it without a sentence.
        topic: What the sentence is about: "Energy".
        best: The answer where several runs stand side by side: "{} has the shortest step: {}"; ""
            where nobody asks.
        most: Whether the largest is the best.
        computed: "module:function" that gives its Figure by a run's parts (`run.metrics.Parts`) and
            the metrics before it, or None where the run has no such metric.
    """

    label: str
    meaning: str
    unit: str = ""
    notation: Notation = "unit"
    headline: bool = False
    compared: bool = False
    of: str = ""
    topic: str = ""
    subject: str = ""
    verb: str = ""
    thing: str = ""
    best: str = ""
    most: bool = False
    computed: str = ""

    @property
    def asked(self) -> str:
        """Claim of `best` without its figure: "has the shortest step"."""
        return self.best.removeprefix("{} ").removesuffix(": {}")


_METRICS: Final = {
    "time_to_target": Metric(
        label="Time to the goal",
        meaning="Time of all steps until the goal was reached",
        headline=True,
    ),
    "energy_to_target": Metric(
        label="Energy to the goal",
        meaning="Energy of all steps until the goal was reached, idle power included",
        headline=True,
    ),
    "step_time": Metric(
        label="Step time (mean)",
        meaning="Wall time of one training step, not traced",
        headline=True,
        unit="s",
        compared=True,
        of="step",
        topic="Time",
        subject="a step of B",
        verb="takes",
        thing="time",
        best="{} has the shortest step: {}",
    ),
    "host_step_time": Metric(
        label="Host time per step",
        meaning="Time from the begin of a step on the host until the host begins the next, where a "
        "device runs behind it",
        unit="s",
        computed="wattstep.run.device_time:host_step_time",
    ),
    "run_ahead": Metric(
        label="Host runs ahead by",
        meaning="Time from the end of a step on the host until the device has done it",
        unit="s",
        computed="wattstep.run.device_time:run_ahead",
    ),
    "cpu_time_per_step": Metric(
        label="CPU time per step",
        meaning="CPU time that the training takes in one step, on all cores together",
        unit="s",
        compared=True,
        of="step",
        topic="CPU time",
        subject="a step of B",
        verb="takes",
        thing="CPU time",
    ),
    "recorded_time": Metric(
        label="Recorded time",
        meaning="From the beginning of the recording to its end",
        headline=True,
    ),
    "recorded_cpu_time": Metric(
        label="CPU time",
        meaning="CPU time of the training and its children in all the time that was recorded",
        headline=True,
    ),
    "gpu_time": Metric(
        label="GPU time", meaning="Part of a step in which its work ran on any GPU", headline=True
    ),
    "throughput": Metric(
        label="Throughput",
        meaning="Samples trained in a second",
        headline=True,
        unit="samples/s",
        compared=True,
        topic="Speed",
        subject="B",
        verb="has",
        thing="throughput",
        best="{} trains most samples in a second: {}",
        most=True,
    ),
    "tokens_per_second": Metric(
        label="Tokens per second",
        meaning="Tokens trained in a second",
        headline=True,
        unit="tokens/s",
        compared=True,
        topic="Speed",
        subject="B",
        verb="has",
        thing="throughput of tokens",
        most=True,
        computed="wattstep.run.tokens:tokens_per_second",
    ),
    "energy_per_step": Metric(
        label="Energy per step",
        meaning="Energy that one step takes",
        headline=True,
        unit="J",
        compared=True,
        of="step",
        topic="Energy",
        subject="a step of B",
        verb="takes",
        thing="energy",
    ),
    "energy_per_sample": Metric(
        label="Energy per sample",
        meaning="Energy that one training sample takes",
        headline=True,
        unit="J",
        compared=True,
        topic="Energy",
        subject="a sample of B",
        verb="takes",
        thing="energy",
        best="{} needs the least energy for a sample: {}",
    ),
    "energy_per_token": Metric(
        label="Energy per token",
        meaning="Energy that one token takes, padding counted as the model sees it",
        headline=True,
        unit="J",
        compared=True,
        topic="Energy",
        subject="a token of B",
        verb="takes",
        thing="energy",
        best="{} needs the least energy for a token: {}",
        computed="wattstep.run.tokens:energy_per_token",
    ),
    "compile_time": Metric(
        label="Compile time",
        meaning="Time that compiling the model took, before and within its first steps",
        headline=True,
        unit="s",
        compared=True,
        topic="Compiling",
        subject="compiling B",
        verb="takes",
        thing="time",
        computed="wattstep.run.compiling:compile_time",
    ),
    "compile_memory": Metric(
        label="Compile memory",
        meaning="Memory that compiling the model took at most, the compiler and its processes included",
        headline=True,
        unit="B",
        compared=True,
        topic="Memory of compiling",
        subject="compiling B",
        verb="takes",
        thing="memory",
        computed="wattstep.run.compiling:compile_memory",
    ),
    "predicted_step_time": Metric(
        label="Step by the plan",
        meaning="Time of a step as the plan of its operations was simulated, by times measured in the first steps",
        headline=True,
        unit="s",
        computed="wattstep.run.scheduling:predicted_step_time",
    ),
    "plan_bound": Metric(
        label="No plan below",
        meaning="Critical path of a step, or its least work shared among the cores, whichever is more",
        headline=True,
        unit="s",
        computed="wattstep.run.scheduling:plan_bound",
    ),
    "over_bound": Metric(
        label="Step over that",
        meaning="Time of a step over what no plan of its operations goes below",
        notation="times",
        headline=True,
        unit="ratio",
        computed="wattstep.run.scheduling:over_bound",
    ),
    "plan_saving": Metric(
        label="Saved by the plan",
        meaning="Part of the step that the plan saves beside one operation after the other, both simulated",
        headline=True,
        unit="ratio",
        computed="wattstep.run.scheduling:plan_saving",
    ),
    "recorded_energy": Metric(
        label="Recorded energy", meaning="Energy in all the time that was recorded", headline=True
    ),
    "busy_time": Metric(
        label="Busy stretch", meaning="How long the power of the recording was high", headline=True
    ),
    "busy_energy": Metric(label="Busy energy", meaning="Energy in the busy stretch", headline=True),
    "busy_power": Metric(
        label="Busy power", meaning="Mean power of the busy stretch", headline=True
    ),
    "mean_power": Metric(
        label="Mean power",
        meaning="Mean power over steps and the gaps between them, that of the idle device included",
        headline=True,
        unit="W",
        compared=True,
    ),
    "machine_energy_per_step": Metric(
        label="Energy of the machine per step",
        meaning="Energy that the whole machine takes in a step, other programs included",
        headline=True,
    ),
    "peak_memory": Metric(
        label="Peak memory",
        meaning="Most memory that the training and its children held at once, shared pages once",
        headline=True,
        unit="B",
        compared=True,
        topic="Memory",
        subject="B",
        verb="needs",
        thing="memory at its peak",
        best="{} needs the least memory: {}",
    ),
    "system_peak_memory": Metric(
        label="System peak memory", meaning="Most memory in use on the whole machine", headline=True
    ),
    "cpu_utilization": Metric(
        label="CPU utilization", meaning="Part of the time that the cores were busy", headline=True
    ),
    "process_cpu_cores": Metric(
        label="Cores kept busy", meaning="Number of cores that the training itself kept busy"
    ),
    "gpu_utilization": Metric(
        label="GPU utilization", meaning="Part of the time that the GPU was busy", headline=True
    ),
    "machine_mean_power": Metric(
        label="Mean power of the machine",
        meaning="Mean power of the whole machine while training, other programs included",
    ),
    "proportional_peak_memory": Metric(
        label="Proportional peak memory",
        meaning="Likewise, with pages that other programs share counted in part",
    ),
    "cpu_core_utilization": Metric(
        label="Utilization by core", meaning="Part of the time that the core was busy"
    ),
    "idle_state_ratio": Metric(
        label="Idle ratio by core", meaning="Part of the samples in which the core was idle"
    ),
    "sensor_delay": Metric(
        label="Sensor delay", meaning="How late samples of power are, as they say themselves"
    ),
    "sensor_window": Metric(
        label="Sensor window", meaning="Time that the power sensor averages over, as samples say"
    ),
    "regressed_step_energy": Metric(
        label="Energy per step by regression",
        meaning="What operations and rests of the regression take together",
    ),
    "device_peak_memory": Metric(
        label="Peak memory of the GPU",
        meaning="Most memory of the device that the training took: its allocator's, and what the "
        "driver counts beside it",
        headline=True,
        unit="B",
        compared=True,
        topic="Memory of the GPU",
        subject="B",
        verb="needs",
        thing="memory of the GPU",
    ),
    "device_memory_breakdown": Metric(
        label="Memory of the GPU", meaning="What the device's memory is used for"
    ),
    "allocator_cache": Metric(
        label="Free memory of the GPU's allocator",
        meaning="What the allocator kept from the driver for later, and what of it cannot serve: "
        "fragmentation",
    ),
    "allocator_flushes": Metric(
        label="Flushes of the GPU's allocator",
        meaning="Allocations that were served only after all free memory had gone back to the driver",
    ),
    "gpu_sensor_share": Metric(
        label="GPU's power sensor looks",
        meaning="Part of the time in which the sensor behind the GPU's power and energy looks",
        computed="wattstep.run.sensor_share:sensor_share",
    ),
    "system_memory_left": Metric(
        label="Memory left",
        meaning="Least memory that the whole machine had available, where CPU and GPU share it",
        headline=True,
    ),
    "shared_memory": Metric(
        label="Memory of CPU and GPU together",
        meaning="What all memory of the machine was used for when least was left, each byte once",
    ),
    "memory_breakdown": Metric(label="Memory", meaning="What the memory is used for"),
    "memory_by_stage": Metric(
        label="Memory by stage",
        meaning="Most memory of the process in each stage of a training's life, as predicted",
    ),
    "time_by_stage": Metric(
        label="Time by stage",
        meaning="Time of stages of a training's life that are no steps, as predicted",
    ),
    "steps_to_target": Metric(
        label="Steps to the goal", meaning="Steps until an evaluation reached the goal"
    ),
    "samples_to_target": Metric(
        label="Samples to the goal", meaning="Samples trained on until the goal was reached"
    ),
    "frame_time": Metric(
        label="Time of a frame of the game",
        meaning="Time in the game over the frames that it went on by",
    ),
    "foreground_delay": Metric(
        label="Foreground job",
        meaning="Effect of training on a job of 60 frames a second that runs beside it, and the job alone",
    ),
    "training_slowdown": Metric(
        label="Training slowdown",
        meaning="Time of a step with the foreground job beside it over that without",
        notation="times",
    ),
    "memory_highest": Metric(
        label="Highest", meaning="Most that a category of tensors takes, at its own moment"
    ),
    "recording_overhead": Metric(
        label="Recording overhead", meaning="Share of the recorded time that tracing and marks took"
    ),
    "trace_inflation": Metric(
        label="Trace inflation",
        meaning="Time of a traced step over that of a clean one",
        notation="times",
    ),
    "slow_step_share": Metric(
        label="Slow steps", meaning="Share of steps beyond 1.5 times their median"
    ),
    "slow_step_loss": Metric(
        label="Lost in slow steps", meaning="Time of slow steps beyond the median, of all time"
    ),
    "slow_operations": Metric(
        label="Operations with slow instances",
        meaning="Operations that were beyond 1.5 times what is usual at their place in the step",
    ),
    "tested_pairs": Metric(
        label="Pairs tested", meaning="Operations and conditions whose coincidence was tested"
    ),
    "correction_residual": Metric(
        label="Correction residual",
        meaning="What the correction for tracing leaves unexplained of a step",
    ),
    "operations_share": Metric(
        label="Operations of a step",
        meaning="Share of a step that its traced operations add up to; the rest has rows by name",
        unit="ratio",
        computed="wattstep.run.operations_share:operations_share",
    ),
    "compute_share": Metric(
        label="Computing",
        meaning="Share of a step in which operations compute; on a GPU, in which it does",
        unit="ratio",
        computed="wattstep.run.step_shares:compute_share",
    ),
    "data_movement_share": Metric(
        label="Moving data",
        meaning="Share of a step in which operations only bring values elsewhere or into another layout; "
        "on a GPU, in which it only copies or fills",
        unit="ratio",
        computed="wattstep.run.step_shares:data_movement_share",
    ),
    "launch_share": Metric(
        label="Launches and gaps",
        meaning="Share of a step in which no operation runs, or nothing on the GPU: launches, the "
        "framework's own code, batches, waiting",
        unit="ratio",
        computed="wattstep.run.step_shares:launch_share",
    ),
    "sustained": Metric(label="Sustained", meaning="The first minute of training against the last"),
    "thermal_time_constant": Metric(
        label="Thermal time constant",
        meaning="Time in which 63 % of a change of temperature has come about",
    ),
    "thermal_time_constant_fast": Metric(
        label="Thermal time constant, fast stage",
        meaning="The same, of the part that follows the load at once",
    ),
    "steady_temperature": Metric(
        label="Steady temperature",
        meaning="Where the temperature would settle at the mean power of the training",
    ),
    "time_to_throttle": Metric(
        label="Time to throttle",
        meaning="From the beginning, at that power, until throttling begins",
    ),
    "thermal_resistance": Metric(
        label="Thermal resistance", meaning="Warmer by so much for each watt, once settled"
    ),
    "idle_power": Metric(
        label="Idle power", meaning="What the device takes while nothing trains on it"
    ),
    "energy_per_step_above_idle": Metric(
        label="Energy per step above idle",
        meaning="Energy of a step less that of the idle device in the same time",
    ),
    "energy_per_step_with_idle": Metric(
        label="Energy per step with idle", meaning="Energy of a step, idle power included"
    ),
    "energy_per_sample_with_idle": Metric(
        label="Energy per sample with idle", meaning="Energy of a sample, idle power included"
    ),
    "step_time_by_state": Metric(
        label="Step time by state", meaning="Steps while the device was throttled, or not"
    ),
    "energy_per_step_by_state": Metric(
        label="Energy per step by state", meaning="Steps while the device was throttled, or not"
    ),
    "cpu_cluster_utilization": Metric(
        label="Utilization by kind of core", meaning="Part of the time that these cores were busy"
    ),
    "memory_controller_utilization": Metric(
        label="Memory controller", meaning="Part of the time, or of its bandwidth, that it was busy"
    ),
    "gpu_memory": Metric(label="GPU memory", meaning="Memory of the GPU in use"),
    "steal": Metric(label="Steal", meaning="Time that the host gave to other virtual machines"),
    "other_cpu": Metric(label="Other processes", meaning="Processor time of other processes"),
    "achieved_flops": Metric(
        label="Achieved FLOP/s", meaning="FLOPs that could be counted, over the time of a step"
    ),
    "compute_bound_time": Metric(
        label="Bound by computing", meaning="Operations near the measured ceiling of arithmetic"
    ),
    "memory_bound_time": Metric(
        label="Bound by moving data", meaning="Operations near the measured ceiling of memory"
    ),
    "overhead_bound_time": Metric(
        label="Far below both ceilings",
        meaning="Operations whose counted work explains less than a tenth of their time",
    ),
    "unknown_bound_time": Metric(
        label="Cannot be judged", meaning="Operations of which neither FLOPs nor bytes are known"
    ),
    "between_operations_time": Metric(
        label="Between operations", meaning="Time of a step that no operation covers"
    ),
    "time_at_ceilings": Metric(
        label="Step at the ceilings",
        meaning="What the counted work of a step takes at least on this machine",
    ),
    "idle_time": Metric(
        label="Without an operation", meaning="Time of a step that no operation covers"
    ),
    "idle_framework": Metric(
        label="Framework", meaning="Module and interpreter code between operations"
    ),
    "idle_data": Metric(label="Data loading", meaning="Gaps while data are loaded"),
    "idle_game": Metric(label="The game", meaning="Gaps while the game plays"),
    "idle_optimizer": Metric(
        label="Optimizer bookkeeping", meaning="Code of the optimizer between its operations"
    ),
    "idle_evaluation": Metric(label="Evaluation", meaning="Gaps of evaluations within a step"),
    "idle_workers": Metric(
        label="Waits of workers",
        meaning="Gaps in which workers of a plan of operations wait for each other",
    ),
    "idle_not_running": Metric(
        label="Not running, in gaps", meaning="Gaps in which the training ran on no core"
    ),
    "not_running_time": Metric(
        label="Not running, of a step", meaning="Time of a step in which it ran on no core"
    ),
    "between_steps_time": Metric(
        label="Between steps", meaning="From the end of a step to the begin of the next"
    ),
    "evaluation_share": Metric(
        label="Evaluations", meaning="Share of all time that evaluations between steps took"
    ),
    "cores_used": Metric(label="Cores used", meaning="Cores that the training kept busy, mean"),
    "cores_free": Metric(
        label="Cores free", meaning="Cores less those that other processes and the host took"
    ),
    "cores_idle": Metric(
        label="Cores left idle", meaning="Free cores less those that the training used"
    ),
    "saved_by_threads": Metric(
        label="Another number of threads", meaning="Time of a step that it should save"
    ),
    "critical_path_time": Metric(
        label="Critical path",
        meaning="Longest chain of work in which each waits for the one before",
    ),
    "critical_path_share": Metric(
        label="Critical path of the step", meaning="That chain over the step"
    ),
    "work_at_once": Metric(
        label="Work over the path",
        meaning="Work of all threads and streams over the longest chain",
        notation="times",
    ),
}


def _with_added() -> dict[str, Metric]:
    """Ours, and those of other packages: entry points of the group "wattstep.metrics", each a Metric."""
    registry = Registry("wattstep.metrics", dict.fromkeys(_METRICS, ""))
    metrics = dict(_METRICS)
    for name in registry:
        if name not in metrics:
            try:
                added = registry.load(name)
                if not isinstance(added, Metric):
                    raise TypeError(f"{registry[name]} is no wattstep.schema.metrics.Metric")
                metrics[name] = added
            except Exception as error:  # somebody else's defect costs their metric, and is said
                warnings.warn(f"the metric {name} is left out: {error}", stacklevel=2)
    return metrics


METRICS: Final[Mapping[str, Metric]] = MappingProxyType(_with_added())
HEADLINES: Final = tuple(name for name, metric in METRICS.items() if metric.headline)
# Those that only some runs have, by a function of their own.
OWN: Final = tuple(name for name, metric in METRICS.items() if metric.computed)
COMPARED: Final = tuple(name for name, metric in METRICS.items() if metric.compared)
