"""`wattstep sweep`: many trainings, each in its own process; prints what fits."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from wattstep.cli.options import (
    Accumulate,
    Batches,
    Classes,
    Data,
    ImageSize,
    Interval,
    Json,
    MemoryLimit,
    PowerModel,
    Precisions,
    Quiet,
    RateRule,
    Seed,
    Trace,
    Warmup,
    parse_batches,
)
from wattstep.errors import InvalidValueError

if TYPE_CHECKING:
    from collections.abc import Callable

    from wattstep.fleet.plan import SweepPlan
    from wattstep.training import TrainingSettings

LEAST_STEPS = 5  # of a configuration that is limited by time: a large one takes seconds a step

Threads = Annotated[
    Optional[str],  # noqa: UP045 - typer reads the annotation on Python 3.10 too
    typer.Option(
        help="Threads of an operation, e.g. 1,2. [default: the framework's choice]",
        metavar="N,...",
    ),
]


def sweep(
    workloads: Annotated[
        str, typer.Option(help="Workloads with commas between them, or all.", metavar="NAME,...")
    ] = "all",
    batch: Batches = "1,4,16,32,64,128,256",
    threads: Threads = None,
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
            help=f"Measured time of each, at least {LEAST_STEPS} steps. [default: 15]", metavar="S"
        ),
    ] = None,
    warmup: Warmup = 3,
    accumulate: Accumulate = 1,
    classes: Classes = None,
    image_size: ImageSize = None,
    rate_rule: RateRule = "linear",
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
    interval: Interval = "10ms",
    trace: Trace = "none",
    seed: Seed = 0,
    data: Data = None,
    power_model: PowerModel = None,
    out: Annotated[
        Path, typer.Option(help="Folder of the sweep; one that was begun continues.", metavar="DIR")
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
) -> None:
    """Train every combination in a process of its own; prints which of them fit."""
    from dataclasses import replace

    from wattstep.fleet.device_state import states_from
    from wattstep.fleet.keeper import check_state
    from wattstep.training import TrainingSettings

    chosen = chosen_workloads(workloads.split(","))
    _check_where(scheduler, targets, device, on_devices=modes is not None or clocks is not None)
    shared = TrainingSettings(
        workload=chosen[0],
        steps=steps,
        seconds=seconds,
        least_steps=LEAST_STEPS,
        warmup=warmup,
        accumulate=accumulate,
        classes=classes,
        image_size=image_size,
        rate_rule=rate_rule,
        interval=interval,
        trace=trace,
        seed=seed,
        data_dir=None if data is None else str(data.absolute()),
        power_model=power_model,
    )
    plan = make_plan(shared, chosen, batch, threads, precision, memory_limit, repeat, cooldown)
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
        on_devices: Whether states of the device are to be set.

    Raises:
        InvalidValueError: It is given together, or without what it needs.
    """
    elsewhere = "--scheduler" if scheduler is not None else "--targets"
    if scheduler is not None and targets is not None:
        raise InvalidValueError("--scheduler and --targets: give one of them")
    if scheduler is None and targets is None:
        if device is not None:
            raise InvalidValueError(
                "--device names workers of a cluster, or devices of a file: give --scheduler or "
                "--targets as well"
            )
    elif on_devices:
        raise InvalidValueError(
            f"--modes and --clocks are set on this machine: without {elsewhere}"
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


def make_plan(
    shared: TrainingSettings,
    workloads: tuple[str, ...],
    batch: str,
    threads: str | None,
    precision: str,
    memory_limit: str | None,
    repeat: int = 1,
    cooldown: str = "auto",
) -> SweepPlan:
    """The plan from the text of the options.

    Raises:
        InvalidValueError: One of them cannot be used.
    """
    from wattstep.fleet.limits import parse_size
    from wattstep.fleet.plan import SweepPlan

    return SweepPlan(
        settings=shared,
        workloads=workloads,
        batches=tuple(parse_batches(batch)),
        threads=(None,) if threads is None else _parse_threads(threads),
        precisions=tuple(dict.fromkeys(kind.strip() for kind in precision.split(","))),
        repeats=repeat,
        memory_limit=None if memory_limit is None else parse_size(memory_limit),
        cooldown=cooldown,
    )


def run_sweep(plan: SweepPlan, out: Path, *, as_json: bool, quiet: bool) -> None:
    """Sweeps on this machine and shows what fits, also where it is stopped."""
    from wattstep.cli.sweep_progress import SweepProgress
    from wattstep.fleet.folder import SweepFolder
    from wattstep.fleet.place import this_machine
    from wattstep.fleet.sweep import sweep_here

    with SweepProgress(quiet=quiet) as progress:
        folder = SweepFolder(out, plan, this_machine(), progress.warns)
        try:
            sweep_here(plan, folder, progress)
        finally:
            folder.close()
            show_sweep(out, as_json, progress.warns)


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

    from wattstep.cli.sweep_progress import SweepProgress
    from wattstep.fleet.cluster import sweep_cluster
    from wattstep.fleet.folder import SweepFolder
    from wattstep.fleet.workers import connect, find_devices

    with connect(address) as client, SweepProgress(quiet=quiet) as progress:
        plan = replace(plan, devices=find_devices(client, devices))
        folder = SweepFolder(out, plan, {"where": "a cluster"}, progress.warns)
        try:
            sweep_cluster(plan, folder, progress, client)
        finally:
            folder.close()
            show_sweep(out, as_json, progress.warns)


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

    from wattstep.cli.sweep_progress import FleetProgress
    from wattstep.fleet.fleet_file import choose, read_fleet
    from wattstep.fleet.fleet_sweep import sweep_fleet
    from wattstep.fleet.folder import SweepFolder
    from wattstep.parts import load_part

    load_part("distributed")
    devices = choose(read_fleet(targets), names)
    plan = replace(
        plan,
        devices=tuple(one.name for one in devices),
        only={one.name: one.workloads for one in devices if one.workloads is not None},
        limits={one.name: one.memory_limit for one in devices if one.memory_limit is not None},
    )
    with FleetProgress(quiet=quiet) as progress:
        folder = SweepFolder(out, plan, {"where": "a fleet"}, progress.warns)
        try:
            sweep_fleet(devices, plan, folder, progress)
        finally:
            folder.close()
            show_sweep(out, as_json, progress.warns)


def show_sweep(out: Path, as_json: bool, warn: Callable[[str], None]) -> None:
    """Writes the report of a sweep into its folder, and prints what fits."""
    from wattstep.fleet.folder import load_sweep

    document = load_sweep(out, warn=lambda text: None)  # it was said when the folder was opened
    report = _write_report(document, out, warn)
    if as_json:
        from wattstep.reports.json_document import dump

        dump({**document, "report": None if report is None else str(report)}, sys.stdout)
        return
    from rich.console import Console

    from wattstep.reports.consoles.sweep import print_sweep

    console = Console()
    print_sweep(document, console)
    if report is not None:
        console.print(
            f"\nreport: {report.absolute().as_uri()}",
            markup=False,
            highlight=False,
            soft_wrap=True,
        )


def _write_report(document: dict[str, Any], out: Path, warn: Callable[[str], None]) -> Path | None:
    """The report, or None where it cannot be written: what stopped a sweep must still be said."""
    from wattstep.fleet.folder import REPORT
    from wattstep.reports.pages.sweep import write_sweep_report

    try:
        write_sweep_report(document, out / REPORT)
    except OSError as error:
        warn(f"{out / REPORT} cannot be written: {error.strerror or error}")
        return None
    return out / REPORT


def _parse_threads(text: str) -> tuple[int, ...]:
    try:
        return tuple(dict.fromkeys(int(part) for part in text.split(",")))
    except ValueError:
        raise InvalidValueError(
            f"--threads {text!r}: whole numbers with commas between them, e.g. 1,2"
        ) from None
