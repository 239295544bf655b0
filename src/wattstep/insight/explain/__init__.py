"""Explanation of the time and energy of a run: one file a section."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from wattstep.errors import DamagedRunError, InvalidValueError
from wattstep.schema.failures import contained
from wattstep.schema.registry import Registry

if TYPE_CHECKING:
    from wattstep.insight.explain.section import Section
    from wattstep.run import Run
    from wattstep.schema.run_report import RunReport

# A section is a function of a Run in a file of its own; that of advice stands with the advice, which
# builds on the others; other packages' come in by entry points.
SECTIONS: Final = Registry(
    "wattstep.sections",
    {
        "advice": "wattstep.insight.advise.section:advice",
        "below_sampling": "wattstep.insight.explain.below_sampling:below_sampling",
        "steps": "wattstep.insight.explain.steps:steps",
        "variance": "wattstep.insight.explain.variance:variance",
        "roofline": "wattstep.insight.explain.roofline:roofline",
        "gaps": "wattstep.insight.explain.gaps:gaps",
        "critical_path": "wattstep.insight.explain.critical_path:critical_path",
        "bottleneck": "wattstep.insight.explain.bottleneck:bottleneck",
        "gpu": "wattstep.insight.explain.gpu:gpu",
        "processors": "wattstep.insight.explain.processors:processors",
    },
)

NEVER_RECORDED: Final = "the run was never recorded: it has no steps and samples to look at"

# These may look at the other runs that were given.
LOOKING_BESIDE: Final = frozenset({"advice"})


def chosen_sections(names: Sequence[str]) -> tuple[str, ...]:
    """The sections asked for, in the order of the list; all where none is.

    Raises:
        InvalidValueError: There is no such section.
    """
    unknown = [name for name in names if name not in SECTIONS]
    if unknown:
        raise InvalidValueError(
            f"there is no section {', '.join(unknown)}: choose from {', '.join(SECTIONS)}",
            id="unknown-section",
        )
    return tuple(name for name in SECTIONS if name in names or not names)


def explain(run: Run, names: Sequence[str] = (), beside: Sequence[Run] = ()) -> Iterator[Section]:
    """Each section of a run, as it is worked out; one that fails says so, and the next follows.

    Args:
        run: The run.
        names: Sections; none: all.
        beside: Other runs that were given with it.

    Raises:
        InvalidValueError: There is no such section.
        DamagedRunError: A file of the run cannot be read.
    """
    for name in chosen_sections(names):
        try:
            section = _section(name, run, beside)
        except DamagedRunError:
            raise
        except Exception as error:
            section = _failed(name, contained(error))
        yield section


def explain_report(report: RunReport) -> Iterator[Section]:
    """Sections of a run that was never recorded; a line each of what cannot be determined.

    Args:
        report: Report of a predicted, simulated or replayed run.
    """
    from wattstep.insight.explain.costs import costs
    from wattstep.insight.explain.section import Section

    yield costs(report)
    for name in SECTIONS:
        title = name.replace("_", " ").capitalize()
        yield Section(name=name, title=title, reason=NEVER_RECORDED)


def _section(name: str, run: Run, beside: Sequence[Run]) -> Section:
    given = {"beside": beside} if name in LOOKING_BESIDE else {}
    section: Section = SECTIONS.load(name)(run, **given)
    return section


def _failed(name: str, reason: str) -> Section:
    from wattstep.insight.explain.section import Section

    title = name.replace("_", " ").capitalize()
    return Section(name=name, title=title, reason=f"it failed: {reason}", failure=reason)
