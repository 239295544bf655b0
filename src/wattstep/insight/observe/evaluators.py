"""Evaluators of observations: in every configuration, from the smallest batch to the largest, or between models."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from wattstep.insight.observe.deciding import ANYWHERE, Part, Region
from wattstep.insight.observe.estimates import Estimate, as_figure, difference, of_processes
from wattstep.insight.observe.evidence import Evidence, Observed, Reader
from wattstep.insight.observe.groups import Group, configurations_of, groups_of
from wattstep.insight.observe.growth import Ends, ends_of
from wattstep.insight.observe.observation import Case, Cases
from wattstep.schema.figure import Missing

Reason = Callable[[Sequence[Observed]], str | None]
Make = Callable[[Group], Case]


@dataclass(frozen=True, kw_only=True)
class Number:
    """A number of a case, and where it has to lie.

    Attributes:
        name: Of its figure.
        words: Name of the number in plain words.
        read: Of a run.
        region: Where it has to lie.
        between: Standard deviation that processes are taken to have where there is one only.
        power: True for the power of the batch with which what is read grows, not its change.
        unit: Of its figure.
        logarithm: True if ratios of it count.
        within: Where it cannot lie beyond.
        needed: As of `Part`.
        left_open: As of `Part`.
    """

    name: str
    read: Reader
    words: str = ""
    region: Region = ANYWHERE
    between: float = 0.0
    power: bool = False
    unit: str = "ratio"
    logarithm: bool = False
    within: tuple[float, float] = (-math.inf, math.inf)
    needed: bool = True
    left_open: bool = False

    def of(self, runs: Sequence[Observed]) -> Estimate | Missing:
        """Over processes of one configuration."""
        return of_processes(
            [self.read(run) for run in runs],
            logarithm=self.logarithm, within=self.within, between=self.between,
        )  # fmt: skip

    def part(self, estimate: Estimate | Missing) -> Part:
        """Part of a case, with its estimate."""
        return Part(
            name=self.name, words=self.words, estimate=estimate, region=self.region, unit=self.unit,
            needed=self.needed, left_open=self.left_open,
        )  # fmt: skip


def in_each_configuration(
    make: Make, needs: Sequence[Reason] = (), remarks: Sequence[Reason] = ()
) -> Cases:
    """A case for each configuration, batch size included.

    Args:
        make: Makes it.
        needs: Why runs cannot be tested, the first that has something to say.
        remarks: Notes for the reader.
    """
    return lambda evidence: [
        _case(group, make, needs, remarks) for group in configurations_of(evidence.runs)
    ]


def in_each_model(
    make: Make, needs: Sequence[Reason] = (), remarks: Sequence[Reason] = ()
) -> Cases:
    """A case for each group of runs that differ in batch size only; arguments likewise."""
    return lambda evidence: [
        _case(group, make, needs, remarks) for group in groups_of(evidence.runs)
    ]


def _case(group: Group, make: Make, needs: Sequence[Reason], remarks: Sequence[Reason]) -> Case:
    if reason := _lacking(group, needs):
        return Case(label=group.label, runs=group.runs, reason=reason)
    case = make(group)
    notes = tuple(note for remark in remarks if (note := remark(group.runs)))
    return replace(case, notes=(*case.notes, *notes))


def _lacking(group: Group, needs: Sequence[Reason]) -> str | None:
    """Reason why a group cannot be tested, by the first need that has something to say."""
    return next(filter(None, (need(group.runs) for need in needs)), None)


# --- 1: numbers that hold in every configuration ----------------------------------------------------


def held(*numbers: Number, shown: Sequence[Number] = ()) -> Make:
    """Each number over the processes of a configuration; `shown` decide nothing."""

    def make(group: Group) -> Case:
        parts = tuple(number.part(number.of(group.runs)) for number in numbers)
        unknown = [part.estimate for part in parts if part.left_open and not part.testable]
        return Case(
            label=group.label, parts=parts, runs=group.runs, batches=group.words,
            figures={each.name: as_figure(each.of(group.runs), each.unit) for each in shown},
            notes=tuple(f"{group.label}: {reason}" for reason in unknown),
        )  # fmt: skip

    return make


# --- 2: from the smallest batch to the largest ------------------------------------------------------


def grows(*numbers: Number, falls: str = "") -> Make:
    """Each number from the smallest batch size of a group to the largest.

    Args:
        numbers: Changes, or powers of the batch; of a power the ratio is shown, too ("growth").
        falls: Quantity of the first number, where falls between neighbouring batch sizes are told.
    """

    def make(group: Group) -> Case:
        ends_or_reasons = [
            ends_of(group, each.read, logarithm=each.power, between=each.between)
            for each in numbers
        ]
        known = [ends for ends in ends_or_reasons if isinstance(ends, Ends)]
        return Case(
            label=group.label, runs=group.runs, batches=known[0].batches if known else "",
            parts=tuple(map(_grown, numbers, ends_or_reasons)),
            figures={"growth": known[0].change.figure()} if known and numbers[0].power else {},
            notes=tuple(_falls(group, known[0], falls)) if known and falls else (),
        )  # fmt: skip

    return make


def _grown(number: Number, ends: Ends | Missing) -> Part:
    if isinstance(ends, Missing):
        return number.part(ends)
    return number.part(ends.exponent if number.power else ends.change)


def _falls(group: Group, ends: Ends, what: str) -> list[str]:
    return [
        f"{group.label}: {what} falls from batch {small} to {large}, to {ratio.value:.3g} of what it was"
        for small, large, ratio in ends.falls()
    ]


# --- 3: between models under equal conditions -------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Member:
    """Member of a set of estimates that are compared with each other.

    Attributes:
        label: Its name.
        kind: Of what; only those of different kinds are compared.
        value: Its number, or why it has none.
        runs: Runs that the number rests on.
        batches: Batch sizes in words.
    """

    label: str
    kind: str
    value: Estimate | Missing
    runs: tuple[Observed, ...]
    batches: str


Members = Callable[[Sequence[Group]], Sequence[Member]]


def by_setup(groups: Sequence[Group]) -> list[list[Group]]:
    """Groups by the conditions that they were trained under."""
    groups_by_setup: dict[tuple[tuple[str, str], ...], list[Group]] = {}
    for group in groups:
        groups_by_setup.setdefault(group.setup, []).append(group)
    return list(groups_by_setup.values())


def differ(
    members: Members, number: Number, alone: Callable[[Sequence[Group]], str],
    needs: Sequence[Reason] = (), grouping: Callable[[Sequence[Observed]], list[Group]] = groups_of,
) -> Cases:  # fmt: skip
    """A case for each pair of members of different kinds under equal conditions.

    Args:
        members: Of the groups of one setup.
        number: Their difference, the second less the first.
        alone: Reason why a setup has no such pair.
        needs: Why a group cannot be tested, the first that has something to say.
        grouping: Makes groups of runs.
    """

    def cases(evidence: Evidence) -> list[Case]:
        groups = [(group, _lacking(group, needs)) for group in grouping(evidence.runs)]
        setups = by_setup([group for group, lacking in groups if not lacking])
        return [case for setup in setups for case in _of_setup(setup)] + [
            Case(label=group.label, runs=group.runs, reason=lacking)
            for group, lacking in groups
            if lacking
        ]

    def _of_setup(groups: Sequence[Group]) -> list[Case]:
        pairs = [_pair(a, b) for a, b in combinations(members(groups), 2) if a.kind != b.kind]
        label, runs = "; ".join(g.label for g in groups), tuple(r for g in groups for r in g.runs)
        return pairs or [Case(label=label, runs=runs, reason=alone(groups))]

    def _pair(a: Member, b: Member) -> Case:
        values = [each.value for each in (a, b)]
        reasons = [value for value in values if isinstance(value, Missing)]
        known = [value for value in values if isinstance(value, Estimate)]
        return Case(
            label=f"{a.label}, {b.label}", members=(a.label, b.label), runs=a.runs + b.runs,
            parts=(number.part(reasons[0] if reasons else difference(*known)),), batches=a.batches,
            figures={} if reasons else {
                name: value.figure() for name, value in zip(("first", "second"), known, strict=True)
            },
        )  # fmt: skip

    return cases


def at_shared_batch(number: Number, kind: Callable[[Observed], str]) -> Members:
    """Configurations at the batch size that most of a setup share, of several the largest."""

    def members(groups: Sequence[Group]) -> list[Member]:
        counts = Counter(batch for group in groups for batch in group.batches)
        batch = max(counts, key=lambda size: (counts[size], size))
        return [
            Member(
                label=f"{group.name} ({kind(group.runs[0])})", kind=kind(group.runs[0]),
                value=number.of(group.runs), runs=group.runs, batches=group.words,
            )
            for group in groups
            if batch in group.batches
        ]  # fmt: skip

    return members


def over_shared_range(number: Number) -> Members:
    """Models with the power by which they grow between the two batch sizes that most of them share.

    Of several such pairs of sizes it is that which lies furthest apart.
    """

    def members(groups: Sequence[Group]) -> list[Member]:
        known = {
            group.label: ends
            for group in groups
            if isinstance(
                ends := ends_of(group, number.read, logarithm=True, between=number.between), Ends
            )
        }
        counts = Counter(pair for ends in known.values() for pair in combinations(ends.by_batch, 2))
        shared = {pair: count for pair, count in counts.items() if count > 1}
        if not shared:
            return []
        sizes = max(shared, key=lambda pair: (shared[pair], pair[1] / pair[0], pair))
        return [
            Member(
                label=group.label, kind=group.settings["workload"], runs=group.runs,
                value=own.between(*sizes).exponent, batches=own.between(*sizes).batches,
            )
            for group in groups
            if (own := known.get(group.label)) and set(sizes) <= set(own.by_batch)
        ]  # fmt: skip

    return members
