"""`wattstep import`: what other tools recorded, as a run."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Optional

import typer

from wattstep.cli.options import Full, Json, Name, Out, Quiet, run_folder
from wattstep.errors import InvalidValueError


def import_(
    files: Annotated[
        Optional[list[Path]],  # noqa: UP045
        typer.Argument(hidden=True),
    ] = None,
    trace: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            help="Operations: Kineto or Chrome JSON, nvprof or nsys CSV, ExecuTorch ETDump, "
            "Perfetto; packed with gzip or not.",
            metavar="FILE",
        ),
    ] = None,
    telemetry: Annotated[
        Optional[list[Path]],  # noqa: UP045
        typer.Option(
            help="Samples: tegrastats, nvidia-smi CSV or XML, Perfetto, a power meter's log, CSV "
            "with a header. May be given several times.",
            metavar="FILE",
        ),
    ] = None,
    agent: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            help="A folder that the agent of an old board wrote (wattstep agent), in place of both.",
            metavar="FOLDER",
        ),
    ] = None,
    align: Annotated[
        str,
        typer.Option(
            help="How the clocks of both are brought together: auto, wall (both are dated), load "
            "(power follows the operations), offset:SECONDS (added to the telemetry's times; "
            "then ,rate=R), marks:FILE (CSV of pairs of times), none.",
            metavar="WAY",
        ),
    ] = "auto",
    interval: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            help="How far apart the lines of a log without a clock are.", metavar="DURATION"
        ),
    ] = None,
    board: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="Whose rails they are; see wattstep boards.", metavar="BOARD"),
    ] = None,
    unit: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(
            help="Unit of the columns of a CSV whose headings say none: mW, or NAME=mW for one "
            "column. May be given several times.",
            metavar="UNIT",
        ),
    ] = None,
    find_steps: Annotated[
        bool,
        typer.Option(
            help="Look for steps in the power of a log that comes without a trace.",
        ),
    ] = True,
    step_name: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            help="Which annotations of the trace are training steps. [default: ProfilerStep#N]",
            metavar="REGEX",
        ),
    ] = None,
    process: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(
            help="Number of the process whose steps and operations count, where the trace holds "
            "several that train. [default: all]",
            metavar="N",
        ),
    ] = None,
    batch: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(help="Samples of a step, where you know them.", metavar="N"),
    ] = None,
    warmup: Annotated[int, typer.Option(help="First steps that do not count.", metavar="N")] = 0,
    workload: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="What was trained. [default: the file's name]", metavar="WORDS"),
    ] = None,
    out: Out = Path("runs"),
    name: Name = None,
    full: Full = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Make a run from what other tools recorded: traces of operations, logs of sensors, or both."""
    from wattstep.cli.progress import bar_of
    from wattstep.cli.showing import show_runs
    from wattstep.importing.importer import ImportSettings, import_run
    from wattstep.store.files import new_name

    if files:
        name_ = shlex.quote(str(files[0]))
        raise InvalidValueError(
            f"{files[0]}: say what it holds: wattstep import --telemetry {name_} (samples of sensors, "
            f"such as tegrastats) or --trace {name_} (operations)",
            id="files-by-option",
        )
    if agent is not None:
        if trace is not None or telemetry:
            raise InvalidValueError("--agent is a recording by itself: without the other two")
        from wattstep.remote.agent.joining import join

        folder = Path(run_folder(out, name, new_name(agent.resolve().name)))
        join(agent, folder)
    else:
        settings = ImportSettings(
            trace=trace,
            telemetry=tuple(telemetry or ()),
            align=align,
            interval=interval,
            board=board,
            step_name=step_name,
            process=process,
            batch_size=batch,
            warmup=warmup,
            workload=workload,
            units=tuple(unit or ()),
            find_steps=find_steps,
        )
        folder = Path(run_folder(out, name, new_name(settings.called)))
        with bar_of("importing", quiet=quiet or json) as show:
            import_run(settings, folder, show)
    show_runs([folder], json, full)
