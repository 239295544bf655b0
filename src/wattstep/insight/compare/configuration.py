"""The facets of configurations, by which a comparison is told which differences are meant."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
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
SAYS_ITSELF: Final = ("workload", "device", "data", "engine")


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
    unlike = {name: (mine[name], theirs[name]) for name in FACETS if mine[name] != theirs[name]}
    if "options" in unlike:  # of many settings those that differ
        unlike["options"] = (_options(a, b), _options(b, a))
    return unlike


def _options(one: Configuration, other: Configuration) -> str:
    """The settings of building and training that differ from those of another, as they are here."""
    values = (
        (name, value)
        for name, value in one.values
        if FIELDS[name].facet == "options" and value != other[name]
    )
    return ", ".join(
        f"no {name}" if value == ITS_OWN else f"{name} {value}" for name, value in values
    )


def check_across(names: Sequence[str], option: str = "--across") -> frozenset[str]:
    """The facets that may differ, or that are compared.

    Args:
        names: Of facets.
        option: Which gave them.

    Raises:
        InvalidValueError: There is no such facet.
    """
    for name in names:
        if name not in FACETS:
            raise InvalidValueError(
                f"{option} {name}: there are {', '.join(FACETS)}", id="unknown-facet"
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
    return f"{names[0]} and {names[1]} differ in {'; '.join(parts)}{_meant(across, differing)}"


def refusal_of(pairs: str, facets: Collection[str], across: frozenset[str]) -> str:
    """The same of several pairs, which differ in the same facets, by whatever values."""
    words = ", ".join(FACETS[facet] for facet in facets)
    return f"{pairs} differ in {words}{_meant(across, facets)}"


def _meant(across: frozenset[str], facets: Collection[str]) -> str:
    option = ",".join(sorted(across | set(facets)))
    return f": if that is what is to be compared, say --across {option}"


def label(configuration: Configuration, others: Sequence[Configuration]) -> str:
    """Settings that set a configuration apart from others: "batch 16, threads 2"; "" for nothing.

    What goes with a network, its data among that, sets it apart from the same network only.
    """
    akin = [other for other in others if other["workload"] == configuration["workload"]]
    parts = []
    for name, value in configuration.values:
        field = FIELDS[name]
        beside = akin if field.of_model and name != "workload" else others
        if value != ITS_OWN and any(other[name] != value for other in beside):
            parts.append(value if field.facet in SAYS_ITSELF else f"{name} {value}")
    return ", ".join(parts)
