"""What only a GPU can tell: recorded trainings on it beside a stopwatch, the profiler, NVML and the driver.

    python benchmarks/gpu_truth.py [--processor cuda] [--workloads lenet,squeezenet,mobilenetv2,gpt]
                                   [--parts steps,marks,cost,kernels,energy,memory] [--seconds 10]
                                   [--minutes 8] [--output gpu-truth.md] [--keep FOLDER]

At most eight minutes: what these leave out says so. Each part writes a table; what is not there (NVML,
its energy counter, CUPTI) is said in a line, and the others go on. `--keep` leaves the traced run of
the first training in a folder, to be shipped. `--processor cpu` tries the script itself where there is
no GPU; its tables say nothing of one.

steps    step time of a run beside a stopwatch around the same steps that waits for the device before and
         after; the host waits at each step, or at every tenth
marks    what the marks of a step cost the host, with and without events in the device's queue
cost     recorded and plain steps in turns, 40 at a time, on-off-off-on; by a stopwatch that waits
kernels  time of kernels in the table of operations beside the sums of Nsight Systems over other steps of
         the same training, where `nsys` is there, else of torch's own profiler; whether operations and
         what no operation covers add up to the step, in time and in each rail's energy; what tracing
         costs the device for each piece of work, and how long traced steps are that were played again
         without that, beside clean ones
energy   energy of the whole run by the sampled power beside the difference of NVML's own counter
memory   the allocator's peak, what the driver counts, and what it has left, beside the run's figures,
         and whether its categories add up to the peak
"""

from __future__ import annotations

import argparse
import gc
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from wattstep import engines, workloads
from wattstep.formats import nsys
from wattstep.formats.trace import GPU_WORK
from wattstep.record.recorder import Recorder
from wattstep.run.run import Run
from wattstep.schema.engine import Engine, Trainer
from wattstep.schema.workload import Preparation

PARTS: Final = ("steps", "marks", "cost", "kernels", "energy", "memory")
MARKED: Final = 3000  # empty steps by which marks are measured
SETTLE_S: Final = 0.3  # after which samples of the last steps are there
BEGUN: Final = 0.85  # of the minutes, within which trainings begin: one that has goes to its end
PROFILED: Final = 5  # steps that another profiler sums up
NSYS_S: Final = 120  # that Nsight Systems may take for one training
Row = Sequence[Any]


@dataclass(frozen=True, kw_only=True)
class Machine:
    """What is measured; tests play one.

    Attributes:
        processor: "cuda" or "cpu".
        device: On which tensors are made.
        engine: torch's.
        cuda: As `torch.cuda`.
        batch: Samples of a step.
        warmup: Steps before anything is measured.
        block: Steps at a time, where recording is switched.
    """

    processor: str
    device: torch.device
    engine: Engine
    cuda: Any
    batch: int = 16
    warmup: int = 20
    block: int = 40

    def wait(self) -> None:
        """Until the device has done everything."""
        if self.processor != "cpu":
            self.cuda.synchronize()


def machine_of(processor: str) -> Machine:
    """The machine that this runs on."""
    return Machine(
        processor=processor,
        device=torch.device(processor),
        engine=engines.find("torch"),
        cuda=torch.cuda,
    )


class Training:
    """A workload on the device, whose host waits for it as often as is asked for."""

    def __init__(self, name: str, machine: Machine) -> None:
        self.name, self.machine = name, machine
        self.trainer: Trainer = machine.engine.prepare(
            workloads.find(name), Preparation(batch_size=machine.batch), processor=machine.processor
        )
        self.wait = machine.wait
        for _ in range(machine.warmup):
            self.trainer.step()

    def stopwatch(self, steps: int, step: Callable[[], object]) -> float:
        """Seconds of a step, the device waited for before the first and after the last."""
        self.wait()
        begin = time.perf_counter()
        for _ in range(steps):
            step()
        self.wait()
        return (time.perf_counter() - begin) / steps


