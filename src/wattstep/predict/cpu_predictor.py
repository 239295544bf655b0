"""Predictions of a training on a CPU at any batch size: memory of its process, time of its step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import hypot, inf, log
from typing import Final

from wattstep.devices.modes import in_mode
from wattstep.devices.table import Device
from wattstep.errors import InvalidValueError
from wattstep.predict.cpu.engine_memory import memory_amounts
from wattstep.predict.cpu.measured import UNKNOWN, beyond_measured, is_known, unmeasured_shares
from wattstep.predict.cpu.memory import Growth, lasting, least_growth, replay
from wattstep.predict.cpu.time import CpuTime, CpuWork, step_time, work_of
from wattstep.predict.cpu.values import cpu_values
from wattstep.predict.familiar import notes_beyond, reach_beyond
from wattstep.predict.life import (
    EVALUATION,
    FIRST,
    FRAMEWORK,
    PREPARED,
    RELOADING,
    SAVING,
    STEADY,
    Life,
    held_of,
    life_notes,
)
from wattstep.predict.like import CALIBRATED, Sharing
from wattstep.predict.memory import training_fits
from wattstep.predict.offload import offload_notes
from wattstep.predict.power import power_of
from wattstep.predict.prediction import Memory, Prediction
from wattstep.predict.search import EACH_CAPTURED, BatchSearch
from wattstep.predict.threads import UNMEASURED, left_of, parallel_share, spread_of
from wattstep.schema.step_graph import StepFamily, StepGraph

# By which stages beside the steps may be off more than these: what seven trainings were off, which nothing was
# fitted to (docs/predict-here.md). What is there while it saves depends on what an evaluation left.
THREADS_SPREAD: Final = log(1.05)  # of memory with more threads, which nobody measured
LIFE_REACH: Final = {EVALUATION: log(1.36), SAVING: log(1.18), RELOADING: log(1.05)}


class CpuPredictor(BatchSearch):
    """Predicts one training on one device's CPU, with one thread (see `with_threads`).

    Args:
        captured: Its step at any batch size.
        device: Where it would train; calibrated.
        engine: Framework, as `cpu_values` takes it.
        precision: Of the training.
        mode: Power mode of the device; None: the one that its file is of.

    Raises:
        InvalidValueError: The device's values do not reach, or it has no such mode.
    """

    processor = "cpu"
    threads: int = 1

    def __init__(
        self,
        captured: StepFamily,
        device: Device,
        *,
        engine: str | None = None,
        precision: str = "fp32",
        mode: str | None = None,
    ) -> None:
        super().__init__(captured, device if mode is None else in_mode(device, mode), precision)
        self._device, self._engine = device, engine
        self.fitted = cpu_values(self.device, engine, precision)
        self._replayed: dict[int, Growth] = {}  # by batch size, below 0 of evaluations
        self._graphs: dict[int, StepGraph] = {}  # by batch size

    def in_mode(self, mode: str | None) -> CpuPredictor:
        """As `Predictor.in_mode`."""
        other = CpuPredictor(
            self.captured, self._device, engine=self._engine, precision=self.precision, mode=mode
        )
        other._replayed, other._graphs = self._replayed, self._graphs
        return other

    @property
    def sharing(self) -> Mapping[str, Sharing]:
        """As `BatchSearch.sharing`."""
        return CALIBRATED

    @property
    def reach_of_device(self) -> Mapping[str, float]:
        """As `BatchSearch.reach_of_device`."""
        return self.fitted.reach

    def at(self, batch_size: int) -> Prediction:
        """As `BatchSearch.at`."""
        self.check_batch(batch_size)
        fitted = self.fitted
        graph = self._graph(batch_size)
        work, time = self.timed(graph, self._growth(batch_size).fresh)
        shares = unmeasured_shares(graph, work, time, fitted.values)
        outside = beyond_measured(work, time, batch_size, fitted.values)
        unlike = notes_beyond(shares, outside)
        reach = reach_beyond(fitted.reach, shares, outside)
        share = parallel_share(fitted.device, fitted.engine)
        if self.threads > 1:
            reach["step_time"] = hypot(reach["step_time"], spread_of(share, self.threads))
            reach["system"] = hypot(reach["system"], THREADS_SPREAD)
        life = self.life(batch_size)
        notes = [
            *fitted.notes,
            *([] if is_known(fitted.values) else [UNKNOWN]),
            *graph.notes,
            *offload_notes(graph, fitted.device),
            *unlike,
            *self._unknown(graph),
        ]
        notes += life_notes(life, fitted.usable.value)
        if self.threads > 1 and share.basis == "estimate":
            notes.append(UNMEASURED.format(number=self.threads, share=100 * share.value))
        if self.captures_each:
            notes.append(EACH_CAPTURED)
        bandwidth = fitted.cpu.bandwidth or self.device.memory.bandwidth
        load = {"cpu": min(1.0, self.threads / max(1, fitted.cpu.cores))}
        if bandwidth is not None:
            beyond = float(work.features[:, 3].sum())
            load["memory"] = min(1.0, beyond / bandwidth.value / time.total)
        prediction = Prediction(
            device=fitted.device,
            engine=fitted.engine,
            precision=self.precision,
            batch_size=batch_size,
            graph=graph,
            time=time,
            operation_seconds=time.operations,
            memory=self._memory(batch_size),
            fits_with=self.fits_with(batch_size),
            power=power_of(fitted.device.power, load),
            load=load,
            reach=reach,
            within=not unlike,
            fitted=fitted.fitted,
            notes=tuple(notes),
            processor="cpu",
            life=life,
            life_reach=LIFE_REACH,
        )
        return self._corrected(prediction)

    def timed(self, graph: StepGraph, fresh: float) -> tuple[CpuWork, CpuTime]:
        """Work and time of a step, within which the system gives so many bytes of pages."""
        fitted = self.fitted
        if fitted.exported:  # its batches lie in memory
            graph = replace(graph, data_known=False)
        cache = fitted.values["step"]["cache"]
        work = work_of(graph, cache=cache, threads=self.threads, filled=fitted.filled)
        share = parallel_share(fitted.device, fitted.engine)
        left = left_of(share.value, self.threads)
        return work, step_time(work, graph, fitted.values, fresh=fresh, left=left)

    def _forget(self) -> None:
        self._replayed = {}

    def life(self, batch_size: int) -> Life:
        """Resident memory of the process in B by stage of its life: the most within it.

        What steps leave in the heap is there in an evaluation, too, and while it saves; reloading is
        in a process that made steps, with a new model.
        """
        if not self.fitted.of_torch:
            return dict(self.life_of_steps(batch_size))
        graph, steps = self._graph(batch_size), self._after(batch_size)
        held, growth = held_of(graph), self._growth(batch_size)
        evaluated = self._evaluation(batch_size)
        return {
            **self.life_of_steps(batch_size),
            EVALUATION: None
            if evaluated is None
            else steps + max(growth.stays, held.state + evaluated.first),
            SAVING: steps + growth.stays,
            RELOADING: steps + held.checkpoint,
        }

    def _after(self, batch_size: int) -> float:
        """Resident once steps were made, but for what these left in the heap."""
        graph = self._graph(batch_size)
        return self._prepared(graph) + self.fitted.values["memory"]["steps"]

    def _evaluation(self, batch_size: int) -> Growth | None:
        """What the forward pass of an evaluation adds."""
        size = self.captured.small.evaluation_batch or batch_size
        if -size not in self._replayed:
            try:
                graph = self.captured.evaluation_at(size)
            except InvalidValueError:  # of a capture
                graph = None
            if graph is None:
                return None
            threshold = int(self.fitted.values["memory"]["threshold"])
            self._replayed[-size] = replay(graph, threshold=threshold, threads=self.threads)
        return self._replayed[-size]

    def life_of_steps(self, batch_size: int) -> dict[str, float]:
        """As `life`, of the stages that every training has."""
        return self._with_growth(batch_size, self._growth(batch_size))

    def _with_growth(self, batch_size: int, growth: Growth) -> dict[str, float]:
        floor = self.fitted.floor.value
        if not self.fitted.of_torch:
            memory = self.fitted.values["memory"]
            amounts = memory_amounts(self._graph(batch_size), growth, exported=self.fitted.exported)
            return {FRAMEWORK: floor, STEADY: floor + amounts.of(memory)}
        steps = self._after(batch_size)
        return {
            FRAMEWORK: floor,
            PREPARED: self._prepared(self._graph(batch_size)),
            FIRST: steps + growth.first,
            STEADY: steps + growth.steady,
        }

    def _graph(self, batch_size: int) -> StepGraph:
        if batch_size not in self._graphs:
            self._graphs[batch_size] = self.captured.at(batch_size)
        return self._graphs[batch_size]

    def _growth(self, batch_size: int) -> Growth:
        if batch_size not in self._replayed:
            threshold = int(self.fitted.values["memory"]["threshold"])
            self._replayed[batch_size] = replay(
                self._graph(batch_size), threshold=threshold, threads=self.threads
            )
        return self._replayed[batch_size]

    def _prepared(self, graph: StepGraph) -> float:
        """Resident before the first step: the framework, what preparing loads, tensors that stay."""
        libraries = self.fitted.libraries
        loaded = sum(libraries.get(name, 0.0) for name in graph.libraries)
        tensors = sum(size for _, size in lasting(graph))
        return (
            self.fitted.floor.value + self.fitted.values["memory"]["preparation"] + loaded + tensors
        )

    def _unknown(self, graph: StepGraph) -> list[str]:
        missing = sorted(set(graph.libraries) - set(self.fitted.libraries))
        if not missing or self.fitted.exported:
            return []
        return [
            f"memory of {', '.join(missing)} is not known on {self.device.name}: it is left out"
        ]

    def _memory(self, batch_size: int) -> Memory:
        fitted, growth = self.fitted, self._growth(batch_size)
        tensors = sum(size for _, size in lasting(self._graph(batch_size)))
        return Memory(
            allocated=tensors + growth.allocated,
            reserved=tensors + growth.steady,
            used=self.life_of_steps(batch_size)[STEADY],
            usable=fitted.usable.value,
            floor=fitted.floor,
        )

    def fits_with(self, batch_size: int, times: float = 1.0) -> float:
        """As `BatchSearch.fits_with`: the process, at the most of its life."""
        return self._fits(batch_size, self._growth(batch_size), times)

    def fits_at_most(self, batch_size: int) -> float:
        """As `BatchSearch.fits_at_most`, by tensors alone: nothing is replayed."""
        return self._fits(batch_size, least_growth(self._graph(batch_size)))

    def _fits(self, batch_size: int, growth: Growth, times: float = 1.0) -> float:
        most = times * max(self._with_growth(batch_size, growth).values())
        fitted, size = self.fitted, self.device.memory.size
        corrected = self.correction("system", batch_size, fitted.reach["system"])
        return training_fits(
            most * corrected.factor,
            corrected.reach,
            usable=fitted.usable,
            most=inf if size is None else size.value,
            floor=fitted.floor,
            stays=0.0,
        )
