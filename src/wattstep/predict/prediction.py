"""A prediction: one training step at one batch size on one device, and the report that it makes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import exp, hypot, isinf, log
from typing import Any, Final

from wattstep.devices.table import Device, Value
from wattstep.predict.cpu.time import CpuTime
from wattstep.predict.data import READING, UNTOLD
from wattstep.predict.fitted import widened
from wattstep.predict.life import FRAMEWORK, Life, held_of, times_of
from wattstep.predict.like import Correction
from wattstep.predict.power import Ranged
from wattstep.predict.thermal import Heat, heat_of
from wattstep.predict.time import StepTime
from wattstep.schema.arrays import FloatArray
from wattstep.schema.figure import Figure, Missing, Status, counted, missing
from wattstep.schema.figures import Figures, Metrics
from wattstep.schema.report_rows import CostRow
from wattstep.schema.run_documents import TrainingOptions
from wattstep.schema.run_report import RunReport
from wattstep.schema.step_graph import StepGraph
from wattstep.schema.tokens import energy_per_token, tokens_per_second

CONFIDENCE: Final = 0.9
EXACT: Final = ("parameters", "buffers", "optimizer_state")  # whose bytes the network itself says
HOST: Final = "waiting for the host"
BETWEEN: Final = "new pages, and between operations"
STAGE_UNKNOWN: Final = "the forward pass of an evaluation was not captured"
POWER_UNKNOWN: Final = "the device's file does not say what its parts draw"
SURE: Final = 0.98


@dataclass(frozen=True, kw_only=True)
class Memory:
    """Memory of a training in B.

    Attributes:
        allocated: Tensors and workspaces of libraries at their peak.
        reserved: Segments of the framework's allocator.
        used: In use by the system beyond idle; more than `usable`: what it would take, were there no end to it.
        usable: What there is of that.
        floor: Of a training without tensors, with its range.
        used_by: What is in use with other segments of the allocator; None: they are no part of it.
    """

    allocated: float
    reserved: float
    used: float
    usable: float
    floor: Value
    used_by: Callable[[float], float] | None = field(default=None, compare=False)


@dataclass(frozen=True, kw_only=True, eq=False)
class Prediction:
    """What a step will cost.

    Attributes:
        device: Where.
        engine: Framework, as the device's file names it.
        precision: Of the training.
        batch_size: Samples of one forward pass.
        graph: Its operations at this batch size.
        time: What they take.
        operation_seconds: On the device, by operation of `graph`, in s.
        memory: What it takes.
        fits_with: Probability that memory suffices.
        power: In all and by part, in W; None: not known.
        load: Of each part, 0 to 1.
        reach: Half of 90 % intervals by quantity, as logarithms.
        within: Whether it is like the trainings that values were fitted to.
        fitted: Where the values behind it were fitted.
        notes: What a reader must know.
        processor: On which it trains, "cuda" or "cpu".
        corrected_by: Recorded runs that corrected it, in words; "": none did.
        life: Most memory in B, counted as `system_memory` is, in each stage of a training's life; None: not known.
        reading: Time of the data phase in s that is in no operation of `graph`.
        life_reach: What stages may be off by more than steps, as logarithms.
    """

    device: Device
    engine: str
    precision: str
    batch_size: int
    graph: StepGraph
    time: StepTime | CpuTime
    operation_seconds: FloatArray
    memory: Memory
    fits_with: float
    power: tuple[Ranged, dict[str, Ranged]] | None
    load: Mapping[str, float]
    reach: Mapping[str, float]
    within: bool
    fitted: str
    notes: tuple[str, ...] = ()
    processor: str = "cuda"
    corrected_by: str = ""
    life: Life = field(default_factory=dict)
    life_reach: Mapping[str, float] = field(default_factory=dict)
    reading: float = 0.0

    def with_data(self, seconds: float) -> Prediction:
        """With so much more time of reading and preparing data; what it draws then is taken to be the same."""
        if not seconds:
            known = self.graph.data_known or self.reading
            return self if known else replace(self, notes=(*self.notes, UNTOLD))
        return replace(self, time=self.time.with_data(seconds), reading=self.reading + seconds)

    def corrected(
        self, corrections: Mapping[str, Correction], by: str, notes: tuple[str, ...]
    ) -> Prediction:
        """With what recorded trainings say, by quantity; whether it fits stays as it is.

        Args:
            corrections: By "step_time", "reserved" and "system" (memory), "power".
            by: Recorded runs, in words.
            notes: What a reader must know of them.
        """
        factors = {name: each.factor for name, each in corrections.items()}
        longer, memory, power = factors.get("step_time", 1.0), self.memory, self.power
        reserved = memory.reserved * factors.get("reserved", 1.0)
        used = memory.used * factors.get("system", 1.0)
        if memory.used_by is not None:
            used = memory.used_by(reserved)
        if power is not None and "power" in corrections:
            total, parts = power
            narrower = 2 * corrections["power"].reach / log(total.high / total.low)
            times = factors["power"]
            power = (
                total.corrected(times, narrower),
                {name: part.corrected(times, 1.0) for name, part in parts.items()},
            )
        reach = {name: each.reach for name, each in corrections.items() if name in self.reach}
        return replace(
            self,
            time=self.time.scaled(longer),
            operation_seconds=longer * self.operation_seconds,
            reading=longer * self.reading,
            memory=replace(memory, reserved=reserved, used=used),
            power=power,
            reach={**self.reach, **reach},
            notes=(*self.notes, *notes),
            corrected_by=by,
            life={
                stage: size if size is None or stage == FRAMEWORK else size * used / memory.used
                for stage, size in self.life.items()
            },
        )

    # --- figures -------------------------------------------------------------------------------

    @property
    def samples(self) -> int:
        """Of a step: of all batches whose gradients are added up."""
        return self.batch_size * self.graph.accumulate

    def fits(self, probability: float = SURE) -> bool:
        """True if memory suffices with at least this probability."""
        return self.fits_with >= probability

    @property
    def shortage(self) -> str:
        """That it does not train there, in words; "" where it rather fits."""
        if self.fits(0.5):
            return ""
        return (
            f"batch {self.batch_size:,} does not train on {self.device.name}: memory runs out "
            f"({100 * self.fits_with:.0f} % that it fits); time and energy are what they would be with more"
        )

    @property
    def step_time(self) -> Figure:
        """Of a step, in s."""
        return self._figure(self.time.total, "s", "step_time", "kernels' roofline and launches")

    @property
    def phase_times(self) -> dict[str, Figure]:
        """Operations of each phase and what is in none, in s, as in `report`: together the step."""
        phases = {row.phase: row.figures["time"] for row in self._rows(("phase",))}
        return phases | {name: costs["time"] for name, costs in self._unattributed.items()}

    @property
    def throughput(self) -> Figure:
        """Samples a second."""
        return self._figure(
            self.samples / self.time.total, "samples/s", "step_time", "from the step time"
        )

    @property
    def system_memory(self) -> Figure:
        """In use by the whole system, less the idle one's, in B: what it would take, were there no end to it.

        On a CPU resident in the process, which is the same but for pages that others have, too.
        """
        memory = self.memory
        low, high = widened(memory.used, self.reach["system"])
        if memory.used <= memory.floor.value:  # the floor decides, and is as sure as its range
            low, high = min(low, memory.floor.low), max(high, memory.floor.high)
        return Figure(
            value=memory.used, unit="B", low=low, high=high, confidence=CONFIDENCE,
            status=Status.PREDICTED, source=self._source, method="allocator replayed, libraries and floor added",
        )  # fmt: skip

    @property
    def allocated_memory(self) -> Figure:
        """Of tensors and workspaces on the device, in B."""
        return self._figure(
            self.memory.allocated, "B", "allocated", "storages of the captured step"
        )

    @property
    def reserved_memory(self) -> Figure:
        """Of the framework's allocator, in B."""
        return self._figure(self.memory.reserved, "B", "reserved", "allocator replayed")

    @property
    def memory_breakdown(self) -> dict[str, Figure]:
        """What the allocator's memory is for, at the peak of the tensors: bytes by category.

        "allocator": workspaces of libraries, and what lies between tensors and segments.
        """
        peak = int(self.graph.levels().argmax())
        sizes = {name: size for name, size in self.graph.by_category(peak).items() if size}
        sizes["allocator"] = max(0.0, self.memory.reserved - sum(sizes.values()))
        return {
            name: counted(size, "B", "captured step")
            if name in EXACT
            else self._figure(size, "B", "reserved", "captured step, allocator replayed")
            for name, size in sizes.items()
        }

    @property
    def memory_by_stage(self) -> dict[str, Figure]:
        """Most memory in each stage of a training's life, in B: of the process, or counted as `system_memory` is."""
        figures = {}
        floor = self.memory.floor
        for stage, size in self.life.items():
            if size is None:
                figures[stage] = missing("B", STAGE_UNKNOWN)
                continue
            low, high = widened(size, hypot(self.reach["system"], self.life_reach.get(stage, 0.0)))
            if stage == FRAMEWORK:  # as sure as it was measured
                low, high = floor.low, floor.high
            elif size <= floor.value:
                low, high = min(low, floor.low), max(high, floor.high)
            figures[stage] = Figure(
                value=size, unit="B", low=low, high=high, confidence=CONFIDENCE,
                status=Status.PREDICTED, source=self._source, method="allocator replayed step by step",
            )  # fmt: skip
        return figures

    @property
    def time_by_stage(self) -> dict[str, Figure]:
        """Time in s of what is no step: loading the framework, saving, reloading; only what the device's file tells."""
        return {
            stage: Figure(
                value=value.value, unit="s", low=value.low, high=value.high, confidence=CONFIDENCE,
                status=Status.PREDICTED, source=self._source, method=f"{value.basis} of the device: {value.source}",
            )
            for stage, value in times_of(self.device, self.engine, held_of(self.graph)).items()
        }  # fmt: skip

    @property
    def mean_power(self) -> Figure:
        """During a step, in W, as the device counts its total."""
        if self.power is None:
            return missing("W", POWER_UNKNOWN)
        total, _ = self.power
        return Figure(
            value=total.value, unit="W", low=total.low, high=total.high, confidence=CONFIDENCE,
            status=Status.PREDICTED, source=self._source, method="idle and dynamic power of each part by its load",
        )  # fmt: skip

    @property
    def energy_per_step(self) -> Figure:
        """In J."""
        if self.power is None:
            return missing("J", POWER_UNKNOWN)
        total, _ = self.power
        # Logarithms of power and time are taken to miss independently.
        value = total.value * self.time.total
        down = exp(-((log(total.value / total.low) ** 2 + self.reach["step_time"] ** 2) ** 0.5))
        up = exp((log(total.high / total.value) ** 2 + self.reach["step_time"] ** 2) ** 0.5)
        return Figure(
            value=value, unit="J", low=value * down, high=value * up, confidence=CONFIDENCE,
            status=Status.PREDICTED, source=self._source, method="mean power over the step time",
        )  # fmt: skip

    @cached_property
    def heat(self) -> Heat:
        """Of a training that lasts."""
        if self.power is None:
            why = Missing(POWER_UNKNOWN)
            return Heat(steady=why, to_limit=why, slowdown=why, throttles=0.0)
        return heat_of(self.device, self.power[0], self.load.get("memory", 0.0))

    @property
    def steady_temperature(self) -> Figure:
        """Of the hottest sensor in °C, in the end of a training that lasts; throttling holds it at the limit."""
        return self._lasting(self.heat.steady, "°C")

    @property
    def time_to_throttle(self) -> Figure:
        """From the beginning on the idle device, in s; missing where it never does."""
        return self._lasting(self.heat.to_limit, "s")

    @property
    def sustained_step_time(self) -> Figure:
        """Of a step in s, once the device is as warm as it gets: as long as `step_time`, or throttled."""
        slowdown = self.heat.slowdown
        if isinstance(slowdown, Missing):
            return missing("s", slowdown)
        step = self.step_time
        assert step.low is not None
        assert step.high is not None
        total = self.time.total
        # Logarithms of step time and slowdown are taken to miss independently.
        down = hypot(log(total / step.low), log(slowdown.value / slowdown.low))
        up = hypot(log(step.high / total), log(slowdown.high / slowdown.value))
        value = total * slowdown.value
        return Figure(
            value=value, unit="s", low=value * exp(-down), high=value * exp(up), confidence=CONFIDENCE,
            status=Status.PREDICTED, source=self._source, method="clocks at which power suits the limit",
        )  # fmt: skip

    @property
    def samples_per_battery(self) -> Figure:
        """Samples that a full battery trains."""
        battery, energy = self.device.battery, self.energy_per_step
        if battery is None or battery.capacity is None:
            return missing(
                "samples", f"{self.device.name} has no battery, or its file does not say"
            )
        if energy.value is None or energy.low is None or energy.high is None:
            return missing("samples", POWER_UNKNOWN)
        full = battery.capacity
        value = self.samples * full.value / energy.value
        down = hypot(log(energy.high / energy.value), log(full.value / full.low))
        up = hypot(log(energy.value / energy.low), log(full.high / full.value))
        return Figure(
            value=value, unit="samples", low=value * exp(-down), high=value * exp(up), confidence=CONFIDENCE,
            status=Status.PREDICTED, source=self._source, method="capacity over the energy of a sample",
        )  # fmt: skip

    def _lasting(self, ranged: Ranged | Missing, unit: str) -> Figure:
        if isinstance(ranged, Missing):
            return missing(unit, ranged)
        return Figure(
            value=ranged.value, unit=unit, low=ranged.low, high=None if isinf(ranged.high) else ranged.high,
            confidence=CONFIDENCE, status=Status.PREDICTED, source=self._source,
            method="one thermal resistance and capacity, 2,000 draws from the ranges of the device's values",
        )  # fmt: skip

    @property
    def _source(self) -> str:
        source = f"model of {self.device.name} with {self.engine}"
        return f"{source}, {self.corrected_by}" if self.corrected_by else source

    def _figure(self, value: float, unit: str, quantity: str, method: str) -> Figure:
        low, high = widened(value, self.reach[quantity])
        return Figure(
            value=value, unit=unit, low=low, high=high, confidence=CONFIDENCE,
            status=Status.PREDICTED, source=self._source, method=method,
        )  # fmt: skip

    # --- the report ----------------------------------------------------------------------------

    def report(
        self,
        *,
        workload: str,
        title: str = "",
        tokens_per_sample: int | None = None,
        options: TrainingOptions | None = None,
    ) -> RunReport:
        """The report of a run that never took place.

        Args:
            workload: Its name.
            title: In words.
            tokens_per_sample: Of a workload whose samples are sequences of tokens.
            options: How it trains, as a run has them.
        """
        energy = self.energy_per_step
        per_sample = energy if energy.missing else energy.scaled(1 / self.samples, "J")
        metrics = Metrics(
            {
                "step_time": self.step_time,
                "throughput": self.throughput,
                "energy_per_step": energy,
                "energy_per_sample": per_sample,
                "mean_power": self.mean_power,
                "steady_temperature": self.steady_temperature,
                "time_to_throttle": self.time_to_throttle,
                "peak_memory": self.system_memory,
                **({} if self.processor == "cpu" else {"device_peak_memory": self.reserved_memory}),
                "memory_breakdown": self.memory_breakdown,
                **({"memory_by_stage": self.memory_by_stage} if self.life else {}),
                **({"time_by_stage": self.time_by_stage} if self.time_by_stage else {}),
            }
        )
        if tokens_per_sample:
            metrics = Metrics(
                {
                    **metrics,
                    "tokens_per_second": tokens_per_second(self.throughput, tokens_per_sample),
                    "energy_per_token": energy_per_token(per_sample, tokens_per_sample),
                }
            )
        moves = [kind == "data movement" for kind in self.graph.kinds]
        moved = self._costs(float(self.operation_seconds[moves].sum()))["share"]
        metrics = Metrics({**metrics, "data_movement_share": moved})
        return RunReport(
            run=f"{workload}-batch-{self.batch_size}-on-{self.device.name}",
            workload=workload,
            title=title or workload,
            engine=self.engine,
            batch_size=self.batch_size,
            precision=self.precision,
            processor=self.processor,
            device={"model": self.device.title},
            target=f"predicted:{self.device.name}",
            notes=(
                f"no such run took place: every figure is predicted, from values fitted to {self.fitted}",
                *filter(None, [self.shortage]),
                *self.notes,
            ),
            model=self.graph.counts,
            options={"accumulate": self.graph.accumulate, **(options or {})},
            metrics=metrics,
            operations=self._rows(("name", "layer", "phase", "kind")),
            layers=self._rows(("layer",)),
            phases=self._rows(("phase",)),
            kinds=self._rows(("kind",)),
            unattributed=self._unattributed,
        )

    @property
    def _unattributed(self) -> dict[str, Figures]:
        """Costs of what is in no operation."""
        waits = max(0.0, self.time.total - self.reading - float(self.operation_seconds.sum()))
        costs = {HOST if self.processor != "cpu" else BETWEEN: Figures(self._costs(waits))}
        if self.reading:
            costs[READING] = Figures(self._costs(self.reading))
        return costs

    def _rows(self, labels: tuple[str, ...]) -> tuple[CostRow, ...]:
        """Costs of operations that have these labels in common, the largest first."""
        columns: Mapping[str, tuple[str, ...]] = {
            "name": self.graph.names, "layer": self.graph.layers,
            "phase": self.graph.phases, "kind": self.graph.kinds,
        }  # fmt: skip
        sums: dict[tuple[str, ...], list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0, 0.0])
        chosen = [columns[label] for label in labels]
        moved = self.graph.read_bytes + self.graph.written_bytes
        for i in self.operation_seconds.nonzero()[0]:
            row = sums[tuple(column[i] for column in chosen)]
            for place, amount in enumerate(
                (1.0, self.operation_seconds[i], self.graph.flops[i], moved[i])
            ):
                row[place] += float(amount)
        ordered = sorted(sums.items(), key=lambda item: -item[1][1])
        return tuple(
            CostRow(
                labels={**dict(zip(labels, key, strict=True)), "processor": self.processor},
                figures=Figures(self._costs(seconds, calls=calls, flops=flops, moved=size)),
            )
            for key, (calls, seconds, flops, size) in ordered
        )

    def _costs(
        self, seconds: float, *, calls: float = 0.0, flops: float = 0.0, moved: float = 0.0
    ) -> dict[str, Any]:
        share = seconds / self.time.total

        method = "its kernels' part of the step"
        part = self._figure(share, "ratio", "step_time", method)
        assert part.high is not None
        costs: dict[str, Any] = {
            "time": self._figure(seconds, "s", "step_time", method),
            "share": replace(part, high=min(1.0, part.high)),
        }
        for name, amount, unit in (
            ("calls", calls, ""),
            ("flops", flops, ""),
            ("bytes", moved, "B"),
        ):
            if amount:
                costs[name] = counted(amount, unit, "captured step")
        if self.power is not None:
            costs["energy"] = replace(self.energy_per_step.scaled(share, "J"), method=method)
        return costs
