"""`wattstep run`: train and record; prints the table, writes the run."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from wattstep.cli import completing
from wattstep.cli.options import (
    Batches,
    Cooldown,
    Engines,
    Full,
    Json,
    Live,
    MemoryLimit,
    Name,
    Out,
    Precisions,
    Quiet,
    RateRules,
    ask_ambient,
    find_memory_limit,
    parse_batches,
    run_folder,
)
from wattstep.cli.saying import refuse, say
from wattstep.cli.settings_options import with_settings
from wattstep.errors import InvalidValueError, WattstepError, error_of
from wattstep.schema.run_documents import CalibrationFile, PlannedFacts
from wattstep.schema.settings import option_of


@with_settings(
    "batch", "steps", "seconds", "warmup", "threads", "interop_threads", "cores", "allocator",
    "optimizer_kernel", "engine", "processor", "precision",
    "channels_last", "compiled", "policy", "opencl_mode", "accumulate",
    "checkpointing", "train_last", "lora", "optimizer", "offload",
    "classes", "image_size", "rate_rule", "until", "evaluate_every", "interval", "keep",
    "trace", "seed", "foreground", "foreground_seconds", "nice", "data_dir", "memory_limit",
    "memory_reserve", "power_model", "target", "calibration", "idle", "subtract_idle", "exclude", "governor", "slowdown", "stable", "sustain",
    "ambient", "fan", "cooldown", "canary", "plan", "exported", "out", "name", "live", "full", "json", "quiet",
)  # fmt: skip
def run(
    context: typer.Context,
    names: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Argument(
            autocompletion=completing.workloads,
            metavar="NAME...",
            help="Workloads; see suite. With --plan or --from its own.",
        ),
    ] = None,
    batch: Batches = "4",
    engine: Engines = "torch",
    precision: Precisions = "fp32",
    rate_rule: RateRules = "linear",
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
    memory_limit: MemoryLimit = None,
    calibration: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            help="What wattstep calibrate wrote for the machine that trains: power as an external meter "
            "would have it.",
            metavar="FILE",
        ),
    ] = None,
    cooldown: Cooldown = "auto",
    canary: Annotated[
        bool,
        typer.Option(
            "--canary/--no-canary",
            help="A quarter of a second of fixed work before the first step and after the last: "
            "compare then knows whether the machine itself changed. Off with --memory-limit.",
        ),
    ] = True,
    plan: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            help="Settings that `wattstep plan -o FILE.json` wrote, and predicted beside measured afterwards; or "
            "those of `wattstep tune`. Options that are given win.",
            metavar="FILE",
        ),
    ] = None,
    out: Out = Path("runs"),
    name: Name = None,
    live: Live = False,
    full: Full = False,
    json: Json = False,
    quiet: Quiet = False,
    **given: Any,
) -> None:
    """Train workloads, record what that costs, and print it."""
    from wattstep import workloads
    from wattstep.api import open_execution_host
    from wattstep.cli.progress import TrainingProgress, Warned
    from wattstep.cli.showing import show_runs
    from wattstep.store.files import new_name
    from wattstep.sweep.cooling import BetweenRuns
    from wattstep.train.environment import emulated_ambient
    from wattstep.train.execution_hosts import is_elsewhere
    from wattstep.train.progress import Progress
    from wattstep.train.settings import TrainingSettings

    planned: PlannedFacts | None = None
    given["engine"] = engine
    if plan is not None:
        names, batch, precision, planned = follow_plan(
            plan, names, batch, precision, given, partial(is_given, context)
        )
    if given["exported"] is not None:
        given["rate_rule"] = rate_rule
        names, batch = follow_export(names, batch, given, partial(is_given, context))
        rate_rule = given.pop("rate_rule")
    if not names:
        raise InvalidValueError(
            "which workload? `wattstep suite` lists them, --plan and --from have their own",
            id="nothing-to-train",
        )
    if is_given(context, "foreground_seconds") and not foreground:
        raise InvalidValueError(
            "--foreground-seconds is of the job that --foreground starts: give --foreground",
            id="needs-foreground",
        )
    target, ambient = given["target"], given["ambient"]
    batches = parse_batches(batch)
    precisions, rules = precision.split(","), rate_rule.split(",")
    engines = list(dict.fromkeys(each.strip() for each in given.pop("engine").split(",")))
    away = is_elsewhere(target)
    limit = find_memory_limit(memory_limit, here=not away)
    # A board that is emulated or replayed begins each run anew: there is nothing to cool. Of one
    # that is elsewhere no temperature is known here.
    rule = cooldown if target in (None, "local") or cooldown != "auto" else "none"
    cooling = BetweenRuns(rule, read=unknown_temperature) if away else BetweenRuns(rule)
    calibrated = None if calibration is None else read_calibration(calibration, here=not away)
    for workload in names:
        workloads.check_name(workload)
    ways = list(product(names, engines, batches, precisions, rules))
    if name is not None and len(ways) > 1:
        raise InvalidValueError(
            "--name names one run: give one workload, one engine and one batch size",
            id="one-name-for-several",
        )
    all_settings = [
        TrainingSettings(
            workload=workload,
            batch_size=size,
            precision=way,
            rate_rule=rule,
            engine=framework,
            calibration=calibrated,
            foreground=foreground_seconds if foreground else None,
            canary=canary and limit is None,  # which its memory might break
            planned=planned,
            out=run_folder(out, name, new_name(workload)),
            **given,
        )
        for workload, framework, size, way, rule in ways
    ]
    steady = given["stable"] or given["sustain"]
    wanted = steady and not (json or quiet) and emulated_ambient(target) is None
    place = open_execution_host(target, partial(print, file=sys.stderr))
    ambient = ask_ambient(ambient, wanted=wanted, keyboard=sys.stdin, screen=sys.stderr)
    paths: list[Path] = []
    refusal: WattstepError | None = None
    warned = Warned(quiet=quiet)
    try:
        for asked in all_settings:
            settings = replace(asked, ambient=ambient)
            title = f"{settings.workload}, batch {settings.batch_size}"
            title += f", {settings.engine}" * (len(engines) > 1)
            title += f", {settings.precision}" * (len(precisions) > 1)
            title += f", {settings.rate_rule} rate" * (len(rules) > 1)
            here = None if away or settings.out is None else Path(settings.out)
            with TrainingProgress(
                title, quiet=quiet, run=here, live=live, warned=warned
            ) as progress:
                cooled = cooling.before_next(
                    lambda: progress.update(Progress(stage="cooling down"))
                )
                if cooled is not None:
                    settings = replace(settings, cooled=cooled.to_dict())
                paths.append(place.train(settings, progress.update, progress.warn, limit))
    except WattstepError as error:
        if not paths:
            raise
        refusal = error
    finally:  # one that fails does not take those before it away
        place.close()
        if paths:
            show_runs(paths, json, full, refusal=refusal)
        warned.say_others(_notes(paths) if len(paths) == 1 or full or json else ())
    if refusal is not None:
        refuse(refusal)


def _notes(paths: Sequence[Path]) -> set[str]:
    """Notes of runs, which their screens and documents show; a table of several does not."""
    from wattstep.run import load

    return {note for path in paths for note in load(path).info.notes}


def follow_plan(
    path: Path,
    names: list[str] | None,
    batch: str,
    precision: str,
    given: dict[str, Any],
    stands: Callable[[str], bool],
) -> tuple[list[str], str, str, PlannedFacts | None]:
    """Settings of a plan in place of the defaults of options; those on the command line win, with a note.

    Args:
        path: Of the plan.
        names: Workloads that are given, or None.
        batch: With --batch.
        precision: With --precision.
        given: Further options by field of the settings; those of the plan are put in.
        stands: Whether an option stands on the command line.

    Returns:
        The workload, batch and precision to train with, and what the run keeps of a plan that predicts.

    Raises:
        InvalidValueError: It cannot be read, or is of another workload.
    """
    from wattstep.plan.file import read_plan
    from wattstep.train.settings import TrainingSettings

    plan = read_plan(path)
    if plan.script:
        raise InvalidValueError(
            f"--plan {path} is for the script {plan.script}: wattstep profile --plan {path} {plan.script}",
            id="plan-of-a-script",
        )
    if names not in (None, [], [plan.workload]):
        raise InvalidValueError(
            f"--plan {path} is for {plan.workload}, not for {', '.join(names or [])}: leave the name out, or plan "
            "for that workload",
            id="plan-of-another-workload",
        )
    own: dict[str, Any] = {"batch_size": batch, "precision": precision}
    changed = []
    for field, value in plan.settings.items():
        option = option_of(TrainingSettings, field)
        parameter = "batch" if field == "batch_size" else field
        if not stands(parameter):
            (own if field in own else given)[field] = value
            continue
        asked = own.get(field, given.get(field))
        if str(asked) != str(value):
            changed.append(f"{option} {asked} in place of {value}")
            say(f"wattstep: note: --{option} {asked} in place of the plan's {value}")
    facts = plan.planned
    if facts is not None:
        facts = {**facts, "changed": changed}
    return [plan.workload], str(own["batch_size"]), str(own["precision"]), facts


def follow_export(
    names: list[str] | None, batch: str, given: dict[str, Any], stands: Callable[[str], bool]
) -> tuple[list[str], str]:
    """Settings of an exported training, which nothing can change any more.

    Args:
        names: Workloads that are given, or None.
        batch: With --batch.
        given: Further options by field of the settings; those of the export are put in.
        stands: Whether an option stands on the command line.

    Returns:
        The workload and batch to train with.

    Raises:
        InvalidValueError: It cannot be read, or is another training than what is asked for.
    """
    from wattstep.engines.exported.folder import ExportedFolder
    from wattstep.train.settings import TrainingSettings

    place = Path(given["exported"])
    training = ExportedFolder(place).training
    given["exported"] = str(place.absolute())
    own = {"engine": training.engine, **training.settings}
    for field, value in own.items():
        parameter = "batch" if field == "batch_size" else field
        asked = batch if field == "batch_size" else given.get(field)
        if stands(parameter) and str(asked) != str(value):
            option = option_of(TrainingSettings, field)
            exported = "the workload's own" if value is None else value
            raise InvalidValueError(
                f"--{option} {asked}: {place} was exported with {exported}: export it again",
                id="other-export",
            )
        if field != "batch_size":
            given[field] = value
    if names not in (None, [], [training.workload]):
        raise InvalidValueError(
            f"--from {place} is {training.workload}, not {', '.join(names or [])}: leave the name out",
            id="other-export",
        )
    return [training.workload], str(training.batch_size)


def is_given(context: typer.Context, parameter: str) -> bool:
    """True if an option stands on the command line, by the name of the command's parameter."""
    source = context.get_parameter_source(parameter)
    return source is not None and source.name == "COMMANDLINE"


def unknown_temperature() -> None:
    """Of a device that is elsewhere."""


def read_calibration(path: Path, *, here: bool = True) -> CalibrationFile:
    """A calibration that fits this machine.

    Args:
        path: File that `wattstep calibrate` wrote.
        here: True if it is of this machine; of another one it is checked there.

    Raises:
        InvalidValueError: It cannot be read, is none, or is of another machine.
    """
    from json import loads

    from wattstep.record.sensors.machine import describe
    from wattstep.recorded.calibration import read_calibrations
    from wattstep.run.calibration import check_device

    try:
        document = loads(path.read_bytes())
        read_calibrations(document)
    except OSError as error:
        raise InvalidValueError(
            f"{path}: {(error.strerror or str(error)).lower()}", id="unreadable-calibration"
        ) from error
    except InvalidValueError as error:
        raise error_of(error.document(), f"{path}: {error}") from error
    except ValueError as error:
        raise InvalidValueError(f"{path}: {error}", id="unreadable-calibration") from error
    if here:
        check_device(document, describe())
    known: CalibrationFile = document
    return known
