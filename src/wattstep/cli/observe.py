"""`wattstep observe`: the twelve observations of the TX2 paper, tested on recorded runs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from wattstep.cli import completing
from wattstep.cli.opening import open_runs
from wattstep.cli.options import Full, Json, Quiet
from wattstep.cli.saying import say_failures
from wattstep.errors import DamagedRunError
from wattstep.schema.failures import Failures

if TYPE_CHECKING:
    from wattstep.insight.observe.evidence import Attempt, DailyCourse, Evidence, Observed
    from wattstep.schema.outcome import Outcome


def observe(
    runs: Annotated[
        list[Path],
        typer.Argument(
            autocompletion=completing.runs,
            metavar="RUN...",
            help="Runs, folders that hold runs, sweeps, daily trainings.",
        ),
    ],
    only: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            help="Observations, by their numbers in the paper, e.g. 4,8.", metavar="N,..."
        ),
    ] = None,
    full: Full = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Test the paper's twelve observations on these runs: which hold here, which do not, how sure."""
    from wattstep.insight.observe import chosen_observations
    from wattstep.insight.observe import observe as observed
    from wattstep.insight.observe.groups import settings_by_letter

    wanted = [part.strip() for part in only.split(",")] if only is not None else []
    names = chosen_observations(wanted)
    failures = Failures()
    evidence, damaged = _evidence(runs, names, quiet, failures)
    observations = list(observed(evidence, names, failures))
    say_failures(failures)
    if json:
        from wattstep.report.json_document import dump

        conditions = settings_by_letter(evidence.runs)
        documents = [each.document() for each in observations]
        document = {"observations": documents, "conditions": conditions, "damaged": damaged}
        dump({**document, "failures": failures.documents()}, sys.stdout)
        return
    from wattstep.cli.screen import screen
    from wattstep.report.terminal.observe import print_observations

    print_observations(observations, evidence, screen(), full or only is not None)


def _evidence(
    paths: Sequence[Path], names: Sequence[str], quiet: bool, failures: Failures
) -> tuple[Evidence, list[dict[str, str]]]:
    """Everything in these folders, and the runs that cannot be read.

    Raises:
        DamagedRunError: One of them is not there, holds nothing, or cannot be read.
    """
    from wattstep.cli.folders import find
    from wattstep.cli.progress import list_progress
    from wattstep.insight.observe import gather
    from wattstep.insight.observe.evidence import Evidence
    from wattstep.run import load

    contents = find(paths)
    daily = [course for path in contents.daily for course in _daily(path)]
    attempts = [one for path, own in contents.outcomes.items() for one in _attempts(path, own)]
    with list_progress("reading", len(contents.runs), quiet=quiet) as tell:

        def one(path: Path) -> Observed:
            tell(str(path))
            return gather(load(path), str(path), names, contents.runs[path], failures)

        runs, damaged = open_runs(contents.runs, one, failures)
    return Evidence(runs=runs, daily=daily, attempts=attempts), damaged


def _attempts(path: Path, outcomes: Sequence[Outcome]) -> list[Attempt]:
    """Attempts at the configurations of a sweep."""
    from wattstep.insight.observe.evidence import Attempt

    return [
        Attempt(
            sweep=str(path), family=outcome.configuration.family,
            workload=outcome.configuration.workload, batch_size=outcome.configuration.batch_size,
            status=outcome.status, limit=outcome.limit,
        )
        for outcome in outcomes
    ]  # fmt: skip


def _daily(path: Path) -> list[DailyCourse]:
    from wattstep.insight.observe.evidence import DailyCourse
    from wattstep.train.daily.figures import paired, share
    from wattstep.train.daily.folder import DailyFolder

    folder = DailyFolder(path)
    settings = folder.settings()
    data = (folder.server() or {}).get("data") or {}
    shared = {
        "images_per_day": settings.images_per_day, "epochs_per_day": settings.epochs_per_day,
        "precision": settings.precision, "rate_rule": settings.rate_rule,
        "pretrain": settings.pretrain, "data": data.get("name"),
    }  # fmt: skip
    courses = []
    for size in folder.batches():
        days = folder.days(size)
        try:
            first, last = days[0], days[-1]
            course = DailyCourse(
                folder=str(path), workload=settings.workload, settings=shared, batch_size=size,
                days=int(last["day"]), images_per_day=settings.images_per_day,
                first=share(first["held_out"], "held-out samples"),
                last=share(last["held_out"], "held-out samples"),
                gain=paired(last["held_out"], first["held_out"], "held-out samples"),
                stand_in=data.get("stand_in"),
            )  # fmt: skip
        except (KeyError, IndexError, TypeError, ValueError, ZeroDivisionError) as error:
            raise DamagedRunError(f"{path}: the days of batch {size} are damaged") from error
        courses.append(course)
    if not courses:
        raise DamagedRunError(f"{path} is a daily training of which no day has begun")
    return courses
