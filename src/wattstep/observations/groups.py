"""Runs that may be compared with each other: equal but for the batch size, or but for the model."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wattstep.observations.evidence import Observed
from wattstep.records.figure import Figure
from wattstep.records.run_info import RunInfo

OF_MODEL = ("workload", "classes", "image size", "data")  # may differ between models on one device
NO_RUNS = "no runs were given"
NO_BATCH = "its batch size is not known"


@dataclass(frozen=True, kw_only=True)
class Group:
    """Processes that differ in batch size only.

    Attributes:
        label: The workload, what sets its model apart from others of that name, and a letter for
            its conditions, where there are several ("lenet [A]").
        settings: What all of them share, by name.
        batches: The processes by batch size, the smallest first; key 0: size not known.
    """

    label: str
    settings: Mapping[str, Any]
    batches: Mapping[int, tuple[Observed, ...]]

    @property
    def runs(self) -> tuple[Observed, ...]:
        """All processes."""
        return tuple(run for runs in self.batches.values() for run in runs)

    @property
    def known(self) -> Mapping[int, tuple[Observed, ...]]:
        """Those whose batch size is known."""
        return {batch: runs for batch, runs in self.batches.items() if batch}

    @property
    def site(self) -> tuple[tuple[str, str], ...]:
        """Everything but the model: models may be compared where this is equal."""
        return tuple(
            (name, str(value)) for name, value in self.settings.items() if name not in OF_MODEL
        )

    def figures(self, name: str, batch: int, unit: str) -> list[Figure]:
        """A metric of each process of a batch size."""
        return [run.figure(name, unit) for run in self.batches[batch]]


def settings_of(info: RunInfo, state: str = "") -> dict[str, Any]:
    """What must be equal in runs whose figures stand side by side, batch size apart."""
    device, options = info.device, info.options
    own = device.get("emulated_on") or {}
    return {
        "workload": info.workload,
        "classes": options.get("classes"),
        "image size": options.get("image_size"),
        "data": None if info.data is None else info.data.name,
        "engine": info.engine or None,
        "threads": info.threads,
        "precision": info.precision,
        "processor": info.processor,
        "device": _device(device),
        "on": _device(own) if own else None,
        "power mode": device.get("power_mode"),
        "governors": device.get("governors") or None,
        "state": state or None,
        "target": info.target,
        "accumulate": options.get("accumulate"),
        "power model": (info.power_model or {}).get("name"),
        "idle power subtracted": options.get("subtract_idle"),
        "left out": options.get("exclude") or None,
    }


def _device(device: Mapping[str, Any]) -> str | None:
    names = [device.get(key) for key in ("board", "model", "cpu")]
    words = [str(name) for name in dict.fromkeys(names) if name and name != "unknown machine"]
    cores = device.get("cores")
    words += [f"{cores} cores"] if cores else []
    return ", ".join(words) or None


def groups_of(runs: Sequence[Observed]) -> list[Group]:
    """The groups, in the order of their first runs."""
    found: dict[tuple[tuple[str, str], ...], list[Observed]] = {}
    for run in runs:
        settings = settings_of(run.info, run.state)
        key = tuple((name, repr(value)) for name, value in settings.items())
        found.setdefault(key, []).append(run)
    all_settings = [settings_of(members[0].info, members[0].state) for members in found.values()]
    labels = _labels(all_settings)
    return [
        Group(label=label, settings=settings, batches=_by_batch(members))
        for label, settings, members in zip(labels, all_settings, found.values(), strict=True)
    ]


def conditions_by_letter(runs: Sequence[Observed]) -> dict[str, str]:
    """What the letters behind labels mean; empty where all runs share their conditions."""
    return _letters([settings_of(run.info, run.state) for run in runs])[1]


def _letters(
    settings: Sequence[Mapping[str, Any]],
) -> tuple[dict[tuple[str, ...], str], dict[str, str]]:
    """A letter for each set of conditions that occurs, and what sets it apart from the others."""
    names = [name for name in (settings[0] if settings else ()) if name not in OF_MODEL]
    apart = [name for name in names if len({repr(own[name]) for own in settings}) > 1]
    if not apart:
        return {}, {}
    keys = list(dict.fromkeys(tuple(repr(own[name]) for name in apart) for own in settings))
    letters = {key: _letter(number) for number, key in enumerate(keys)}
    words = {}
    for own in settings:
        letter = letters[tuple(repr(own[name]) for name in apart)]
        words[letter] = ", ".join(told for name in apart if (told := _told(name, own[name])))
    return letters, words


def _letter(number: int) -> str:
    """ "A" to "Z", then "A2" and so on."""
    turn, place = divmod(number, 26)
    return chr(ord("A") + place) + (str(turn + 1) if turn else "")


def _by_batch(runs: Sequence[Observed]) -> dict[int, tuple[Observed, ...]]:
    table: dict[int, list[Observed]] = defaultdict(list)
    for run in runs:
        table[run.info.batch_size or 0].append(run)
    return {batch: tuple(table[batch]) for batch in sorted(table)}


def _labels(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """The workload, what sets its model apart, and the letter of its conditions."""
    letters, _ = _letters(settings)
    names = [name for name in (settings[0] if settings else ()) if name not in OF_MODEL]
    apart = [name for name in names if len({repr(own[name]) for own in settings}) > 1]
    labels = []
    for own in settings:
        rivals = [other for other in settings if other["workload"] == own["workload"]]
        told = [
            _told(name, own[name])
            for name in OF_MODEL[1:]
            if len({repr(other[name]) for other in rivals}) > 1
        ]
        label = own["workload"] + (f" ({', '.join(told)})" if told else "")
        letter = letters.get(tuple(repr(own[name]) for name in apart))
        labels.append(f"{label} [{letter}]" if letter else label)
    return labels


def _told(name: str, value: Any) -> str:
    if value is None:
        return "" if name == "on" else f"no {name}"  # not emulated: nothing to say
    if isinstance(value, Mapping):
        return f"{name} {', '.join(sorted({str(each) for each in value.values()}))}"
    plain = ("device", "target", "engine", "precision", "data", "state")
    return str(value) if name in plain else f"{name} {value}"