class Ahead:
    """A plain training whose host reads the loss of every `every`-th step only."""

    def __init__(self, machine: Machine, every: int) -> None:
        device = machine.device
        self.model = torch.nn.Sequential(
            *(torch.nn.Conv2d(32, 32, 3, padding=1) for _ in range(12)), torch.nn.Flatten()
        ).to(device)
        self.inputs = torch.randn(machine.batch, 32, 32, 32, device=device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-4)
        self.every, self.number = every, 0

    def step(self) -> None:
        self.number += 1
        loss = self.model(self.inputs).square().mean()
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        if self.number % self.every == 0:
            loss.item()


@contextmanager
def recording(machine: Machine, trace: str, model: Any) -> Iterator[tuple[Recorder, Path]]:
    """A recorder into a folder that goes with it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run"
        with Recorder(path, trace=trace, model=model, engine=machine.engine) as recorder:
            yield recorder, path


def recorded_step(
    recorder: Recorder, step: Callable[[], object], machine: Machine
) -> Callable[[], None]:
    """The same step under the recorder."""
    steps = recorder.steps

    def marked() -> None:
        steps.samples = machine.batch
        begun = steps.begin()
        step()
        steps.end(begun, float("nan"))

    return marked


@contextmanager
def recorded(
    training: Training, work: Callable[[Recorder, Callable[[], None]], None]
) -> Iterator[Run]:
    """The run of a training that is warm, of some work with its recorder and its step."""
    with recording(training.machine, "none", training.trainer.model) as (recorder, path):
        step = recorded_step(recorder, training.trainer.step, training.machine)
        for _ in range(training.machine.warmup):
            step()
        training.wait()
        work(recorder, step)
        recorder.close()
        yield Run(path)


def in_time(options: argparse.Namespace) -> Iterator[str]:
    """The trainings, until the minutes are over."""
    for number, name in enumerate(options.workloads):
        if time.perf_counter() > options.deadline:
            options.left_out.append(", ".join(options.workloads[number:]))
            return
        yield name


def percent(value: float, true: float) -> str:
    """By how much a value is off."""
    return f"{value / true - 1:+.2%}"


# --- the parts ---------------------------------------------------------------------------------


def steps_part(options: argparse.Namespace, machine: Machine) -> Iterator[Row]:
    yield (
        "training",
        "stopwatch",
        "step and gap, run",
        "off",
        "step alone",
        "host ahead by",
        "clock ±",
    )
    for name in in_time(options):
        training = Training(name, machine)
        step, model = training.trainer.step, training.trainer.model
        yield _one_of_steps(name, step, model, machine, options.seconds)
    for every in (1, 10):
        ahead = Ahead(machine, every)
        for _ in range(machine.warmup):
            ahead.step()
        name = f"host waits every {every}"
        yield _one_of_steps(name, ahead.step, ahead.model, machine, options.seconds)


def _one_of_steps(
    name: str, step: Callable[[], object], model: Any, machine: Machine, seconds: float
) -> Row:
    with recording(machine, "none", model) as (recorder, path):
        marked = recorded_step(recorder, step, machine)
        for _ in range(machine.warmup):
            marked()
        machine.wait()
        first, begin = recorder.steps.index, time.perf_counter()
        while time.perf_counter() - begin < seconds / 2:
            marked()
        machine.wait()
        passed, count = time.perf_counter() - begin, recorder.steps.index - first
        recorder.close()
        run = Run(path)
        steps = run.series.steps
        own = steps.index >= first
        whole = (steps.end_ns[own][-1] - steps.start_ns[own][0]) * 1e-9 / own.sum()
        ahead = run.metrics.get("run_ahead")
        return (
            name,
            f"{passed / count * 1e3:.3f} ms",
            f"{whole * 1e3:.3f} ms",
            percent(whole, passed / count),
            f"{run.metrics['step_time']}",
            "-" if ahead is None else f"{ahead}",
            f"{run.info.device_clock.get('uncertainty_ns', 0) / 1e3:.0f} us",
        )


def marks_part(options: argparse.Namespace, machine: Machine) -> Iterator[Row]:
    yield ("marks of a step", "plain step", "step with phases")
    held = torch.zeros(1, device=machine.device)  # by which the recorder finds the device
    with recording(machine, "none", None) as (recorder, _):
        steps = recorder.steps
        for label in ("host and device", "host alone"):
            if label == "host alone":
                steps.device, steps.device_problem = None, f"left out beside {held.device}"
            elif steps.device is None and machine.processor != "cpu":
                raise RuntimeError("the recorder did not find the device")
            costs: dict[bool, list[int]] = {True: [], False: []}
            for _ in range(MARKED):
                begin = time.perf_counter_ns()
                steps.samples = machine.batch
                begun = steps.begin()
                phases = steps.phases_on
                for phase in ("data", "forward", "backward", "optimizer"):
                    steps.mark(phase)
                steps.end(begun, 0.0)
                costs[phases].append(time.perf_counter_ns() - begin)
            yield (
                label,
                *(
                    f"{statistics.median(costs[on]) / 1e3:.2f} us" if costs[on] else "none"
                    for on in (False, True)
                ),
            )


def cost_part(options: argparse.Namespace, machine: Machine) -> Iterator[Row]:
    yield ("training", "plain", "recorded adds", "from", "to")
    for name in in_time(options):
        training = Training(name, machine)
        with recording(training.machine, "none", training.trainer.model) as (recorder, _):
            marked = recorded_step(recorder, training.trainer.step, training.machine)
            plain = training.trainer.step
            found, until = [], time.perf_counter() + options.seconds
            base = []
            while time.perf_counter() < until or len(found) < 4:
                if found and time.perf_counter() > options.deadline:
                    break
                times = [
                    training.stopwatch(machine.block, step)
                    for step in (marked, plain, plain, marked)
                ]
                found.append((times[0] + times[3]) / (times[1] + times[2]) - 1)
                base.append((times[1] + times[2]) / 2)
        draws = np.random.default_rng(0).choice(found, (2000, len(found)))
        low, high = np.quantile(np.median(draws, axis=1), (0.025, 0.975))
        yield (
            name,
            f"{statistics.median(base) * 1e3:.3f} ms",
            f"{statistics.median(found):+.2%}",
            f"{low:+.2%}",
            f"{high:+.2%}",
        )


def kernels_part(options: argparse.Namespace, machine: Machine) -> Iterator[Row]:
    yield (
        "training", "kernels, run", "kernels, profiler", "by", "off", "time of parts less step",
        "energy of parts less step", "traced", "tracing costs a piece", "steps played untraced, off",
    )  # fmt: skip
    for name in in_time(options):
        training = Training(name, machine)
        with recording(machine, "every:6", training.trainer.model) as (recorder, path):
            until = time.perf_counter() + options.seconds / 2
            marked = recorded_step(recorder, training.trainer.step, training.machine)
            latest = min(until + options.seconds, max(until, options.deadline))
            while time.perf_counter() < until or (
                recorder.steps.traced_steps < 5 and time.perf_counter() < latest
            ):
                marked()
            recorder.close()
            run = Run(path)
            if options.keep is not None and name == options.workloads[0]:
                shutil.copytree(path, options.keep / f"gpu-{name}", dirs_exist_ok=True)
            own = _kernel_s(run)
            profiled, by = _profiled_s(training, name, options)
            document = run.document()
            time_off, energy_off = _not_conserved(document)
            yield (
                name,
                f"{own * 1e3:.3f} ms",
                f"{profiled * 1e3:.3f} ms",
                by,
                percent(own, profiled) if profiled else "no kernels",
                f"{time_off:+.1e}",
                energy_off,
                recorder.steps.traced_steps,
                *_untraced(run),
            )


def _untraced(run: Run) -> tuple[str, str]:
    """What tracing cost the device for each piece of work, and how long replayed steps are beside clean ones."""
    timeline = None if run.breakdown.reason is not None else run.breakdown.timeline
    if timeline is None or timeline.cost is None:
        return "not told", "not told"
    return f"{timeline.cost.piece_s * 1e6:.2f} µs", f"{timeline.residual:+.2%}"


def _not_conserved(document: dict[str, Any]) -> tuple[float, str]:
    """By how much operations and what none of them covers miss the step: time, and the worst rail's energy."""
    rests = [row for name, row in document["rests"].items() if name != "not_resolved"]
    rows = [*document["operations"], *rests]
    metrics = document["metrics"]
    off = sum(row["time"]["value"] for row in rows) / metrics["step_time"]["value"] - 1
    left = document.get("not_resolved", {}).get("operations", {})
    steps = {
        **document.get("energy_by_rail", {}),
        "": metrics["energy_per_step"],
    }  # "": the machine's
    found = []
    for name, step in steps.items():
        if not step["value"]:
            continue
        parts = [
            row.get("energy_by_rail", {}).get(name, {}) if name else row["energy"] for row in rows
        ]
        beside = left.get("energy_by_rail", {}).get(name) if name else left.get("energy")
        told = sum(part.get("value") or 0.0 for part in parts)
        told += (beside or {}).get("value") or 0.0
        if told:  # else no part of it is told at all, with a reason
            found.append(told / step["value"] - 1)
    return off, f"{max(found, key=abs):+.1e}" if found else "no energy is told"


