"""`wattstep sweep`: many trainings, each in its own process; prints what fits."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional, TypeVar

import typer

from wattstep.api import SWEEP_STEPS as LEAST_STEPS
from wattstep.cli import completing
from wattstep.cli.options import (
    OUT,
    Batches,
    Engines,
    Json,
    MemoryLimit,
    Precisions,
    Quiet,
    parse_batches,
)
from wattstep.cli.saying import refuse, say_failures
from wattstep.cli.settings_options import absolute, with_settings
from wattstep.errors import InvalidValueError, WattstepError
from wattstep.schema.failures import Failures
from wattstep.schema.run_documents import MeasuringMachine

if TYPE_CHECKING:
    from collections.abc import Callable

    from wattstep.cli.sweep_progress import HostsProgress, SweepProgress
    from wattstep.schema.sweep_report import SweepReport
    from wattstep.sweep.folder import SweepFolder
    from wattstep.sweep.plan import SweepPlan
    from wattstep.train.settings import TrainingSettings

P = TypeVar("P", "SweepProgress", "HostsProgress")

Threads = Annotated[
    Optional[str],  # noqa: UP045 - typer reads the annotation on Python 3.10 too
    typer.Option(
        help="Threads of an operation, e.g. 1,2. [default: the framework's choice]",
        metavar="N,...",
    ),
]


@with_settings(
    "workloads", "batch", "threads", "engine", "processor", "precision", "channels_last", "compiled",
    "memory_limit", "memory_reserve", "repeat", "steps", "seconds",
    "warmup", "accumulate",
    "checkpointing", "train_last", "lora", "optimizer", "offload",
    "classes", "image_size", "rate_rule", "modes", "cores", "clocks",
    "cooldown", "interval", "trace", "seed", "data_dir", "power_model", "out", "scheduler",
    "targets", "device", "json", "quiet",
    trace="none",
)  # fmt: skip
def sweep(
    names: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Argument(
            autocompletion=completing.workloads,
            metavar="[NAME...]",
            help="Workloads; see suite. [default: all]",
        ),
    ] = None,
    workloads: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="The same with commas between them, or all.", metavar="NAME,..."),
    ] = None,
    batch: Batches = "1,4,16,32,64,128,256",
    threads: Threads = None,
    engine: Engines = "torch",
    precision: Precisions = "fp32",
    memory_limit: MemoryLimit = None,
    repeat: Annotated[
        int, typer.Option(help="Rounds of all configurations, one after the other.", metavar="N")
    ] = 1,
    steps: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(help="Measured steps after the warm-up of each.", metavar="N"),
    ] = None,
    seconds: Annotated[
        Optional[float],  # noqa: UP045
        typer.Option(
            help=f"Measured time of each; up to twice as much for {LEAST_STEPS} steps. [default: 15]",
            metavar="S",
        ),
    ] = None,
    modes: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            help="Power modes of a Jetson, by nvpmodel's numbers or names, e.g. 0,2; root only. "
            "What was set before is set again afterwards, whatever happens.",
            metavar="MODE,...",
        ),
    ] = None,
    cores: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            help="Sets of cores that the training may run on, e.g. 0,0-1,0+2.", metavar="SET,..."
        ),
    ] = None,
    clocks: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            help="Clocks that the cores are held at, e.g. 600MHz,1.2GHz; root only, set back "
            "afterwards like --modes.",
            metavar="HZ,...",
        ),
    ] = None,
    cooldown: Annotated[
        str,
        typer.Option(
            help="Between configurations: auto (until the hottest thermal zone is back within "
            "2 °C of where it began), none, or seconds.",
            metavar="RULE",
        ),
    ] = "auto",
    out: Annotated[
        Path,
        typer.Option(
            *OUT, help="Folder of the sweep; one that was begun continues.", metavar="DIR"
        ),
    ] = Path("sweep"),
    scheduler: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="A Dask scheduler: measure on its workers.", metavar="tcp://..."),
    ] = None,
    targets: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            help="A TOML file of devices: measure on all of them at once, one at a time on each.",
            metavar="FILE",
        ),
    ] = None,
    device: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            help="With --scheduler: NAME of workers with the resource device_NAME; several are "
            "all measured on. [default: the only one there is] With --targets: devices of the "
            "file. [default: all]",
            metavar="NAME,...",
        ),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
    **given: Any,
) -> None:
    """Train every combination in a process of its own; prints which of them fit."""
    from dataclasses import replace

    from wattstep.train.environment.device_state import states_from
    from wattstep.train.environment.keeper import check_state
    from wattstep.train.settings import TrainingSettings

    if names and workloads:
        raise InvalidValueError(
            f"{' '.join(names)} and --workloads {workloads}: name the workloads in one of both ways",
            id="named-twice",
        )
    chosen = chosen_workloads(names or (workloads or "all").split(","))
    _check_where(scheduler, targets, device, on_devices=modes is not None or clocks is not None)
    shared = TrainingSettings(
        workload=chosen[0],
        steps=steps,
        seconds=seconds,
        least_steps=LEAST_STEPS,
        engine=first_engine(engine, given["processor"]),
        **{**given, "data_dir": absolute(given["data_dir"])},
    )
    plan = make_plan(
        shared, chosen, batch, threads, precision, memory_limit, engine, repeat, cooldown
    )
    plan = replace(plan, states=states_from(modes, cores, clocks))
    names = None if device is None else device.split(",")
    if targets is not None:
        run_on_fleet(plan, out, targets, names, as_json=json, quiet=quiet)
    elif scheduler is not None:
        run_on_cluster(plan, out, scheduler, names, as_json=json, quiet=quiet)
    else:
        for state in plan.states:
            check_state(state)
        run_sweep(plan, out, as_json=json, quiet=quiet)


def _check_where(
    scheduler: str | None, targets: Path | None, device: str | None, *, on_devices: bool
) -> None:
    """Refuses what cannot go together.

    Args:
        scheduler: As given.
        targets: As given.
        device: As given.
        on_devices: True if states of the device are to be set.

    Raises:
        InvalidValueError: It is given together, or without what it needs.
    """
    elsewhere = "--scheduler" if scheduler is not None else "--targets"
    if scheduler is not None and targets is not None:
        raise InvalidValueError("--scheduler and --targets: give one of them", id="one-place")
    if scheduler is None and targets is None:
        if device is not None:
            raise InvalidValueError(
                "--device names workers of a cluster, or devices of a file: give --scheduler or "
                "--targets as well",
                id="device-without-devices",
            )
    elif on_devices:
        raise InvalidValueError(
            f"--modes and --clocks are set on this machine: without {elsewhere}", id="set-here-only"
        )


def chosen_workloads(names: list[str]) -> tuple[str, ...]:
    """Names of workloads; "all" stands for all.

    Raises:
        InvalidValueError: There is no such workload.
    """
    from wattstep import workloads

    if names == ["all"]:
        return workloads.names()
    for name in names:
        workloads.check_name(name)
    return tuple(dict.fromkeys(names))


def first_engine(engine: str, processor: str) -> str:
    """Of engines with commas between them, the one that the settings of all name.

    Args:
        engine: With --engine.
        processor: With --processor; "": each engine's own.

    Raises:
        InvalidValueError: There is no such engine, or one does not train there.
    """
    from wattstep import engines
    from wattstep.schema.workload import check_processing

    names = [each.strip() for each in engine.split(",")]
    for name in names:
        found = engines.find(name)
        if processor:
            check_processing(processor, "fp32", found.processors, name)
    return names[0]


def make_plan(
    shared: TrainingSettings,
    workloads: tuple[str, ...],
    batch: str,
    threads: str | None,
    precision: str,
    memory_limit: str | None,
    engine: str,
    repeat: int = 1,
    cooldown: str = "auto",
) -> SweepPlan:
    """The plan from the text of the options.

    Raises:
        InvalidValueError: One of them cannot be used.
    """
    from wattstep.sweep.plan import ONE_ENGINE, SweepPlan
    from wattstep.train.child.limits import parse_size

    engines = tuple(dict.fromkeys(each.strip() for each in engine.split(",")))
    return SweepPlan(
        settings=shared,
        workloads=workloads,
        batches=tuple(parse_batches(batch)),
        threads=(None,) if threads is None else _parse_threads(threads),
        precisions=tuple(dict.fromkeys(kind.strip() for kind in precision.split(","))),
        engines=engines if len(engines) > 1 else ONE_ENGINE,
        repeats=repeat,
        memory_limit=None if memory_limit is None else parse_size(memory_limit),
        cooldown=cooldown,
    )


def run_sweep(plan: SweepPlan, out: Path, *, as_json: bool, quiet: bool) -> None:
    """Sweeps on this machine and shows what fits, also where it is stopped."""
    from wattstep.cli.sweep_progress import SweepProgress
    from wattstep.sweep.sweep import sweep_here
    from wattstep.train.child.local_machine import this_machine

    with SweepProgress(quiet=quiet) as progress:
        _sweep(plan, out, this_machine(plan.settings.processor), as_json, progress, sweep_here)


def run_on_cluster(
    plan: SweepPlan,
    out: Path,
    address: str,
    devices: list[str] | None,
    *,
    as_json: bool,
    quiet: bool,
) -> None:
    """Sweeps on the workers of a cluster and shows what fits, also where it is stopped."""
    from dataclasses import replace
    from functools import partial

    from wattstep.cli.sweep_progress import HostsProgress
    from wattstep.sweep.cluster import connect, find_devices, sweep_cluster

    with connect(address) as client, HostsProgress(quiet=quiet) as progress:
        plan = replace(plan, devices=find_devices(client, devices))
        where: MeasuringMachine = {"where": "a cluster"}
        _sweep(plan, out, where, as_json, progress, partial(sweep_cluster, client))


def run_on_fleet(
    plan: SweepPlan,
    out: Path,
    targets: Path,
    names: list[str] | None,
    *,
    as_json: bool,
    quiet: bool,
) -> None:
    """Sweeps on the devices of a file and shows what fits, also where it is stopped."""
    from dataclasses import replace
    from functools import partial

    from wattstep.cli.sweep_progress import HostsProgress
    from wattstep.sweep.board import sweep_fleet
    from wattstep.sweep.fleet_file import choose, read_fleet

    devices = choose(read_fleet(targets), names)
    plan = replace(
        plan,
        devices=tuple(one.name for one in devices),
        only={one.name: one.workloads for one in devices if one.workloads is not None},
        limits={one.name: one.memory_limit for one in devices if one.memory_limit is not None},
    )
    with HostsProgress(quiet=quiet) as progress:
        where: MeasuringMachine = {"where": "a fleet"}
        _sweep(plan, out, where, as_json, progress, partial(sweep_fleet, devices))


def _sweep(
    plan: SweepPlan,
    out: Path,
    machine: MeasuringMachine,
    as_json: bool,
    progress: P,
    sweep: Callable[[SweepPlan, SweepFolder, P], None],
) -> None:
    """Sweeps into a folder; `machine` is what must not differ between its outcomes."""
    from wattstep.sweep.folder import SweepFolder

    folder = SweepFolder(out, plan, machine, progress.warns)
    refusal: WattstepError | None = None
    try:
        sweep(plan, folder, progress)
    except WattstepError as error:
        refusal = error
    finally:
        folder.close()
        progress.warned.say_others(show_sweep(out, as_json, progress.warns, refusal))
    if refusal is not None:
        refuse(refusal)


def show_sweep(
    out: Path, as_json: bool, warn: Callable[[str], None], refusal: WattstepError | None = None
) -> set[str]:
    """Writes the report of a sweep into its folder, and prints what fits.

    Args:
        out: The folder.
        as_json: As one JSON document.
        warn: Hears what is wrong with the report.
        refusal: What ended the sweep, for its JSON document.

    Returns:
        Notes of its trainings, which it shows.
    """
    from wattstep.sweep.folder import load_sweep

    result = load_sweep(out, warn=lambda text: None)  # it was said when the folder was opened
    report = _write_report(result, out, warn)
    notes = {note for outcome in result.outcomes for note in outcome.evidence.notes}
    if as_json:
        from wattstep.report.json_document import dump

        document = {**result.to_dict(), "report": None if report is None else str(report)}
        dump({**document, **(refusal.document() if refusal else {})}, sys.stdout)
        return notes
    from wattstep.cli.screen import screen
    from wattstep.report.terminal.sweep import print_sweep

    console = screen()
    print_sweep(result, console)
    if report is not None:
        console.print(
            f"\nreport: {report.absolute().as_uri()}",
            markup=False,
            highlight=False,
            soft_wrap=True,
        )
    return notes


def _write_report(result: SweepReport, out: Path, warn: Callable[[str], None]) -> Path | None:
    """The report, or None where it cannot be written: what stopped a sweep must still be said."""
    from wattstep.report.html.sweep import write_sweep_report
    from wattstep.sweep.folder import REPORT

    failures = Failures()
    try:
        write_sweep_report(result, out / REPORT, failures=failures)
    except OSError as error:
        warn(f"{out / REPORT} cannot be written: {error.strerror or error}")
        return None
    say_failures(failures)
    return out / REPORT


def _parse_threads(text: str) -> tuple[int, ...]:
    try:
        return tuple(dict.fromkeys(int(part) for part in text.split(",")))
    except ValueError:
        raise InvalidValueError(
            f"--threads {text!r}: whole numbers with commas between them, e.g. 1,2",
            id="malformed-list",
        ) from None
