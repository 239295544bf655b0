"""`wattstep daily`: a model from a server trains on a few new samples each day; prints what that brings."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from wattstep.cli.options import (
    Batches,
    Data,
    Json,
    PowerModel,
    Precision,
    Quiet,
    RateRule,
    Seed,
    Threads,
    parse_batches,
)
from wattstep.cli.saying import say
from wattstep.errors import InvalidValueError, RecordingError

if TYPE_CHECKING:
    from wattstep.daily.folder import DailyFolder


def daily(
    workload: Annotated[str, typer.Argument(metavar="WORKLOAD", help="One that has classes.")],
    images_per_day: Annotated[int, typer.Option(help="New samples a day.", metavar="N")] = 64,
    days: Annotated[int, typer.Option(help="Days.", metavar="N")] = 17,
    batch: Batches = "4,16,64",
    epochs_per_day: Annotated[
        int, typer.Option(help="How often a day trains on each of its samples.", metavar="N")
    ] = 1,
    pretrain: Annotated[
        str, typer.Option(help="Held-out accuracy of the server's model.", metavar="GOAL")
    ] = "accuracy=0.6",
    pretrain_seconds: Annotated[
        float, typer.Option(help="The most that the server's training may take.", metavar="S")
    ] = 3600.0,
    judged: Annotated[
        int, typer.Option(help="Samples, at most, on which an accuracy is taken.", metavar="N")
    ] = 2000,
    threads: Threads = None,
    precision: Precision = "fp32",
    rate_rule: RateRule = "linear",
    seed: Seed = 0,
    data: Data = None,
    power_model: PowerModel = None,
    out: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            help="Folder; one that was begun continues. [default: daily/WORKLOAD]", metavar="DIR"
        ),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train on each day's new samples; shows accuracy, time, energy and forgetting by day."""
    from wattstep import workloads
    from wattstep.daily.child import train_daily
    from wattstep.daily.folder import DailyFolder
    from wattstep.daily.settings import DailySettings

    workloads.check_name(workload)
    settings = DailySettings(
        workload=workload,
        images_per_day=images_per_day,
        days=days,
        epochs_per_day=epochs_per_day,
        pretrain=pretrain,
        pretrain_seconds=pretrain_seconds,
        judged=judged,
        threads=threads,
        precision=precision,
        rate_rule=rate_rule,
        seed=seed,
        data_dir=None if data is None else str(data.absolute()),
        power_model=power_model,
    )
    sizes = _batches(batch, settings.images_per_day * settings.epochs_per_day)
    folder = DailyFolder(out or Path("daily") / workload)
    folder.open(settings)
    try:
        train_daily(folder, sizes, _progress(workload, quiet))
    finally:  # one that fails does not take those before it away
        if folder.batches():
            _show(folder, sizes, json)
        folder.close()


def _batches(text: str, most: int) -> list[int]:
    sizes = parse_batches(text)
    for size in sizes:
        if size > most:
            raise InvalidValueError(f"--batch {size}: a day has {most} samples only")
    return sizes


def _progress(title: str, quiet: bool) -> Callable[[dict[str, Any]], None]:
    def tell(news: dict[str, Any]) -> None:
        if "warning" in news:
            say(f"wattstep: warning: {news['warning']}")
        elif not quiet:
            where = f"batch {news['batch_size']}, day {news['day']}" if "day" in news else (
                f"pre-training, step {news['step']}"
            )  # fmt: skip
            say(f"{title}: {where}, accuracy {news['accuracy']:.2%}")

    return tell


def _show(folder: DailyFolder, sizes: list[int], as_json: bool) -> None:
    from wattstep.daily.document import describe
    from wattstep.daily.folder import REPORT
    from wattstep.reports.pages.daily import write_daily

    document = describe(folder, sizes)
    report = folder.path / REPORT
    try:
        write_daily(document, report)
    except OSError as error:
        raise RecordingError(f"{report} cannot be written: {error.strerror or error}") from error
    if as_json:
        from wattstep.reports.json_document import dump

        dump({"daily": document, "report": str(report)}, sys.stdout)
        return
    from rich.console import Console

    from wattstep.reports.consoles.daily import print_daily

    console = Console()
    print_daily(document, console)
    console.print(
        f"\nreport: {report.absolute().as_uri()}", markup=False, highlight=False, soft_wrap=True
    )
