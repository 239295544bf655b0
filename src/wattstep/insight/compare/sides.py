"""Sides of a comparison as given on the command line: each the processes of one configuration."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from wattstep.errors import DamagedRunError, InvalidValueError
from wattstep.insight.compare.configuration import (
    CHOSEN,
    configuration_of,
    differences,
    facets_of,
    label,
    refusal,
)
from wattstep.insight.compare.process import Process, process_of, read_process
from wattstep.schema.configuration import Configuration
from wattstep.schema.run_report import RunReport
from wattstep.store.files import no_run, read_info

MOST_SIDES = 26
AT_ONCE = 2  # more would take memory for each


@dataclass(frozen=True, kw_only=True, eq=False)
class Side:
    """Runs of one configuration.

    Attributes:
        letter: "A", "B", ...
        title: Its configuration or its folder, as far as these set it apart.
        runs: Its runs, each its folder, or the report of one that was never recorded.
        configuration: Of all of them.
        chosen: True if it is one of several in one folder, whose settings somebody chose to differ.
    """

    letter: str
    title: str
    runs: tuple[Path | RunReport, ...]
    configuration: Configuration
    chosen: bool = False

    @property
    def paths(self) -> tuple[Path, ...]:
        """Its runs' folders, or what else names them."""
        return tuple(map(_path_of, self.runs))

    @property
    def name(self) -> str:
        """Letter and title: "B (batch 16)"."""
        return f"{self.letter} ({self.title})" if self.title else self.letter


def runs_in(path: Path) -> list[Path]:
    """A run as itself; a folder as the runs in it, by name.

    Raises:
        DamagedRunError: There is none.
    """
    if not path.is_dir():
        raise no_run(path)
    if (path / "run.json").exists():
        return [path]
    runs = sorted(inside.parent for inside in path.glob("*/run.json"))
    if not runs:
        raise DamagedRunError(f"{path} is not a run, and holds none", id="not-a-run")
    return runs


def gathered(groups: Sequence[Sequence[Path | RunReport]]) -> list[Side]:
    """Sides as they were gathered: each group is one, of one configuration.

    Raises:
        DamagedRunError: There is no run.
        InvalidValueError: A group holds several configurations, or a run is given twice.
    """
    sides: list[Side] = []
    for number, group in enumerate(groups):
        by = _by_configuration([run for given in group for run in _runs_of(given)])
        letter = _letter(number)
        if len(by) > 1:
            first, second, *_ = by
            reason = refusal(first, second, frozenset(), ("two runs of it", ""))
            what = (reason or "").partition(" differ in ")[2].partition(": if that")[0]
            raise InvalidValueError(
                f"side {letter} ({', '.join(map(_name_of, group))}) is not one configuration: its runs "
                f"differ in {what}; compare a folder alone to set its configurations side by side",
                id="mixed-side",
            )
        ((configuration, runs),) = by.items()
        sides.append(Side(letter=letter, title="", runs=tuple(runs), configuration=configuration))
    return _titled(_each_once(sides), [[_path_of(given) for given in group] for group in groups])


def sides_of(given: Sequence[Path | RunReport]) -> list[Side]:
    """Sides of plain runs: each is one; a folder alone is as many as it holds configurations.

    Raises:
        DamagedRunError: There is no run.
        InvalidValueError: There is nothing to compare with, too much, or a run is given twice.
    """
    if len(given) > 1:
        return gathered([[one] for one in given])
    return sides_among(_runs_of(given[0]), _name_of(given[0]))


def sides_among(runs: Sequence[Path | RunReport], what: str) -> list[Side]:
    """Sides of runs that lie together: as many as they have configurations.

    Args:
        runs: All of them.
        what: Name of what holds them, for the error.

    Raises:
        DamagedRunError: A run cannot be read.
        InvalidValueError: They are of one configuration, or too many.
    """
    by = _by_configuration(runs)
    if len(by) < 2:
        raise InvalidValueError(
            f"{what} holds one configuration: give a second path to compare it with",
            id="one-configuration",
        )
    return by_choice(by)


def by_choice(by: Mapping[Configuration, Sequence[Path | RunReport]]) -> list[Side]:
    """Sides of runs by their configuration, whose settings somebody chose to differ.

    Raises:
        InvalidValueError: There are too many, or a run is there twice.
    """
    sides = [
        Side(
            letter=_letter(number), title="", runs=tuple(runs), configuration=configuration,
            chosen=True,
        )
        for number, (configuration, runs) in enumerate(sorted(by.items(), key=_in_order))
    ]  # fmt: skip
    return _titled(_each_once(sides), [])


