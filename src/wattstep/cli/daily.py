"""`wattstep daily`: a model from a server trains on a few new samples each day; prints what that brings."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from wattstep.cli import completing
from wattstep.cli.options import OUT, Batches, Json, Quiet, parse_batches
from wattstep.cli.saying import say
from wattstep.cli.settings_options import absolute, with_settings
from wattstep.errors import InvalidValueError, RecordingError, WattstepError
from wattstep.schema.processes import ChildNews
from wattstep.train.daily.settings import DailySettings

if TYPE_CHECKING:
    from wattstep.train.daily.folder import DailyFolder


@with_settings(
    "images_per_day", "days", "batch", "epochs_per_day", "pretrain", "pretrain_seconds", "labels", "labeled", "judged",
    "threads", "engine", "processor", "precision", "channels_last", "compiled", "rate_rule", "seed",
    "data_dir", "power_model", "out", "json", "quiet",
    of=DailySettings,
)  # fmt: skip
def daily(
    workload: Annotated[
        str,
        typer.Argument(
            autocompletion=completing.workloads, metavar="WORKLOAD", help="One that has classes."
        ),
    ],
    batch: Batches = "4,16,64",
    out: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            *OUT,
            help="Folder; one that was begun continues. [default: daily/WORKLOAD]",
            metavar="DIR",
        ),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
    **given: Any,
) -> None:
    """Train on each day's new samples; shows accuracy, time, energy and forgetting by day."""
    from wattstep import workloads
    from wattstep.train.daily.child import train_daily
    from wattstep.train.daily.folder import DailyFolder

    workloads.check_name(workload)
    given["data_dir"] = absolute(given["data_dir"])
    settings = DailySettings(workload=workload, **given)
    sizes = _batches(batch, settings.images_per_day * settings.epochs_per_day)
    folder = DailyFolder(out or Path("daily") / workload)
    folder.open(settings)
    try:
        train_daily(folder, sizes, _progress(workload, settings.days * len(sizes), quiet))
    except WattstepError:
        folder.take_back()
        raise
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


def _progress(title: str, days: int, quiet: bool) -> Callable[[ChildNews], None]:
    """Says what comes in; `days` there are in all, of all batch sizes."""
    from wattstep.cli.progress import Course

    course, first = Course(title), 0

    def tell(news: ChildNews) -> None:
        nonlocal first, course
        if "warning" in news:
            say(f"wattstep: warning: {news['warning']}")
        elif not quiet:
            if news["stage"] == "labeling":
                where = f"labels of day {news['day']}"
            elif news["stage"] == "pre-training":
                where = f"pre-training, step {news['step']}"
            else:
                where = f"batch {news['batch_size']}, day {news['day']}"
                first += 1
                if first == 1:  # time counts from the first day that is trained now
                    course = Course(title)
                course.stands(where, (first - 1) / max(days - 1, 1))
            left = f", {course.left}" if course.left else ""
            say(f"{title}: {where}, accuracy {100 * news['accuracy']:.2f} %{left}")

    return tell


def _show(folder: DailyFolder, sizes: list[int], as_json: bool) -> None:
    from wattstep.report.html.daily import write_daily
    from wattstep.train.daily.folder import REPORT
    from wattstep.train.daily.result import daily_report

    daily = daily_report(folder, sizes)
    report = folder.path / REPORT
    try:
        write_daily(daily, report)
    except OSError as error:
        raise RecordingError(f"{report} cannot be written: {error.strerror or error}") from error
    if as_json:
        from wattstep.report.json_document import dump

        dump({"daily": daily.to_dict(), "report": str(report)}, sys.stdout)
        return
    from wattstep.cli.screen import screen
    from wattstep.report.terminal.daily import print_daily

    console = screen()
    print_daily(daily, console)
    console.print(
        f"\nreport: {report.absolute().as_uri()}", markup=False, highlight=False, soft_wrap=True
    )
