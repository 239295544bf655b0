"""The twelve observations of the TX2 paper, each a row of `table.py`, tested on recorded runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from wattstep.errors import InvalidValueError
from wattstep.schema.failures import Failures

if TYPE_CHECKING:
    from wattstep.insight.observe.evidence import Evidence, Observed
    from wattstep.insight.observe.observation import Observation
    from wattstep.run import Run
    from wattstep.schema.figure import Figure


def chosen_observations(names: Sequence[str]) -> tuple[str, ...]:
    """The observations asked for, in the order of the paper; all where none is.

    Raises:
        InvalidValueError: There is no such observation.
    """
    from wattstep.insight.observe.table import OBSERVATIONS

    unknown = [name for name in names if name not in OBSERVATIONS]
    if unknown:
        raise InvalidValueError(
            f"there is no observation {', '.join(map(repr, unknown))}: choose from 1 to 12, with "
            "commas between them",
            id="unknown-observation",
        )
    return tuple(name for name in OBSERVATIONS if name in names or not names)


def gather(
    run: Run,
    path: str,
    names: Sequence[str] = (),
    state: str = "",
    failures: Failures | None = None,
) -> Observed:
    """Figures of a run that observations need; the run itself is not kept.

    Args:
        run: The run.
        path: Its folder, as it was named.
        names: Observations; none: all.
        state: State of the device that a sweep had set.
        failures: Takes note of what fails inside.

    Raises:
        DamagedRunError: It cannot be read.
    """
    from wattstep.insight.observe.evidence import Observed
    from wattstep.insight.observe.table import OBSERVATIONS

    failures = Failures() if failures is None else failures
    extra: dict[str, Mapping[str, Figure]] = {}
    nothing: Mapping[str, Figure] = {}
    for name in chosen_observations(names):
        measure = OBSERVATIONS[name].measure
        if measure is not None:
            part = f"{path}: what observation {name} measures"
            extra[name] = failures.guard(part, partial(measure, run), nothing)
    flags, counted = run.conditions, run.series.steps.counted
    known = counted.count and not flags.unseen
    return Observed(
        path=path,
        info=run.info,
        metrics=run.metrics,
        extra=extra,
        disturbed=flags.share(counted, "disturbed") if known else None,
        throttled=flags.share(counted, "throttled"),
        state=state,
    )


def observe(
    evidence: Evidence, names: Sequence[str] = (), failures: Failures | None = None
) -> Iterator[Observation]:
    """Each observation, as it is tested; one that fails inside is left out.

    Args:
        evidence: Runs, gathered for these observations.
        names: Observations; none: all.
        failures: Takes note of those that fail.

    Raises:
        InvalidValueError: There is no such observation.
    """
    from wattstep.insight.observe.concluding import conclude
    from wattstep.insight.observe.table import OBSERVATIONS

    failures = Failures() if failures is None else failures
    for name in chosen_observations(names):
        test = partial(conclude, OBSERVATIONS[name], evidence)
        observation = failures.guard(f"observation {name}", test, None)
        if observation is not None:
            yield observation
