"""`wattstep label`: data get labels from a small labeled set, with what is unknown named as such."""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from wattstep.cli import completing
from wattstep.cli.options import OUT, Json, Quiet
from wattstep.cli.saying import refuse
from wattstep.errors import InvalidValueError, RecordingError, RunExistsError, WattstepError

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from wattstep.labeling.cost import LabelingCost
    from wattstep.labeling.folder import LabelFolder
    from wattstep.labeling.pacing import Pacer
    from wattstep.labeling.processors import Processors
    from wattstep.labeling.result import LabelingReport
    from wattstep.labeling.source import Asked, Source


def label(
    data: Annotated[
        list[Path],
        typer.Argument(
            metavar="DATA...",
            help="Samples to label: CSV, NPY or Parquet, read in pieces; several in this order. Files that came since "
            "stand behind those that were labeled.",
        ),
    ],
    labeled: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            help="The labeled samples: CSV, NPY or Parquet; rows without a label are passed over. Required.",
            metavar="FILE",
        ),
    ] = None,
    column: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="Which column of --labeled has the labels.", metavar="NAME"),
    ] = None,
    labels: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(help="In place of --column: an NPY file of labels alone.", metavar="FILE"),
    ] = None,
    features: Annotated[
        str,
        typer.Option(
            help="Columns to use. [default: all of --labeled but that of the labels]",
            metavar="NAME,...",
        ),
    ] = "",
    false_alarm: Annotated[
        float,
        typer.Option(
            help="Share of samples of known classes that may be called unknown.", metavar="SHARE"
        ),
    ] = 0.05,
    confidence: Annotated[
        float, typer.Option(help="A label less probable than this is withheld.", metavar="SHARE")
    ] = 0.5,
    batch: Annotated[int, typer.Option(help="Samples of a piece.", metavar="N")] = 500,
    ask: Annotated[
        int,
        typer.Option(
            help="Write the samples whose labels would help most, N at most, to ask.csv in the folder.",
            metavar="N",
            min=0,
        ),
    ] = 0,
    answers: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            help="Further labels, learned from before going on: ask.csv with its last column filled in, or any file in "
            "the form of --labeled. What was told before is passed over.",
            metavar="FILE",
        ),
    ] = None,
    name: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(
            help="Give a new class its label, before going on; may be given several times.",
            metavar="unknown-1=LABEL",
        ),
    ] = None,
    merge: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(
            help="Make the second new class part of the first.", metavar="unknown-1=unknown-2"
        ),
    ] = None,
    reject: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(help="A new class that is none.", metavar="unknown-1"),
    ] = None,
    image: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            help="The features are pixels, row by row: the page shows them as pictures.",
            metavar="WIDTHxHEIGHT",
        ),
    ] = None,
    tasks: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            help="Write the work of labeling a piece as tasks: wattstep schedule FILE.json --on DEVICE tells what it "
            "would take there.",
            metavar="FILE.json",
        ),
    ] = None,
    on: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            help="Processors that share the work by what each takes here: cpu, cpu:0-3 or cpu:0+2 for some of its "
            "cores, opencl, opencl:NUMBER, opencl:NAME. Labels are the same on any. [default: the CPU]",
            metavar="PROCESSOR,...",
        ),
    ] = None,
    latency: Annotated[
        Optional[float],  # noqa: UP045
        typer.Option(
            help="With --on: look each piece up with the least energy that lets it end within so many ms. Needs the "
            "power of each processor: --power or --device. [default: as soon as can be]",
            metavar="MS",
        ),
    ] = None,
    power: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            help="With --on: what each processor adds to the idle device's power while it works, in watts, e.g. "
            "cpu:0-3=1.2,opencl:0=4.",
            metavar="PROCESSOR=W,...",
        ),
    ] = None,
    device: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            help="With --on: this machine among devices, whose file tells the power that --power leaves out; its file; "
            "or this, once calibrated.",
            metavar="DEVICE",
            autocompletion=completing.devices,
        ),
    ] = None,
    measure: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            help="Then record into this new run what labeling 500 samples takes here: time and energy.",
            metavar="RUN",
        ),
    ] = None,
    frame_budget: Annotated[
        Optional[float],  # noqa: UP045
        typer.Option(
            help="Hold labeling back so that it delays a foreground job of 60 frames a second by at most so many ms "
            "(Flame: 0.75); with --measure: only tell by how much it does.",
            metavar="MS",
        ),
    ] = None,
    nice: Annotated[
        int,
        typer.Option(
            help="With --measure and --frame-budget: nice value of the labeling.",
            metavar="N",
            min=0,
            max=19,
        ),
    ] = 0,
    power_model: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            help="With --measure, where no power sensor is: vcpu, or linear:IDLE,BUSY in watts a core (modelled).",
            metavar="MODEL",
        ),
    ] = None,
    out: Annotated[
        Path,
        typer.Option(*OUT, help="Folder; one that was begun continues.", metavar="DIR"),
    ] = Path("labels"),
    format: Annotated[
        str, typer.Option("--format", help="Of the labels: parquet or csv.", metavar="KIND")
    ] = "parquet",
    seed: Annotated[int, typer.Option(help="Of all that is drawn.", metavar="N", min=0)] = 0,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Label data as they arrive, from a few labeled samples; what is of no known class is unknown."""
    from wattstep.cli.progress import bar_of
    from wattstep.labeling import deciding
    from wattstep.labeling.folder import LabelFolder
    from wattstep.labeling.job import label_files
    from wattstep.labeling.result import labeling_report
    from wattstep.labeling.source import open_source

    shape = _shape(image)
    _check_measured(measure, frame_budget, nice, power_model)
    asked = _asked(
        data, labeled, column, labels, features, false_alarm, confidence, batch, seed, format
    )
    processors = _processors(on, latency, power, device)
    source = open_source(asked)
    _check_shape(shape, len(source.features))
    folder = LabelFolder(out)
    folder.open(source)
    try:
        told = deciding.decide(
            folder, source, names=name or (), merges=merge or (), rejects=reject or (),
            answers=answers,
        )  # fmt: skip
        if ask:
            deciding.check_answered(folder, source)
        paced = frame_budget is not None and measure is None
        with (
            bar_of("labeling", quiet=quiet or json) as bar,
            _pacer(frame_budget if paced else None) as pacer,
        ):
            labeler, progress = label_files(
                folder, source, lambda done: bar(f"{done:,} samples", None), processors, pacer
            )
        if tasks is not None:
            from wattstep.labeling.tasks import graph_of
            from wattstep.schedule.file import write_plans

            write_plans(tasks, graph_of(labeler.engine_, batch), {})
        questions = labeler.ask(ask) if ask else None
        form = None if questions is None else deciding.write_questions(folder, source, questions)
        result = labeling_report(folder, asked, labeler, progress, questions, pacer)
        page = _write_page(folder, result, None, shape)
        if not json:
            _show(result, page, told, form)
        cost = refusal = None
        if measure is not None:  # when the labels are shown: it may fail
            try:
                cost = _cost(folder, source, processors, measure, frame_budget, nice, power_model)
                _write_page(folder, result, cost, shape)
            except WattstepError as error:
                refusal = error
        if json:
            _dump(result, cost, page, told, form, refusal)
        elif cost is not None:
            _show_cost(cost)
        if refusal is not None:
            refuse(refusal)
    except WattstepError:
        folder.take_back()
        raise
    finally:
        folder.close()


def _asked(
    data: list[Path],
    labeled: Path | None,
    column: str | None,
    labels: Path | None,
    features: str,
    false_alarm: float,
    confidence: float,
    batch: int,
    seed: int,
    format: str,
) -> Asked:
    from wattstep.labeling.source import Asked

    if labeled is None:
        raise InvalidValueError(
            f"no labeled samples are named: wattstep label {data[0]} --labeled FILE --column NAME",
            id="needs-labels",
        )
    if batch < 1:
        raise InvalidValueError(f"--batch {batch}: it must be at least 1", id="out-of-range")
    if format not in ("parquet", "csv"):
        raise InvalidValueError(
            f"--format {format}: there are parquet and csv", id="unknown-data-format"
        )
    return Asked(
        data=tuple(str(path.absolute()) for path in data),
        labeled=str(labeled.absolute()),
        column=column,
        labels=None if labels is None else str(labels.absolute()),
        features=tuple(filter(None, features.split(","))),
        false_alarm=false_alarm,
        confidence=confidence,
        batch=batch,
        seed=seed,
        format="csv" if format == "csv" else "parquet",
    )


def _processors(
    on: str | None, latency: float | None, power: str | None, device: str | None
) -> Processors | None:
    if on is None:
        for option, value in (("latency", latency), ("power", power), ("device", device)):
            if value is not None:
                raise InvalidValueError(
                    f"--{option} is for processors that share the work: give --on PROCESSOR,...",
                    id="needs-processors",
                )
        return None
    from wattstep.labeling.power import parse_watts
    from wattstep.labeling.processors import Processors

    return Processors(
        names=tuple(on.split(",")),
        watts={} if power is None else parse_watts(power),
        device=device,
        latency_s=None if latency is None else latency * 1e-3,
    )


def _pacer(budget_ms: float | None) -> AbstractContextManager[Pacer | None]:
    if budget_ms is None:
        return nullcontext()
    from wattstep.train.labeling_pace import paced

    return paced(budget_ms)


def _check_measured(
    measure: Path | None, frame_budget: float | None, nice: int, power_model: str | None
) -> None:
    if measure is None and (nice or power_model is not None):
        raise InvalidValueError(
            "--nice and --power-model are for what is measured: give --measure RUN",
            id="needs-measure",
        )
    from wattstep.schema.settings import check_above_0, parse_power_model

    if frame_budget is not None:
        check_above_0(f"--frame-budget {frame_budget:g}", frame_budget)
    if nice and frame_budget is None:
        raise InvalidValueError(
            "--nice is for the labeling beside a job: give --frame-budget", id="needs-foreground"
        )
    parse_power_model(power_model)
    if measure is not None and os.path.lexists(measure):
        raise RunExistsError(f"{measure} exists already: choose another folder, or remove it first")


def _cost(
    folder: LabelFolder,
    source: Source,
    processors: Processors | None,
    run: Path,
    frame_budget: float | None,
    nice: int,
    power_model: str | None,
) -> LabelingCost:
    """Of a labeler as this one is now, which labels the first samples of the data once more."""
    from wattstep.labeling import AutoLabeler
    from wattstep.labeling.cost import FLAME_DELAY_MS
    from wattstep.labeling.source import first_samples
    from wattstep.train.labeling_cost import measure_labeling

    return measure_labeling(
        AutoLabeler.load(folder.state, processors=processors),
        first_samples(source),
        run,
        foreground=frame_budget is not None,
        budget_ms=FLAME_DELAY_MS if frame_budget is None else frame_budget,
        nice=nice,
        power_model=power_model,
    )


def _shape(image: str | None) -> tuple[int, int] | None:
    if image is None:
        return None
    width, _, height = image.partition("x")
    if not (width.isdecimal() and height.isdecimal() and int(width) and int(height)):
        raise InvalidValueError(
            f"--image {image}: write the width and the height, e.g. 8x8", id="malformed-shape"
        )
    return int(width), int(height)


def _check_shape(shape: tuple[int, int] | None, features: int) -> None:
    if shape is not None and shape[0] * shape[1] != features:
        width, height = shape
        raise InvalidValueError(
            f"--image {width}x{height}: {width * height} pixels, the samples have {features} features",
            id="malformed-shape",
        )


def _write_page(
    folder: LabelFolder,
    result: LabelingReport,
    cost: LabelingCost | None,
    shape: tuple[int, int] | None,
) -> Path:
    from wattstep.labeling.folder import REPORT
    from wattstep.report.html.labeling import write_labeling

    page = folder.path / REPORT
    try:
        write_labeling(result, page, shape, cost)
    except OSError as error:
        raise RecordingError(
            f"{page} cannot be written: {error.strerror or error}", id="labels-not-written"
        ) from error
    return page


def _dump(
    result: LabelingReport,
    cost: LabelingCost | None,
    page: Path,
    told: int,
    form: Path | None,
    refusal: WattstepError | None,
) -> None:
    from wattstep.report.json_document import dump

    found: dict[str, Any] = {"labeling": result.to_dict(), "report": str(page), "told": told}
    if form is not None:
        found["questions"] = str(form)
    if cost is not None:
        found["cost"] = cost.to_dict()
    if refusal is not None:
        found |= refusal.document()
    dump(found, sys.stdout)


def _show(result: LabelingReport, page: Path, told: int, form: Path | None) -> None:
    from wattstep.cli.screen import screen
    from wattstep.report.terminal.labeling import print_labeling

    console = screen()
    print_labeling(result, console)
    lines = [f"\nreport: {page.absolute().as_uri()}"]
    if form is not None:
        lines.append(f"fill in the last column of {form}, then go on with --answers {form}")
    if told:
        lines.append(f"answers that were new: {told:,}")
    console.print("\n".join(lines), markup=False, highlight=False, soft_wrap=True)


def _show_cost(cost: LabelingCost) -> None:
    from wattstep.cli.screen import screen
    from wattstep.report.terminal.labeling import print_cost

    print_cost(cost, screen())
