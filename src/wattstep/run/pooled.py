"""The regression of several runs of one configuration together, and in what runs are not of one."""

from __future__ import annotations

from collections.abc import Sequence

from wattstep.attribution.tables.regression_input import (
    Process,
    RegressionResult,
    process_of,
    regression_result,
)
from wattstep.errors import InvalidValueError
from wattstep.run.run import Run
from wattstep.schema.configuration import FIELDS, Rule, configuration_of
from wattstep.schema.figure import Missing


def pooled(runs: Sequence[Run]) -> RegressionResult | Missing:
    """The regression of several runs of one configuration together, or why there is none.

    Args:
        runs: One process each.

    Raises:
        InvalidValueError: They are not of one configuration, or none is given.
    """
    if not runs:
        raise InvalidValueError("there is no run", id="no-run")
    for other in runs[1:]:
        if unlike := differences(runs[0], other):
            raise InvalidValueError(
                f"{other.path} cannot be taken together with {runs[0].path}: {'; '.join(unlike)}",
                id="other-configuration",
            )
    processes: list[Process] = []
    for run in runs:
        source = run.series.energy
        process = (
            source
            if isinstance(source, Missing)
            else process_of(run.breakdown, source, len(runs) > 1)
        )
        if isinstance(process, Missing):
            return Missing(f"{run.path}: {process}") if len(runs) > 1 else process
        processes.append(process)
    source = runs[0].series.energy
    assert not isinstance(source, Missing)
    return regression_result(processes, source)


def differences(one: Run, other: Run) -> list[str]:
    """In what two runs are not of one configuration, in words; empty where they are."""
    mine, theirs = configuration_of(one.info), configuration_of(other.info)
    differing = {
        FIELDS[name].words: both
        for name, both in mine.differences(theirs, Rule.REFUSE, Rule.ENERGY).items()
    }
    if _source(one) != _source(other):
        differing["the source of energy"] = (_source(one), _source(other))
    return [f"{words} is {there}, not {here}" for words, (here, there) in differing.items()]


def _source(run: Run) -> str:
    energy = run.series.energy
    return "none" if isinstance(energy, Missing) else energy.source
