"""Plan of a sweep: the configurations in their order, and how two sweeps differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from itertools import product
from typing import Any, Final

from wattstep import engines
from wattstep.errors import InvalidValueError
from wattstep.schema.outcome import Configuration
from wattstep.schema.settings import option_of
from wattstep.sweep.cooling import check_rule
from wattstep.train.environment.device_state import DeviceState
from wattstep.train.settings import TrainingSettings

# What each configuration sets for itself.
_AXES: Final = ("workload", "batch_size", "threads", "precision", "keeps_diverging", "out")
ONE_ENGINE: Final = ("",)  # that of the settings


@dataclass(frozen=True, kw_only=True)
class SweepPlan:
    """Every combination of these is a configuration, as often as `repeats` says.

    Attributes:
        settings: Settings that all have in common; its workload, batch size, threads and precision do not
            count, nor its engine where there are several.
        devices: Labels of devices in a cluster, or None for this machine.
        states: Of the device; one that says nothing: as it is.
        engines: Frameworks; "": that of the settings.
        memory_limit: In bytes, or None.
        cooldown: "auto", "none" or seconds.
        only: Of devices that take some of the workloads only, which.
        limits: Of devices that have a memory limit of their own, in bytes.
    """

    settings: TrainingSettings
    workloads: tuple[str, ...]
    batches: tuple[int, ...]
    threads: tuple[int | None, ...] = (None,)
    precisions: tuple[str, ...] = ("fp32",)
    devices: tuple[str | None, ...] = (None,)
    states: tuple[DeviceState, ...] = (DeviceState(),)
    engines: tuple[str, ...] = ONE_ENGINE
    repeats: int = 1
    memory_limit: int | None = None
    cooldown: str = "auto"
    only: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    limits: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.repeats < 1:
            raise InvalidValueError(
                f"--repeat {self.repeats}: it must be at least 1", id="out-of-range"
            )
        check_rule(self.cooldown)
        for configuration in self.configurations():
            self.settings_of(configuration, out="")

    def configurations(self) -> Iterator[Configuration]:
        """In the order of running: a round of all, then the next one.

        A machine that grows warmer, or is disturbed for a while, then spoils no configuration
        more than another. Batch sizes ascend, because a larger one need not be tried where a
        smaller one ran out of memory.
        """
        rounds = range(1, self.repeats + 1)
        others = list(
            product(self.workloads, self.threads, self.precisions, self.devices, self.engines)
        )
        # States before the others: each change of a mode takes time.
        for repeat, state, (workload, threads, precision, device, engine), batch in product(
            rounds, self.states, others, sorted(set(self.batches))
        ):
            if workload not in self._workloads_on(device):
                continue
            yield Configuration(
                workload=workload,
                batch_size=batch,
                threads=threads,
                precision=precision,
                repeat=repeat,
                device=device,
                state=state.label,
                engine=engine,
            )

    def settings_of(self, configuration: Configuration, out: str) -> TrainingSettings:
        """The settings of one training.

        Raises:
            InvalidValueError: A setting cannot be used, whatever the workload.
        """
        shared, engine = self.settings, configuration.engine or self.settings.engine
        usual = engines.find(shared.engine).processors[0]
        return replace(
            shared,
            # Each engine's own, where it is that of the first one.
            processor="" if shared.processor == usual else shared.processor,
            workload=configuration.workload,
            batch_size=configuration.batch_size,
            threads=configuration.threads,
            precision=configuration.precision,
            engine=engine,
            keeps_diverging=True,
            canary=self.limit_of(configuration.device) is None,  # which its memory might break
            out=out,
        )

    def limit_of(self, device: str | None) -> int | None:
        """The memory limit on a device in bytes, or None."""
        return self.limits.get(device or "", self.memory_limit)

    @property
    def shared(self) -> dict[str, Any]:
        """Settings that every outcome of one sweep has in common, JSON-ready."""
        common = {key: value for key, value in asdict(self.settings).items() if key not in _AXES}
        return {**common, "memory_limit": self.memory_limit, "cooldown": self.cooldown}

    @property
    def device_limits(self) -> dict[str, int | None]:
        """The memory limit on each device that has a name, JSON-ready."""
        return {name: self.limit_of(name) for name in self.devices if name is not None}

    def _workloads_on(self, device: str | None) -> tuple[str, ...]:
        return self.only.get(device or "", self.workloads)

    @property
    def workloads_of(self) -> dict[str, list[str]]:
        """The workloads that go to each device that has a name, JSON-ready."""
        return {
            device: [name for name in self.workloads if name in self._workloads_on(device)]
            for device in self.devices
            if device is not None
        }

    @property
    def axes(self) -> dict[str, list[Any]]:
        """Axes along which its configurations differ, JSON-ready."""
        return {
            "workloads": list(self.workloads),
            "batches": sorted(set(self.batches)),
            "threads": list(self.threads),
            "precisions": list(self.precisions),
            "devices": list(self.devices),
            "states": [state.label for state in self.states],
            "engines": list(self.engines),
            "repeats": list(range(1, self.repeats + 1)),
        }


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Differences of two sweeps, in the words of the command line.

    A setting that one of them does not know, as it is of an older wattstep, has its default there.
    """
    unset = {
        each.name: each.default for each in fields(TrainingSettings) if each.default is not MISSING
    }
    before, now = {**unset, **before}, {**unset, **now}
    return [
        f"--{option_of(TrainingSettings, key)} was {_text(before.get(key))}, "
        f"now {_text(now.get(key))}"
        for key in dict.fromkeys([*before, *now])
        if before.get(key) != now.get(key)
    ]


def joined(before: Mapping[str, list[Any]], now: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
    """The axes of both, in the order in which they came."""
    return {
        key: list(dict.fromkeys([*before.get(key, ()), *now.get(key, ())]))
        for key in dict.fromkeys([*before, *now])
    }


def _text(value: Any) -> str:
    return "not given" if value is None else str(value)
