"""Recorded runs from Python: compare, compare_by, explain and export."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from wattstep.errors import InvalidValueError

if TYPE_CHECKING:
    from wattstep.insight.compare.by_facet import ByFacet
    from wattstep.insight.compare.comparing import Comparison
    from wattstep.insight.compare.matrix import Matrix
    from wattstep.insight.explain.section import Section
    from wattstep.report.export.export import Exported
    from wattstep.run import Run
    from wattstep.schema.run_report import RunReport

RunPath: TypeAlias = "str | PathLike[str]"


def compare(
    *sides: RunPath | RunReport | Sequence[RunPath | RunReport],
    across: Sequence[str] = (),
    metric: str | None = None,
    on_read: Callable[[int, int], None] | None = None,
) -> Comparison | Matrix:
    """Compares runs: what differs, and how sure that is.

    >>> comparison = wattstep.compare("runs/a", ["runs/b1", "runs/b2"])  # doctest: +SKIP
    >>> print(*comparison.sentences, sep="\\n")                      # doctest: +SKIP

    Args:
        sides: Each a run, the report of one that was never recorded, a folder of runs of one
            configuration, or several of these; one folder alone is split by configuration.
        across: What may differ because it is what is compared: "device", "batch", "threads", ...
        metric: Compares every pair by this one: "step_time", "energy_per_step", ...
        on_read: Told how many runs are read, and of how many, before the first and after each.

    Returns:
        A `Comparison` of two sides in full; a `Matrix` of every pair where there are more, or
        where a metric is given.

    Raises:
        InvalidValueError: They do not compare, or there is no such metric or facet.
        DamagedRunError: A run cannot be read.
    """
    from wattstep.insight.compare.comparing import compare as compare_two
    from wattstep.insight.compare.configuration import check_across
    from wattstep.insight.compare.matrix import compare_all
    from wattstep.insight.compare.process import UNITS
    from wattstep.insight.compare.sides import gathered, sides_of

    if not sides:
        raise InvalidValueError("there is nothing to compare: give runs", id="nothing-to-compare")
    meant = check_across(list(across))
    groups = [_runs(side) for side in sides]
    compared_sides = gathered(groups) if len(groups) > 1 else sides_of(groups[0])
    if metric is not None and metric not in UNITS:
        raise InvalidValueError(
            f"--metric {metric}: there are {', '.join(UNITS)}", id="unknown-metric"
        )
    if len(compared_sides) == 2 and metric is None:
        return compare_two(compared_sides[0], compared_sides[1], meant, on_read=on_read)
    return compare_all(compared_sides, metric, meant, on_read)


def compare_by(
    facet: str,
    runs: RunPath | RunReport | Sequence[RunPath | RunReport],
    *,
    on_read: Callable[[int, int], None] | None = None,
) -> ByFacet:
    """Compares runs by one facet, a row for each configuration of all others.

    >>> by_engine = wattstep.compare_by("engine", "runs")            # doctest: +SKIP

    Args:
        facet: What the columns differ in: "engine", "threads", "batch", "device", ...
        runs: Runs, or folders of runs.
        on_read: As of `compare`.

    Raises:
        InvalidValueError: There is no such facet, or all runs are alike in it.
        DamagedRunError: A run cannot be read.
    """
    from wattstep.insight.compare.by_facet import compare_by as compare_by_facet
    from wattstep.insight.compare.configuration import check_across
    from wattstep.insight.compare.sides import runs_in, sides_among
    from wattstep.schema.run_report import RunReport

    check_across([facet], "--by")
    given = _runs(runs)
    each = [run for one in given for run in ([one] if isinstance(one, RunReport) else runs_in(one))]
    return compare_by_facet(facet, sides_among(each, "what is given"), on_read)


def explain(
    run: Run | RunReport | RunPath, sections: Sequence[str] = (), *, beside: Sequence[Run] = ()
) -> tuple[Section, ...]:
    """Explains where the time and the energy of a run go, and why.

    >>> (gaps,) = wattstep.explain("runs/mine", ["gaps"])            # doctest: +SKIP
    >>> print(*gaps.sentences, sep="\\n")                            # doctest: +SKIP

    Args:
        run: A run, its folder, or the report of a run that was never recorded.
        sections: Which; none: all, in the order of `wattstep explain`.
        beside: Other runs that advice may look at.

    Returns:
        Each with sentences, figures and tables, or the reason why it can say nothing.

    Raises:
        InvalidValueError: There is no such section.
        DamagedRunError: The run cannot be read.
    """
    from wattstep.insight.explain import chosen_sections, explain_report
    from wattstep.insight.explain import explain as explained
    from wattstep.run import load
    from wattstep.schema.run_report import RunReport

    names = chosen_sections(sections)  # before anything is opened
    if isinstance(run, RunReport):
        explained_report = explain_report(run)
        return tuple(each for each in explained_report if not sections or each.name in names)
    opened = load(Path(run)) if isinstance(run, (str, PathLike)) else run
    return tuple(explained(opened, names, beside))


def export(
    run: Run | RunReport | RunPath,
    to: str,
    output: RunPath | None = None,
    *,
    force: bool = False,
    on_progress: Callable[[str, float], None] | None = None,
) -> Exported:
    """Writes a run in the format of another tool, in one piece or not at all.

    >>> wattstep.export("runs/mine", "perfetto").path                # doctest: +SKIP

    Args:
        run: A run, its folder, or the report of a run that was never recorded (tables only).
        to: "perfetto", "chrome", "csv" or "parquet".
        output: The file or folder to write; None: the run's name, in the working directory.
        force: Whether to replace what is there.
        on_progress: Told what is written, and how far all of it is (0 to 1).

    Returns:
        What was written: `path`, `size` in B, counts and notes.

    Raises:
        InvalidValueError: There is no such format, or the path does not fit it.
        DamagedRunError: The run cannot be read.
        ExportError: It is there already, or cannot be written.
    """
    from wattstep.report.export.export import export_run, targets
    from wattstep.schema.run_report import RunReport

    source: Path | RunReport
    if isinstance(run, RunReport):
        source = run
    else:
        source = Path(run) if isinstance(run, (str, PathLike)) else run.path
    folder = Path(source.run) if isinstance(source, RunReport) else source
    (target,) = targets([folder], to, None if output is None else Path(output))
    return export_run(source, to, target, force=force, on_progress=on_progress)


def _runs(side: RunPath | RunReport | Sequence[RunPath | RunReport]) -> list[Path | RunReport]:
    from wattstep.schema.run_report import RunReport

    runs = [side] if isinstance(side, (str, PathLike, RunReport)) else side
    return [run if isinstance(run, RunReport) else Path(run) for run in runs]