def _kernel_s(run: Run) -> float:
    """Time of all work on the device in a traced step, from the rows as they were traced."""
    table = run.tables.table("operations", columns=("processor", "start_ns", "end_ns", "step"))
    on = np.array([each != "cpu" for each in table["processor"].to_pylist()], bool)
    lasting = (table["end_ns"].to_numpy() - table["start_ns"].to_numpy())[on]
    return float(lasting.sum()) * 1e-9 / max(len(set(table["step"].to_pylist())), 1)


def _profiled_s(training: Training, name: str, options: argparse.Namespace) -> tuple[float, str]:
    """The same by another profiler's own sum, and which one that was."""
    if shutil.which("nsys") is None:
        return _by_torch_s(training), "torch.profiler (nsys is not there)"
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report"
        child = [
            sys.executable, __file__, "--train", name, "--processor", training.machine.processor,
        ]  # fmt: skip
        between = ("--capture-range=cudaProfilerApi", "--capture-range-end=stop")
        trace = ("stats", "--report", "cuda_gpu_trace", "--format", "csv", f"{report}.nsys-rep")
        try:
            _call(options, "nsys", "profile", "-t", "cuda", *between, "-o", str(report), *child)
            table = _call(options, "nsys", *trace)
            return _sum_s(table), "nsys"
        except (subprocess.SubprocessError, OSError, ValueError) as error:
            return _by_torch_s(training), f"torch.profiler (nsys: {type(error).__name__})"


