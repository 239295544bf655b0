"""`wattstep schedule`: what other orders and thread counts of a step's operations would take on a device."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Annotated, Final, Optional

import typer

from wattstep.cli import completing
from wattstep.cli.options import OUT, Json, Quiet, named_device
from wattstep.cli.predict import Classes, ImageSize, Input, training_of
from wattstep.errors import InvalidValueError

BATCH: Final = 16
PRECISION: Final = "fp32"


def schedule(
    what: Annotated[
        str,
        typer.Argument(
            autocompletion=completing.workloads,
            metavar="WORKLOAD|FILE.py:make|FILE.json",
            help="A workload of the suite, a function of a file that gives a torch module, or tasks that --out wrote.",
        ),
    ],
    on: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            "--on",
            help="Device, see devices; its file; this, once calibrated; or manycore-N, equal-N with N cores. Required.",
            metavar="DEVICE",
            autocompletion=completing.devices,
        ),
    ] = None,
    policy: Annotated[
        str, typer.Option(help="Policies with commas, or all.", metavar="NAME,...")
    ] = "all",
    batch: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(help="Samples of a step. [default: 16]", metavar="N"),
    ] = None,
    input_: Input = None,
    classes: Classes = None,
    image_size: ImageSize = None,
    precision: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="Of the training. [default: fp32]", metavar="KIND"),
    ] = None,
    out: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(*OUT, help="Write the tasks, and the plans, as FILE.json.", metavar="FILE"),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Simulate how a step's operations can be scheduled on a device that is not here."""
    from wattstep import devices, engines
    from wattstep.cli.progress import stages_of
    from wattstep.predict.search import BatchSearch
    from wattstep.schedule import machine as machines
    from wattstep.schedule.file import read_graph, write_plans
    from wattstep.schedule.study import parse_policies, study
    from wattstep.schedule.times import MachineTimes
    from wattstep.schema.workload import Preparation
    from wattstep.store import this_device

    on = named_device(on, f"wattstep schedule {what} --on DEVICE")
    size = BATCH if batch is None else batch
    BatchSearch.check_batch(size)
    names = parse_policies(policy)
    made = machines.made(on)
    if what.endswith(".json"):
        _check_needless(
            what, batch=batch, input=input_, classes=classes, image_size=image_size,
            precision=None if made is None else precision,
        )  # fmt: skip
    precision = PRECISION if precision is None else precision
    where = made or machines.of_device(devices.find(this_device.find(on)), precision=precision)
    # What the user's file prints is no part of the plan.
    with redirect_stdout(sys.stderr), stages_of("scheduling", quiet=quiet or json) as stage:
        if what.endswith(".json"):
            title, graph = what, read_graph(Path(what))
        else:
            training = training_of(what, input_, classes, image_size)
            title = f"{training.title}, batch {size}"
            stage("capturing a step")
            graph = engines.capture_tasks(
                training.of,
                Preparation(batch_size=size, classes=training.classes, image_size=image_size),
                precision,
            )
        stage("planning")
        studied = study(title, graph, MachineTimes(where), where, names)
    if out is not None:
        write_plans(out, graph, {one.policy: one.schedule for one in studied.plans})
    if json:
        from wattstep.report.json_document import dump

        dump(studied.to_dict(), sys.stdout)
        return
    from wattstep.cli.screen import screen
    from wattstep.report.terminal.schedule import print_study

    print_study(studied, screen())


def _check_needless(what: str, **given: object) -> None:
    """Refuses options of a step that is captured: a file has its tasks as they are.

    Args:
        what: The file.
        given: Values by option; None: it was not given.
    """
    for name, value in given.items():
        if value is not None:
            raise InvalidValueError(
                f"--{name.replace('_', '-')} is of a step that is captured; {what} has its tasks as they are",
                id="needless-option",
            )