def read(
    sides: Sequence[Side],
    *,
    operations: bool,
    on_read: Callable[[int, int], None] | None = None,
) -> list[list[Process]]:
    """Opens the runs of all sides, two at a time: much of it runs outside of Python's lock.

    Args:
        sides: All that are compared.
        operations: Whether operations are read, too.
        on_read: Told how many runs are read, and of how many, before the first and after each.

    Raises:
        DamagedRunError: A run cannot be read.
    """

    def opened(run: Path | RunReport) -> Process:
        if isinstance(run, RunReport):
            return process_of(run)
        return read_process(run, operations=operations)

    runs = [run for side in sides for run in side.runs]
    tell = on_read or (lambda done, count: None)
    tell(0, len(runs))
    read_ones = []
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for process in pool.map(opened, runs):
            read_ones.append(process)
            tell(len(read_ones), len(runs))
    processes = iter(read_ones)
    return [[next(processes) for _ in side.runs] for side in sides]


def why_not(a: Side, b: Side, across: frozenset[str]) -> str | None:
    """Reason why two sides cannot be compared; None where they can.

    Of the configurations of one folder, the settings of the training may differ without a word.
    """
    return refusal(a.configuration, b.configuration, _meant(a, b, across), (a.letter, b.letter))


def unlike(a: Side, b: Side, across: frozenset[str]) -> tuple[str, ...]:
    """Facets for whose difference two sides cannot be compared."""
    facets = differences(a.configuration, b.configuration)
    return tuple(facet for facet in facets if facet not in _meant(a, b, across))


def _meant(a: Side, b: Side, across: frozenset[str]) -> frozenset[str]:
    return across | CHOSEN if a.chosen and b.chosen else across


def _runs_of(given: Path | RunReport) -> Sequence[Path | RunReport]:
    return [given] if isinstance(given, RunReport) else runs_in(given)


def _path_of(run: Path | RunReport) -> Path:
    return Path(run.run) if isinstance(run, RunReport) else run


def _name_of(run: Path | RunReport) -> str:
    return run.run if isinstance(run, RunReport) else str(run)


def _by_configuration(
    runs: Sequence[Path | RunReport],
) -> dict[Configuration, list[Path | RunReport]]:
    runs_by_configuration: dict[Configuration, list[Path | RunReport]] = {}
    for run in runs:
        info = run if isinstance(run, RunReport) else read_info(run)
        runs_by_configuration.setdefault(configuration_of(info), []).append(run)
    return runs_by_configuration


def _in_order(
    item: tuple[Configuration, Sequence[Path | RunReport]],
) -> list[list[tuple[int, str]]]:
    """By facet, numbers within words by their size: batch 4 before batch 16."""
    return [
        [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", value)]
        for value in facets_of(item[0]).values()
    ]


def _letter(number: int) -> str:
    if number >= MOST_SIDES:
        raise InvalidValueError(
            f"more than {MOST_SIDES} sides: compare fewer at a time", id="too-many-sides"
        )
    return chr(ord("A") + number)


def _each_once(sides: list[Side]) -> list[Side]:
    seen: set[Path | int] = set()
    for side in sides:
        for run in side.runs:
            itself = id(run) if isinstance(run, RunReport) else run.resolve()
            if itself in seen:
                raise InvalidValueError(
                    f"{_name_of(run)} is given twice: a run is no evidence beside itself",
                    id="repeated-run",
                )
            seen.add(itself)
    return sides


def _titled(sides: list[Side], groups: Sequence[Sequence[Path]]) -> list[Side]:
    """With what sets each apart: settings that differ, and where it lies, where these do not."""
    titles = []
    for side in sides:
        others = [other.configuration for other in sides if other is not side]
        titles.append(label(side.configuration, others))
    alike = {title for title in titles if not title or titles.count(title) > 1}
    places = _places(groups or [side.paths[:1] for side in sides])
    return [
        replace(side, title=", ".join(filter(None, (title, place if title in alike else ""))))
        for side, title, place in zip(sides, titles, places, strict=True)
    ]


def _places(groups: Sequence[Sequence[Path]]) -> list[str]:
    """The name of the first path of each, with its folder where names alone are the same."""
    names = [group[0].name for group in groups]
    if len(set(names)) < len(names):
        names = ["/".join(group[0].parts[-2:]) for group in groups]
    return [
        name if len(group) < 2 else f"{name}, ..."
        for name, group in zip(names, groups, strict=True)
    ]
