"""The twelve observations of the TX2 paper, each a file, tested on recorded runs."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from wattstep.errors import InvalidValueError
from wattstep.records.failures import Failures

if TYPE_CHECKING:
    from wattstep.observations.evidence import Evidence, Observed
    from wattstep.observations.observation import Observation
    from wattstep.run import Run

# An observation is a function of the evidence in a file of its own; what it needs of a run beside
# the metrics is measured by the file's `measure`, where there is one.
OBSERVATIONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "1": "wattstep.observations.gpu_above_cpu:observe",
        "2": "wattstep.observations.utilization_repeats:observe",
        "3": "wattstep.observations.gpu_utilization_by_batch:observe",
        "4": "wattstep.observations.kinds_of_cores:observe",
        "5": "wattstep.observations.application_domains:observe",
        "6": "wattstep.observations.power_by_part:observe",
        "7": "wattstep.observations.power_repeats:observe",
        "8": "wattstep.observations.energy_by_batch:observe",
        "9": "wattstep.observations.memory_by_batch:observe",
        "10": "wattstep.observations.throughput_by_batch:observe",
        "11": "wattstep.observations.throughput_growth_by_model:observe",
        "12": "wattstep.observations.daily_accuracy:observe",
    }
)


def chosen_observations(names: Sequence[str]) -> tuple[str, ...]:
    """The observations asked for, in the order of the paper; all where none is.

    Raises:
        InvalidValueError: There is no such observation.
    """
    unknown = [name for name in names if name not in OBSERVATIONS]
    if unknown:
        raise InvalidValueError(
            f"there is no observation {', '.join(map(repr, unknown))}: choose from 1 to 12, with "
            "commas between them"
        )
    return tuple(name for name in OBSERVATIONS if name in names or not names)


def gather(
    run: Run,
    path: str,
    names: Sequence[str] = (),
    state: str = "",
    failures: Failures | None = None,
) -> Observed:
    """What observations need of a run; the run itself is not kept.

    Args:
        run: The run.
        path: What it is called.
        names: Observations; none: all.
        state: State of the device that a sweep had set.
        failures: Takes note of what fails inside.

    Raises:
        DamagedRunError: It cannot be read.
    """
    failures = Failures() if failures is None else failures
    from wattstep.observations.evidence import Observed

    extra: dict[str, Any] = {}
    for name in chosen_observations(names):
        measure = getattr(_module(name), "measure", None)
        if measure is not None:
            part = f"{path}: what observation {name} measures"
            extra[name] = failures.guard(part, partial(measure, run), {})
    clean = run.series.steps.clean
    conditions, counted = run.conditions, int(clean.sum())
    known = counted and not conditions.unseen
    return Observed(
        path=path,
        info=run.info,
        metrics=run.metrics(),
        extra=extra,
        disturbed=float((conditions.disturbed & clean).sum() / counted) if known else None,
        throttled=float((conditions.throttled & clean).sum() / counted) if counted else 0.0,
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
    failures = Failures() if failures is None else failures
    for name in chosen_observations(names):
        test = getattr(_module(name), OBSERVATIONS[name].partition(":")[2])
        found = failures.guard(f"observation {name}", partial(test, evidence), None)
        if found is not None:
            yield found


def _module(name: str) -> Any:
    return importlib.import_module(OBSERVATIONS[name].partition(":")[0])
