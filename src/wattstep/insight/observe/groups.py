"""Runs that may be compared with each other: equal but for the batch size, or but for the model."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from wattstep.insight.observe.evidence import Observed
from wattstep.schema.configuration import FIELDS, ITS_OWN, NOT_TOLD, Rule, configuration_of
from wattstep.schema.figure import Figure

# What may differ between models on one device.
OF_MODEL = tuple(name for name, field in FIELDS.items() if field.of_model)
SAYS_ITSELF = frozenset(
    ("device", "clocks", "target", "engine", "precision", "data", "state", "parameters")
)
NO_RUNS = "no runs were given"
NO_BATCH = "its batch size is not known"


Setup = tuple[tuple[str, str], ...]  # what is shared beside the model, names and values


@dataclass(frozen=True, kw_only=True)
class Group:
    """Processes that differ in batch size only, or in nothing.

    Attributes:
        name: The workload, what sets its model apart from others of that name, and a letter for
            its conditions, where there are several ("lenet [A]").
        settings: Settings that all of them share, by name.
        batches: The processes by batch size, the smallest first; key 0: size not known.
        at: The batch size, where it is one configuration; 0: any, or not known.
    """

    name: str
    settings: Mapping[str, str]
    batches: Mapping[int, tuple[Observed, ...]]
    at: int = 0

    @property
    def label(self) -> str:
        """The name, with the batch size of a configuration."""
        return f"{self.name} at batch {self.at}" if self.at else self.name

    @property
    def words(self) -> str:
        """The batch size of a configuration."""
        return str(self.at) if self.at else ""

    @property
    def runs(self) -> tuple[Observed, ...]:
        """All processes."""
        return tuple(run for runs in self.batches.values() for run in runs)

    @property
    def known(self) -> Mapping[int, tuple[Observed, ...]]:
        """Those whose batch size is known."""
        return {batch: runs for batch, runs in self.batches.items() if batch}

    @property
    def setup(self) -> Setup:
        """Everything but the model: models may be compared where this is equal."""
        return _setup(self.settings)

    def figures(self, name: str, batch: int, unit: str) -> list[Figure]:
        """A metric of each process of a batch size."""
        return [run.figure(name, unit) for run in self.batches[batch]]


def settings_of(run: Observed) -> dict[str, str]:
    """Settings that must be equal in runs whose figures stand side by side, batch size apart."""
    alike = configuration_of(run.info, run.state).limited(Rule.REFUSE, Rule.ENERGY)
    return {name: value for name, value in alike.named_values if name != "batch"}


def groups_of(runs: Sequence[Observed]) -> list[Group]:
    """The groups, in the order of their first runs."""
    groups: dict[tuple[tuple[str, str], ...], list[Observed]] = {}
    for run in runs:
        groups.setdefault(tuple(settings_of(run).items()), []).append(run)
    all_settings = [settings_of(members[0]) for members in groups.values()]
    labels = _labels(all_settings)
    return [
        Group(name=label, settings=settings, batches=_by_batch(members))
        for label, settings, members in zip(labels, all_settings, groups.values(), strict=True)
    ]


def configurations_of(runs: Sequence[Observed]) -> list[Group]:
    """Processes that are equal in everything, in the order of groups and batch sizes."""
    return [
        replace(group, batches={batch: own}, at=batch)
        for group in groups_of(runs)
        for batch, own in group.batches.items()
    ]


def settings_by_letter(runs: Sequence[Observed]) -> dict[str, str]:
    """Meaning of the letters behind labels; empty where all runs share their settings."""
    letters = _letters([settings_of(run) for run in runs])
    setups = [dict(setup) for setup in letters]
    return {letter: ", ".join(_apart(dict(setup), setups)) for setup, letter in letters.items()}


def _setup(settings: Mapping[str, str]) -> Setup:
    return tuple((name, value) for name, value in settings.items() if name not in OF_MODEL)


def _letters(settings: Sequence[Mapping[str, str]]) -> dict[Setup, str]:
    """A letter for each set of conditions that occurs; none where there is one."""
    setups = dict.fromkeys(map(_setup, settings))
    return {setup: _letter(n) for n, setup in enumerate(setups)} if len(setups) > 1 else {}


def _apart(own: Mapping[str, str], others: Sequence[Mapping[str, str]]) -> list[str]:
    """In words, what is not the same in all others."""
    different = {name for other in others for name in own if other.get(name) != own[name]}
    return [text for name in own if name in different and (text := _setting_words(name, own[name]))]


def _letter(number: int) -> str:
    """ "A" to "Z", then "A2" and so on."""
    round_, index = divmod(number, 26)
    return chr(ord("A") + index) + (str(round_ + 1) if round_ else "")


def _by_batch(runs: Sequence[Observed]) -> dict[int, tuple[Observed, ...]]:
    table: dict[int, list[Observed]] = defaultdict(list)
    for run in runs:
        table[run.info.batch_size or 0].append(run)
    return {batch: tuple(table[batch]) for batch in sorted(table)}


def _labels(settings: Sequence[Mapping[str, str]]) -> list[str]:
    """The workload, what sets its model apart, and the letter of its conditions."""
    letters, labels = _letters(settings), []
    for own in settings:
        rivals = [other for other in settings if other["workload"] == own["workload"]]
        variant = ", ".join(_apart({name: own[name] for name in OF_MODEL[1:]}, rivals))
        letter = letters.get(_setup(own))
        labels.append(
            own["workload"]
            + (f" ({variant})" if variant else "")
            + (f" [{letter}]" if letter else "")
        )
    return labels


def _setting_words(name: str, value: str) -> str:
    if value == ITS_OWN:
        return ""
    return value if name in SAYS_ITSELF and value != NOT_TOLD else f"{name} {value}"
