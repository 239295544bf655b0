"""`wattstep compare`: is the difference between runs real?"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Optional

import typer

from wattstep.cli import completing
from wattstep.cli.lean import lean
from wattstep.cli.options import Full, Json, Quiet
from wattstep.cli.screen import screen
from wattstep.errors import InvalidValueError

WITH = "--with"  # stands among the paths, where an option can take one value only
TOLERANCE = "5%"
READING = 0.8  # of the time of a comparison, roughly
CONTEXT = {"ignore_unknown_options": True}


def compare(
    paths: Annotated[
        list[str],
        typer.Argument(
            autocompletion=completing.runs,
            metavar=f"A B [C...] | A... {WITH} B... [{WITH} C...]",
            help="Runs, or folders of runs of one configuration: two sides in full, more as a "
            "matrix; one folder alone is split by configuration.",
        ),
    ],
    across: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            help="What may differ because it is what is compared: device, engine, batch, threads, "
            "clocks, ...",
            metavar="FACET,...",
        ),
    ] = None,
    by: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            help="A table by one facet (engine, threads, batch, device): a block for each "
            "configuration of all others, with time, energy, memory and data movement.",
            metavar="FACET",
        ),
    ] = None,
    metric: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            help="Of a matrix: step_time, throughput, energy_per_step, ...; with --baseline: what "
            "is judged, several with commas.",
            metavar="NAME",
        ),
    ] = None,
    baseline: Annotated[
        Optional[list[Path]],  # noqa: UP045
        typer.Option(
            help="Run or folder of runs that A... is held against; the exit code is 1 where a "
            "regression is shown. Again for more of its runs.",
            metavar="BASE",
        ),
    ] = None,
    tolerance: Annotated[
        str, typer.Option(help="With --baseline: worsening that is accepted.", metavar="PERCENT")
    ] = TOLERANCE,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict", help="With --baseline: 1 also where a regression cannot be excluded."
        ),
    ] = False,
    full: Full = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Compare runs: what differs, how sure that is, and what more runs would show."""
    groups = split(paths)
    with lean():
        if by is not None:
            _compare_by(by, groups, json, quiet)
            return
        _compare_or_hold(groups, across, metric, baseline, tolerance, strict, full, json, quiet)


def _compare_or_hold(
    groups: list[list[Path]],
    across: str | None,
    metric: str | None,
    baseline: list[Path] | None,
    tolerance: str,
    strict: bool,
    full: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    from wattstep.insight.compare.configuration import check_across

    facets = [part.strip() for part in (across or "").split(",") if part.strip()]
    meant = check_across(facets)
    if baseline:
        if len(groups) > 1:
            raise InvalidValueError(
                f"--baseline and {WITH}: runs are held against one baseline", id="one-baseline"
            )
        _hold(baseline, groups[0], meant, metric, parse_tolerance(tolerance), strict, as_json)
        return
    if strict:
        raise InvalidValueError("--strict goes with --baseline", id="needs-baseline")
    if tolerance != TOLERANCE:
        raise InvalidValueError("--tolerance goes with --baseline", id="needs-baseline")
    _compare(groups, facets, metric, full, as_json, quiet)


def _compare_by(facet: str, groups: list[list[Path]], as_json: bool, quiet: bool) -> None:
    from wattstep.api import compare_by
    from wattstep.cli.progress import bar_of

    runs = [path for group in groups for path in group]
    with bar_of("comparing", quiet=quiet) as show:
        compared = compare_by(
            facet, runs,
            on_read=lambda done, count: show(f"{done} of {count} runs read", READING * done / count),
        )  # fmt: skip
    if as_json:
        _dump(compared.document())
        return
    from wattstep.report.terminal.by_facet import print_by_facet

    print_by_facet(compared, screen())


def _compare(
    groups: list[list[Path]],
    across: Sequence[str],
    metric: str | None,
    full: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    from wattstep.api import compare as compare_runs
    from wattstep.cli.progress import bar_of
    from wattstep.insight.compare.comparing import Comparison

    sides = groups if len(groups) > 1 else groups[0]
    with bar_of("comparing", quiet=quiet) as show:
        comparison = compare_runs(
            *sides, across=across, metric=metric,
            on_read=lambda done, count: show(f"{done} of {count} runs read", READING * done / count),
        )  # fmt: skip
    if as_json:
        _dump(comparison.document())
        return
    from wattstep.report.terminal.compare import print_comparison, print_matrix

    if isinstance(comparison, Comparison):
        print_comparison(comparison, screen(), full)
    else:
        print_matrix(comparison, screen())


def _hold(
    baseline: list[Path],
    runs: list[Path],
    across: frozenset[str],
    metric: str | None,
    tolerance: float,
    strict: bool,
    as_json: bool,
) -> None:
    from wattstep.insight.compare.gate import METRICS, hold
    from wattstep.insight.compare.sides import gathered

    sides = gathered([baseline, runs])
    metrics = METRICS if metric is None else tuple(part.strip() for part in metric.split(","))
    for name in metrics:
        check_metric(name)
    gate = hold(
        sides[0], sides[1], tolerance=tolerance, strict=strict, across=across, metrics=metrics
    )
    if as_json:
        _dump(gate.document())
    else:
        from wattstep.report.terminal.compare import print_gate

        print_gate(gate, screen())
    if gate.exit_code:
        raise typer.Exit(gate.exit_code)


def split(paths: Sequence[str]) -> list[list[Path]]:
    """Groups of paths, as `--with` parts them.

    Raises:
        InvalidValueError: A group is empty, or something is an option that does not exist.
    """
    groups: list[list[Path]] = [[]]
    for path in paths:
        if path == WITH:
            groups.append([])
        elif path.startswith("-"):
            raise InvalidValueError(
                f"there is no option {path}: see wattstep compare --help", id="unknown-option"
            )
        else:
            groups[-1].append(Path(path))
    if not all(groups):
        raise InvalidValueError(f"{WITH} stands between runs: A1 A2 {WITH} B1 B2", id="empty-side")
    return groups


def parse_tolerance(text: str) -> float:
    """A share from "5%" or "0.05".

    Raises:
        InvalidValueError: It is none, or less than 0.
    """
    number = text.strip()
    try:
        value = float(number.removesuffix("%")) / (100 if number.endswith("%") else 1)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise InvalidValueError(
            f"--tolerance {text}: a share such as 5% or 0.05 is wanted", id="not-a-share"
        )
    return value


def check_metric(name: str | None) -> None:
    """Refuses a metric that runs are not compared by.

    Raises:
        InvalidValueError: There is no such metric.
    """
    from wattstep.insight.compare.process import UNITS

    if name is not None and name not in UNITS:
        raise InvalidValueError(
            f"--metric {name}: there are {', '.join(UNITS)}", id="unknown-metric"
        )


def _dump(document: object) -> None:
    from wattstep.report.json_document import dump

    dump(document, sys.stdout, indented=False)  # rows of thousands of operations