def _call(options: argparse.Namespace, *command: str) -> bytes:
    """What a command prints; it ends within the minutes."""
    left = max(1.0, min(NSYS_S, options.deadline - time.perf_counter()))
    return subprocess.run(command, capture_output=True, check=True, timeout=left).stdout


def _sum_s(table: bytes) -> float:
    """Work on the device a step, of `PROFILED` steps, from what nsys says of each piece."""
    trace = nsys.parse(table)
    if trace.events is None:
        raise ValueError("nsys tells no single pieces of work")
    categories = [trace.names[code] for code in trace.events.category]
    on = np.array([each in GPU_WORK for each in categories], bool)
    lasting = (trace.events.end_ns - trace.events.start_ns)[on]
    return float(lasting.sum()) * 1e-9 / PROFILED


def profiled_training(name: str, machine: Machine) -> None:
    """What Nsight Systems profiles: a training that is warm, between begin and end of CUDA's profiler."""
    training = Training(name, machine)
    training.wait()
    machine.cuda.profiler.start()
    for _ in range(PROFILED):
        training.trainer.step()
    training.wait()
    machine.cuda.profiler.stop()


def _by_torch_s(training: Training) -> float:
    """The same by torch's own profiler and its own sum."""
    activities = [torch.profiler.ProfilerActivity.CPU]
    if training.machine.processor != "cpu":
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    with torch.profiler.profile(activities=activities) as profile:
        for _ in range(PROFILED):
            training.trainer.step()
        training.wait()
    kernels = [
        event
        for event in profile.events()
        if "CUDA" in str(getattr(event, "device_type", ""))
        and not getattr(event, "is_user_annotation", False)
    ]
    return sum(event.time_range.elapsed_us() for event in kernels) * 1e-6 / PROFILED


