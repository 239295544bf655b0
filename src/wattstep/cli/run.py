"""`wattstep run`: train and record; prints the table, writes the run."""

from __future__ import annotations

import sys
from dataclasses import asdict, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from wattstep.cli.options import (
    Accumulate,
    Ambient,
    Batches,
    Classes,
    Cooldown,
    Data,
    Exclude,
    Fan,
    Idle,
    ImageSize,
    Interval,
    Json,
    Live,
    MemoryLimit,
    Name,
    Out,
    PowerModel,
    Precisions,
    Quiet,
    RateRules,
    Seed,
    Stable,
    SubtractIdle,
    Sustain,
    Target,
    Threads,
    Trace,
    Warmup,
    ask_ambient,
    find_memory_limit,
    parse_batches,
    run_folder,
)
from wattstep.errors import InvalidValueError

if TYPE_CHECKING:
    from wattstep.fleet.limits import MemoryLimit as Bound


def run(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Workloads; see suite.")],
    batch: Batches = "4",
    steps: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(
            help="Measured steps after the warm-up; traced ones come on top.", metavar="N"
        ),
    ] = None,
    seconds: Annotated[
        Optional[float],  # noqa: UP045
        typer.Option(help="Measured time, at least 20 steps. [default: 15]", metavar="S"),
    ] = None,
    warmup: Warmup = 3,
    threads: Threads = None,
    engine: Annotated[str, typer.Option(help="Framework.")] = "torch",
    processor: Annotated[str, typer.Option(help="cpu.")] = "cpu",
    precision: Precisions = "fp32",
    accumulate: Accumulate = 1,
    classes: Classes = None,
    image_size: ImageSize = None,
    rate_rule: RateRules = "linear",
    until: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            help="Train until an evaluation reaches it: accuracy=0.6 or loss=1.2. --steps or "
            "--seconds are then the most that it may take. [default: an hour]",
            metavar="GOAL",
        ),
    ] = None,
    evaluate_every: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(
            help="Steps between evaluations. [default: a fifth of the time goes into them]",
            metavar="N",
        ),
    ] = None,
    interval: Interval = "10ms",
    trace: Trace = "auto",
    seed: Seed = 0,
    foreground: Annotated[
        bool,
        typer.Option(
            "--foreground",
            help="Then measure how training delays a foreground job of 60 frames a second.",
        ),
    ] = False,
    foreground_seconds: Annotated[
        float, typer.Option(help="With --foreground: that job's time.", metavar="S")
    ] = 5.0,
    nice: Annotated[
        int, typer.Option(help="With --foreground: nice value of the training.", metavar="N")
    ] = 0,
    data: Data = None,
    memory_limit: MemoryLimit = None,
    power_model: PowerModel = None,
    target: Target = None,
    calibration: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            help="What wattstep calibrate wrote for the machine that trains: power as an external meter "
            "would have it.",
            metavar="FILE",
        ),
    ] = None,
    idle: Idle = None,
    subtract_idle: SubtractIdle = None,
    exclude: Exclude = None,
    stable: Stable = False,
    sustain: Sustain = False,
    ambient: Ambient = None,
    fan: Fan = None,
    cooldown: Cooldown = "auto",
    canary: Annotated[
        bool,
        typer.Option(
            "--canary/--no-canary",
            help="A quarter of a second of fixed work before the first step and after the last: "
            "compare then knows whether the machine itself changed. Off with --memory-limit.",
        ),
    ] = True,
    out: Out = Path("runs"),
    name: Name = None,
    live: Live = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train workloads, record what that costs, and print it."""
    from wattstep import workloads
    from wattstep.cli.progress import TrainingProgress
    from wattstep.cli.showing import show_runs
    from wattstep.conditions import emulated_ambient
    from wattstep.fleet.cooling import BetweenRuns
    from wattstep.fleet.places import is_elsewhere, open_place
    from wattstep.store.files import new_name
    from wattstep.training import Progress, TrainingSettings

    batches = parse_batches(batch)
    precisions, rules = precision.split(","), rate_rule.split(",")
    away = is_elsewhere(target)
    limit = limit_elsewhere(memory_limit) if away else find_memory_limit(memory_limit)
    # A board that is emulated or replayed begins each run anew: there is nothing to cool. Of one
    # that is elsewhere no temperature is known here.
    rule = cooldown if target in (None, "local") or cooldown != "auto" else "none"
    cooling = BetweenRuns(rule, read=unknown_temperature) if away else BetweenRuns(rule)
    calibrated = None if calibration is None else read_calibration(calibration, here=not away)
    for workload in names:
        workloads.check_name(workload)
    ways = list(product(names, batches, precisions, rules))
    if name is not None and len(ways) > 1:
        raise InvalidValueError("--name names one run: give one workload and one batch size")
    all_settings = [
        TrainingSettings(
            workload=workload,
            batch_size=size,
            steps=steps,
            seconds=seconds,
            warmup=warmup,
            threads=threads,
            engine=engine,
            processor=processor,
            precision=way,
            accumulate=accumulate,
            classes=classes,
            image_size=image_size,
            rate_rule=rule,
            until=until,
            evaluate_every=evaluate_every,
            interval=interval,
            trace=trace,
            seed=seed,
            data_dir=None if data is None else str(data),
            power_model=power_model,
            target=target,
            calibration=calibrated,
            idle=idle,
            subtract_idle=subtract_idle,
            exclude=exclude,
            stable=stable,
            sustain=sustain,
            ambient=ambient,
            fan=fan,
            foreground=foreground_seconds if foreground else None,
            nice=nice,
            canary=canary and limit is None,  # which its memory might break
            out=run_folder(out, name, new_name(workload)),
        )
        for workload, size, way, rule in ways
    ]
    wanted = (stable or sustain) and not (json or quiet) and emulated_ambient(target) is None
    place = open_place(target, partial(print, file=sys.stderr))
    ambient = ask_ambient(ambient, wanted=wanted, keyboard=sys.stdin, screen=sys.stderr)
    paths: list[Path] = []
    try:
        for asked in all_settings:
            settings = replace(asked, ambient=ambient)
            title = f"{settings.workload}, batch {settings.batch_size}"
            title += f", {settings.precision}" * (len(precisions) > 1)
            title += f", {settings.rate_rule} rate" * (len(rules) > 1)
            here = None if away or settings.out is None else Path(settings.out)
            with TrainingProgress(title, quiet=quiet, run=here, live=live) as progress:
                cooled = cooling.before_next(
                    lambda: progress.update(Progress(stage="cooling down"))
                )
                if cooled is not None:
                    settings = replace(settings, cooled=asdict(cooled))
                paths.append(place.train(settings, progress.update, progress.warn, limit))
    finally:  # one that fails does not take those before it away
        place.close()
        if paths:
            show_runs(paths, json)


def limit_elsewhere(text: str | None) -> Bound | None:
    """The size of a limit; how it can be enforced is found out where the training runs.

    Raises:
        InvalidValueError: It is no size.
    """
    from wattstep.fleet.limits import MemoryLimit, parse_size

    if text is None:
        return None
    why_not = "the device that trains looks for one"
    return MemoryLimit(size=parse_size(text), means="data segments", why_not=why_not)


def unknown_temperature() -> None:
    """Of a device that is elsewhere."""


def read_calibration(path: Path, *, here: bool = True) -> dict[str, Any]:
    """A calibration that fits this machine.

    Args:
        path: What `wattstep calibrate` wrote.
        here: Whether it is of this machine; of another one it is checked there.

    Raises:
        InvalidValueError: It cannot be read, is none, or is of another machine.
    """
    from json import loads

    from wattstep.analysis.calibration import read_calibrations
    from wattstep.run.calibration import check_device
    from wattstep.sensors.machine import describe

    try:
        document = loads(path.read_bytes())
        read_calibrations(document)
    except OSError as error:
        raise InvalidValueError(f"{path}: {(error.strerror or str(error)).lower()}") from error
    except ValueError as error:
        raise InvalidValueError(f"{path}: {error}") from error
    if here:
        check_device(document, describe())
    return dict(document)
