"""The facets of configurations, by which a comparison is told which differences are meant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from wattstep.errors import InvalidValueError
from wattstep.schema.configuration import FIELDS, ITS_OWN, Configuration, Rule
from wattstep.schema.configuration import configuration_of as whole_configuration
from wattstep.schema.run_report import RunFacts


def _facets() -> dict[str, str]:
    facets: dict[str, str] = {}
    for field in FIELDS.values():
        if field.facet:
            facets.setdefault(field.facet, field.words)
    return {**facets, "options": "how the workload was built or trained"}


# What may differ between sides where it is said to be meant, and what it is in words.
FACETS: Final[Mapping[str, str]] = MappingProxyType(_facets())
# Settings of the training itself: in one folder of runs they differ because somebody chose so.
CHOSEN: Final = frozenset(field.facet for field in FIELDS.values() if field.chosen)
_SAYS_ITSELF: Final = ("workload", "device", "data", "engine", "options")


def configuration_of(info: RunFacts) -> Configuration:
    """Configuration of a run: processes whose configurations are equal are of one."""
    return whole_configuration(info).limited(Rule.REFUSE)


def facets_of(configuration: Configuration) -> dict[str, str]:
    """The facets in words."""
    values: dict[str, list[str]] = {name: [] for name in FACETS}
    for name, value in configuration.values:
        if value != ITS_OWN:
            facet = FIELDS[name].facet
            values[facet].append(f"{name} {value}" if facet == "options" else value)
    joints = {"workload": " of "}
    return {name: joints.get(name, ", ").join(values[name]) or ITS_OWN for name in FACETS}


def differences(a: Configuration, b: Configuration) -> dict[str, tuple[str, str]]:
    """By facet: what it is of one and of the other, where that is not the same."""
    mine, theirs = facets_of(a), facets_of(b)
    return {name: (mine[name], theirs[name]) for name in FACETS if mine[name] != theirs[name]}


def check_across(names: Sequence[str]) -> frozenset[str]:
    """The facets that may differ.

    Raises:
        InvalidValueError: There is no such facet.
    """
    for name in names:
        if name not in FACETS:
            raise InvalidValueError(
                f"--across {name}: there are {', '.join(FACETS)}", id="unknown-facet"
            )
    return frozenset(names)


def refusal(
    a: Configuration, b: Configuration, across: frozenset[str], names: tuple[str, str]
) -> str | None:
    """Reason why two configurations cannot be compared, with the differences named; None where they can.

    Args:
        a: Of one side.
        b: Of the other.
        across: Facets whose difference is meant.
        names: Of the sides.
    """
    differing = {key: both for key, both in differences(a, b).items() if key not in across}
    if not differing:
        return None
    parts = [f"{FACETS[key]} ({mine} and {theirs})" for key, (mine, theirs) in differing.items()]
    return (
        f"{names[0]} and {names[1]} differ in {'; '.join(parts)}: if that is what is to be "
        f"compared, say --across {','.join(sorted(across | set(differing)))}"
    )


def label(configuration: Configuration, others: Sequence[Configuration]) -> str:
    """Settings that set a configuration apart from others: "batch 16, threads 2"; "" for nothing."""
    telling = {name for other in others for name in differences(configuration, other)}
    return ", ".join(
        value if name in _SAYS_ITSELF else f"{name} {value}"
        for name, value in facets_of(configuration).items()
        if name in telling
    )