def energy_part(options: argparse.Namespace, machine: Machine) -> Iterator[Row]:
    yield (
        "training",
        "NVML's counter",
        "run, by sampled power",
        "off",
        "counter / step",
        "step of the run",
    )
    import pynvml  # NVML is asked here, apart from what the run asks

    pynvml.nvmlInit()
    handle = _nvml_handle(pynvml, machine)
    for name in in_time(options):
        training = Training(name, machine)
        moments: list[tuple[int, float]] = []  # ns of the run's clock, J by the counter
        numbers: list[int] = []  # of the steps that began then

        def measured(
            recorder: Recorder,
            step: Callable[[], None],
            training: Training = training,
            moments: list[tuple[int, float]] = moments,
            numbers: list[int] = numbers,
        ) -> None:
            until = time.perf_counter() + options.seconds
            for _ in range(2):
                moments.append((time.perf_counter_ns(), _counted(pynvml, handle)))
                numbers.append(recorder.steps.index)
                while time.perf_counter() < until:
                    step()
                training.wait()
            time.sleep(SETTLE_S)  # the last samples of those steps, too

        with recorded(training, measured) as run:
            (begin_ns, begin_j), (end_ns, end_j) = moments
            steps = numbers[1] - numbers[0]
            rails = run.series.uncalibrated_rails
            power = [c.name for c in run.series.with_role("power_part") if c.domain == "gpu"]
            gained = covered = np.array([np.nan])
            if power:
                # The same stretch by both: what a step takes leaves out the gaps between steps.
                curve = rails[power[0]].curve
                gained, covered = curve.difference(np.array([begin_ns]), np.array([end_ns]))
            told = run.report().energy_by_rail  # of the GPU alone: one rail
            figure = next(iter(told.values()), run.metrics["energy_per_step"])
            yield (
                name,
                f"{end_j - begin_j:.1f} J",
                "missing" if not power else f"{gained[0]:.1f} J of {covered[0]:.1%} of the time",
                "-" if not power else percent(float(gained[0]), end_j - begin_j),
                f"{(end_j - begin_j) / steps:.3g} J",
                str(figure),
            )


def _counted(nvml: Any, handle: Any) -> float:
    """NVML's counter in J."""
    return float(nvml.nvmlDeviceGetTotalEnergyConsumption(handle)) * 1e-3


def _nvml_handle(nvml: Any, machine: Machine) -> Any:
    """NVML's own of the GPU that trains: it numbers them in another order than CUDA."""
    uuid = machine.engine.device_facts(machine.processor).get("uuid")
    if uuid is None:
        return nvml.nvmlDeviceGetHandleByIndex(0)
    return nvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}")


