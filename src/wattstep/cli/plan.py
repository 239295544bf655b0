"""`wattstep plan`: how to train on a device that is not here, within a budget."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Annotated, Optional

import typer

from wattstep.cli.options import OUT, Json, Quiet, named_device
from wattstep.cli.predict import SGD, Classes, EngineName, ImageSize, Input, training_of
from wattstep.errors import InvalidValueError


def plan(
    what: Annotated[
        str,
        typer.Argument(
            metavar="WORKLOAD|FILE.py:make",
            help="A workload of the suite, or a function of a file that gives a torch module.",
        ),
    ],
    on: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            "--on",
            help="Device, see devices; its file; or this, once calibrated. Required.",
            metavar="DEVICE",
        ),
    ] = None,
    samples: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(help="That a session trains on. Required.", metavar="N"),
    ] = None,
    every: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            help="How often there is a session: day, hour, week, '6 h'; without it, once.",
            metavar="PERIOD",
        ),
    ] = None,
    budget: Annotated[
        str,
        typer.Option(
            help="Limits of a session, with commas: battery (%), energy (J, kJ, Wh), time (s, min, h), "
            "temperature (°C), memory (MiB, GiB), e.g. 'battery 5 %, 30 min, 45 °C'.",
            metavar="LIMIT,...",
        ),
    ] = "",
    batch: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(
            help="Samples of an update, in one batch or in several whose gradients are added up. [default: for "
            "which the workload's learning rate is right, 16 where it does not say; at most --samples]",
            metavar="N",
        ),
    ] = None,
    allow: Annotated[
        str,
        typer.Option(
            help="What is searched although it changes the mathematics of the training: batch, precision, "
            "optimizer, freeze (the last layers alone), lora; or offload, at a rate that is assumed. "
            "Without it only what trains the same is searched.",
            metavar="NAME,...",
        ),
    ] = "",
    least: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            help="What the plan is to be the least of: energy, time or memory. [default: energy, or time where "
            "the device's power is not known]",
            metavar="NAME",
        ),
    ] = None,
    sure: Annotated[
        float, typer.Option(help="Per cent with which each limit has to hold.", metavar="PERCENT")
    ] = 90.0,
    why_not: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            help="Explain one configuration beside the plan, e.g. batch=64,mode=15W.",
            metavar="NAME=VALUE,...",
        ),
    ] = None,
    input_: Input = None,
    classes: Classes = None,
    image_size: ImageSize = None,
    optimizer: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help=f"Of FILE.py:make, e.g. adam; without it {SGD}.", metavar="NAME,..."),
    ] = None,
    precision: Annotated[str, typer.Option(help="Of the training.", metavar="KIND")] = "fp32",
    engine: EngineName = None,
    out: Annotated[
        Optional[list[Path]],  # noqa: UP045
        typer.Option(
            *OUT,
            help="Write the plan: FILE.html as a page, FILE.json for run --plan; may be given twice.",
            metavar="FILE",
        ),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Find how to train within a budget on a device that is not here."""
    from wattstep.api import plan_training
    from wattstep.cli.progress import bar_of
    from wattstep.plan import parse_allowed
    from wattstep.plan.file import check_plannable, write_plan
    from wattstep.store import this_device

    on = named_device(on, f"wattstep plan {what} --on DEVICE --samples {samples or 'N'}")
    if samples is None:
        raise InvalidValueError(
            f"no number of samples is named: wattstep plan {what} --on {on} --samples N",
            id="needs-samples",
        )
    paths = out or []
    for path in paths:
        if path.suffix not in (".html", ".json"):
            raise InvalidValueError(
                f"--out {path}: it ends in .html (a page) or .json (for run --plan)",
                id="unknown-format",
            )
    allowed = parse_allowed(allow)
    # What the user's file prints is no part of the plan.
    with redirect_stdout(sys.stderr):
        training = training_of(what, input_, classes, image_size, optimizer)
        if any(path.suffix == ".json" for path in paths):
            check_plannable(training.of)
        with bar_of("planning", quiet=quiet or json) as show:
            planned = plan_training(
                training.of,
                device=this_device.find(on),
                samples=samples,
                every=every,
                budget=budget,
                update=batch,
                allow=allowed,
                least=least,
                sure=sure / 100,
                classes=training.classes,
                image_size=image_size,
                engine=engine,
                precision=precision,
                on_progress=lambda done, total: show(
                    f"{done:,} of {total:,} configurations", done / total
                ),
            )
        asked = None if why_not is None else planned.why_not(why_not)

    def write() -> None:
        for path in paths:
            if path.suffix == ".json":
                write_plan(planned, path, classes=training.classes, image_size=image_size)
            else:
                from wattstep.report.html.plan import write_plan_page

                write_plan_page(planned, path, asked)

    if json:
        from wattstep.report.json_document import dump

        write()
        document = planned.to_dict()
        if asked is not None:
            document["why_not"] = {"estimate": asked[0].to_dict(), "sentences": asked[1]}
        dump(document, sys.stdout)
        return
    from wattstep.cli.screen import screen
    from wattstep.report.terminal.plan import print_plan

    print_plan(planned, screen(), asked)
    write()  # after the screen: where nothing is to be written, it says why
