"""Where time and energy of a run go, and why: one file a section."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from wattstep.errors import DamagedRunError, InvalidValueError
from wattstep.records.failures import contained

if TYPE_CHECKING:
    from wattstep.explaining.section import Section
    from wattstep.run import Run

# A section is a function of a Run in a file of its own.
SECTIONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "below_sampling": "wattstep.explaining.below_sampling:below_sampling",
        "steps": "wattstep.explaining.steps:steps",
        "variance": "wattstep.explaining.variance:variance",
        "roofline": "wattstep.explaining.roofline:roofline",
        "gaps": "wattstep.explaining.gaps:gaps",
        "critical_path": "wattstep.explaining.critical_path:critical_path",
        "gpu": "wattstep.explaining.gpu:gpu",
        "processors": "wattstep.explaining.processors:processors",
        "advice": "wattstep.explaining.advice:advice",
    }
)

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
            f"there is no section {', '.join(unknown)}: choose from {', '.join(SECTIONS)}"
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
            found = _section(name, run, beside)
        except DamagedRunError:
            raise
        except Exception as error:
            found = _failed(name, contained(error))
        yield found


def _section(name: str, run: Run, beside: Sequence[Run]) -> Section:
    module, _, function = SECTIONS[name].partition(":")
    given = {"beside": beside} if name in LOOKING_BESIDE else {}
    found: Section = getattr(importlib.import_module(module), function)(run, **given)
    return found


def _failed(name: str, reason: str) -> Section:
    from wattstep.explaining.section import Section

    title = name.replace("_", " ").capitalize()
    return Section(name=name, title=title, reason=f"it failed: {reason}", failure=reason)