def memory_part(options: argparse.Namespace, machine: Machine) -> Iterator[Row]:
    yield (
        "training", "run's peak", "categories less peak", "allocator's peak", "fragments",
        "driver counts", "run's peak is off by", "free on the device",
    )  # fmt: skip
    if machine.processor == "cpu":
        raise RuntimeError("there is no memory of a device with --processor cpu")
    cuda = machine.cuda
    for name in in_time(options):
        gc.collect()
        cuda.empty_cache()
        cuda.reset_peak_memory_stats()
        training = Training(name, machine)
        with recorded(training, lambda recorder, step: None) as run:
            figure = run.metrics.get("device_peak_memory")
            parts = run.metrics.get("device_memory_breakdown") or {}
            cache = run.metrics.get("allocator_cache") or {}
            off = sum(part.value or 0.0 for part in parts.values()) - (
                figure.value if figure else 0
            )
        free, total = cuda.mem_get_info()
        driver = total - free  # with CUDA's context, as in the run's peak
        yield (
            name,
            str(figure),
            f"{off:.0f} B" if parts else "-",
            f"{cuda.max_memory_reserved() / 2**20:.0f} MiB",
            str(cache.get("fragments", "not told")),
            f"{driver / 2**20:.0f} MiB in use by all processes",
            percent(figure.value or 0.0, float(driver)) if figure and driver > 0 else "-",
            f"{free / 2**20:.0f} of {total / 2**20:.0f} MiB",
        )


# --- the page ----------------------------------------------------------------------------------


def table(rows: Sequence[Row]) -> str:
    """A table of Markdown."""
    lines = ["| " + " | ".join(map(str, row)) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])


def about(machine: Machine) -> str:
    """The machine, in a line."""
    if machine.processor == "cpu":
        return f"torch {torch.__version__}, CPU: tries the script, and says nothing of a GPU"
    properties = machine.cuda.get_device_properties(0)
    return (
        f"{properties.name}, compute capability {properties.major}.{properties.minor}, "
        f"torch {torch.__version__}, CUDA {torch.version.cuda}, Python {sys.version.split()[0]}"
    )


def main(arguments: Sequence[str] | None = None, machine: Machine | None = None) -> int:
    """Measures and prints the page.

    Args:
        arguments: Of the command line; None: its own.
        machine: What is measured; None: this one.
    """
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--processor", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--workloads", default="lenet,squeezenet,mobilenetv2,gpt")
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--minutes", type=float, default=8.0)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--train", help=argparse.SUPPRESS)  # as Nsight Systems calls it
    options = parser.parse_args(arguments)
    options.workloads = options.workloads.split(",")
    ends = time.perf_counter() + BEGUN * options.minutes * 60
    machine = machine or machine_of(options.processor)
    if machine.processor == "cuda" and not machine.cuda.is_available():
        print("torch sees no GPU here: nothing is measured (see wattstep doctor)", file=sys.stderr)
        return 2
    if options.train is not None:
        profiled_training(options.train, machine)
        return 0
    page = ["# What a GPU tells", "", about(machine), ""]
    parts = options.parts.split(",")
    for number, part in enumerate(parts):
        begin = time.perf_counter()
        # Each has its share of what is left: a slow one takes no other's.
        options.deadline = begin + (ends - begin) / (len(parts) - number)
        rows: list[Row] = []
        options.left_out = []
        lines = [f"## {part}", ""]
        try:
            rows.extend(globals()[f"{part}_part"](options, machine))
        except Exception as error:  # one part says why it cannot be had, the others go on
            lines += [f"Not measured: {type(error).__name__}: {error}", ""]
        if len(rows) > 1:
            lines += [table(rows), ""]
        if options.left_out:
            words = f"its share of the {options.minutes:g} minutes was over"
            lines += [f"Left out, because {words}: {', '.join(options.left_out)}", ""]
        lines += [f"({time.perf_counter() - begin:.0f} s)", ""]
        print("\n".join(lines), flush=True)
        page += lines
    if options.output is not None:
        options.output.write_text("\n".join(page), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
