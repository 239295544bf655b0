"""Predictions of a training on a device at any batch size, from its captured step."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from math import hypot, inf, log
from typing import Final

import numpy as np

from wattstep.devices.modes import in_mode
from wattstep.devices.table import Device
from wattstep.errors import InvalidValueError
from wattstep.predict.data import SPREAD, DataWork, data_work, host_seconds
from wattstep.predict.familiar import (
    Strange,
    kernel_ranges,
    notes_beyond,
    out_of_range,
    reach_beyond,
    strange_kernels,
    strange_shares,
)
from wattstep.predict.fitted import TENSOR_EFFICIENCY, Fitted, fitted_values
from wattstep.predict.life import (
    BESIDE,
    EVALUATION,
    FRAMEWORK,
    PREPARED,
    RELOADING,
    SAVING,
    STEADY,
    Held,
    Life,
    held_of,
    life_notes,
)
from wattstep.predict.like import BORROWED, OF_KIND, Sharing
from wattstep.predict.memory import (
    Reserved,
    evaluation_reserved,
    has_products,
    replay,
    system_memory,
    training_fits,
)
from wattstep.predict.offload import offload_notes
from wattstep.predict.power import arithmetic, power_of
from wattstep.predict.prediction import Memory, Prediction
from wattstep.predict.search import EACH_CAPTURED, BatchSearch
from wattstep.predict.time import StepTime, Values, step_time
from wattstep.predict.work import Work, work_of
from wattstep.schema.step_graph import StepFamily

BESIDE_SPREAD: Final = log(
    1.25
)  # by which stages beside the steps may be off more, which nobody measured
NO_ATTENTION: Final = "torch 1.6 has no attention that does without its scores: its memory and time are more than this"
BUSY_CORES: Final = 1.5  # of the host: it starts kernels, or spins while it waits for them


class _Step:
    """What of a prediction at one batch size no power mode and no device changes, each part once it is asked for.

    Args:
        captured: The step at any batch size.
        batch_size: Of it.
        fitted: Values of a device whose `element` and `gradients_stay` it is of.
    """

    def __init__(self, captured: StepFamily, batch_size: int, fitted: Fitted) -> None:
        self._captured, self._batch_size, self._fitted = captured, batch_size, fitted
        self.graph = captured.at(batch_size)
        self._strange: dict[tuple[tuple[float, float], ...], Strange] = {}

    def strange(self, values: Values) -> Strange:
        """Which of its kernels are like none of the fit that values are of."""
        ranges = kernel_ranges(values)
        if ranges not in self._strange:
            self._strange[ranges] = strange_kernels(self.graph, self.work, ranges)
        return self._strange[ranges]

    @cached_property
    def work(self) -> Work:
        """Its kernels."""
        fitted = self._fitted
        return work_of(self.graph, element=fitted.element, gradients_stay=fitted.gradients_stay)

    @cached_property
    def data(self) -> DataWork:
        """What its host does for a batch."""
        return data_work(self.graph)

    @cached_property
    def outside(self) -> list[str]:
        """What of it is out of the range of the fit."""
        return out_of_range(self.graph)

    @cached_property
    def reserved(self) -> Reserved:
        """Its memory."""
        return replay(self.graph, gradients_stay=self._fitted.gradients_stay)

    @cached_property
    def held(self) -> Held:
        """What it finds there."""
        return held_of(self.graph)

    @cached_property
    def evaluation(self) -> float | None:
        """Bytes that an evaluation reserves; None where it is not known."""
        try:
            forward = self._captured.evaluation_at(
                self._captured.small.evaluation_batch or self._batch_size
            )
        except InvalidValueError:  # of a capture
            return None
        if forward is None:
            return None
        return evaluation_reserved(forward, self.graph, gradients_stay=self._fitted.gradients_stay)


class Predictor(BatchSearch):
    """Predicts one training on one device.

    Args:
        captured: Its step at any batch size.
        device: Where it would train.
        engine: Framework, as the device's file names it; None: the one that its values are of.
        precision: Of the training.
        mode: Power mode of the device; None: its fastest, or the one that its file is of.

    Raises:
        InvalidValueError: The device's values do not reach, or it has no such mode.
    """

    processor = "cuda"
    threads = None

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
        self.fitted = fitted_values(self.device, engine, precision)
        self._steps: dict[tuple[int, bool, int], _Step] = {}

    def in_mode(self, mode: str | None) -> Predictor:
        """The same in another power mode of the device, which changes no work and no memory: these are found once.

        Raises:
            InvalidValueError: It has no such mode.
        """
        other = Predictor(
            self.captured, self._device, engine=self._engine, precision=self.precision, mode=mode
        )
        other.share(self)
        return other

    def share(self, other: Predictor) -> None:
        """Work and memory of steps are found once for this and another predictor of the same captured step."""
        assert other.captured is self.captured
        self._steps = other._steps

    @cached_property
    def _products(self) -> bool:
        return has_products(self.captured.small)

    @property
    def sharing(self) -> Mapping[str, Sharing]:
        """As `BatchSearch.sharing`."""
        return OF_KIND if self.fitted.checked else BORROWED

    @property
    def reach_of_device(self) -> Mapping[str, float]:
        """As `BatchSearch.reach_of_device`."""
        return self.fitted.reach

    def at(self, batch_size: int) -> Prediction:
        """As `BatchSearch.at`."""
        self.check_batch(batch_size)
        fitted = self.fitted
        step = self._step(batch_size)
        graph, work, outside = step.graph, step.work, step.outside
        time, life = self._timed(work), self.life(batch_size)
        shares = strange_shares(step.strange(fitted.values), time)
        start = fitted.values["step"]["forward_start_s"]
        data = host_seconds(step.data, fitted.device, start_s=start)
        beyond = notes_beyond(shares, outside)
        reach = reach_beyond(fitted.reach, shares, outside)
        reach["step_time"] = hypot(reach["step_time"], SPREAD * data / (time.total + data))
        notes = [*fitted.notes, *graph.notes, *offload_notes(graph, fitted.device), *beyond]
        notes += life_notes(life, fitted.usable.value)
        if fitted.gradients_stay and "attention" in graph.kinds:
            notes.append(NO_ATTENTION)
        if self.captures_each:
            notes.append(EACH_CAPTURED)
        seconds = np.asarray(np.bincount(work.operations, time.kernels, graph.count), float)
        moved = float((work.traffic + work.weights).sum())
        arithmetic_peak = max(fitted.peak, fitted.tensor / TENSOR_EFFICIENCY)
        cores = (
            sum(each.cores for each in fitted.device.processors.values() if each.kind == "cpu") or 4
        )
        time = time.with_data(data)
        load = {
            "gpu": time.device / time.total,
            "memory": min(1.0, moved / fitted.bandwidth / time.total),
            "arithmetic": min(1.0, arithmetic(work) / arithmetic_peak / time.total),
            "cpu": min(1.0, BUSY_CORES / cores),
        }
        prediction = Prediction(
            device=fitted.device,
            engine=fitted.engine,
            precision=self.precision,
            batch_size=batch_size,
            graph=graph,
            time=time,
            operation_seconds=seconds,
            memory=self._memory(batch_size),
            fits_with=self._fits(batch_size, step.reserved.reserved, reach["reserved"]),
            power=power_of(fitted.device.power, load),
            load=load,
            reach=reach,
            within=not beyond,
            fitted=fitted.fitted,
            notes=tuple(notes),
            life=life,
            life_reach=dict.fromkeys(BESIDE, BESIDE_SPREAD),
            reading=data,
        )
        return self._corrected(prediction)

    def life(self, batch_size: int) -> Life:
        """Memory in use by the system in B, less the idle one's, by stage of a training's life.

        Segments that steps reserved stay. A checkpoint passes the host's memory, which counts where the
        GPU shares it: tensor by tensor when it is saved, as a whole when it is read.
        """
        step, steps = self._step(batch_size), self._memory(batch_size)
        held, evaluation = step.held, step.evaluation
        shared = float(self.device.memory.unified)
        evaluated = None
        if evaluation is not None:
            evaluated = self._used(max(steps.reserved, evaluation))
        return {
            FRAMEWORK: self.fitted.floor.value,
            PREPARED: self._used(held.model),
            STEADY: steps.used,
            EVALUATION: evaluated,
            SAVING: self._used(steps.reserved, host=shared * held.largest),
            RELOADING: self._used(held.checkpoint, host=shared * held.checkpoint),
        }

    def _used(self, reserved: float, *, host: float = 0.0) -> float:
        """In use by the system with so many bytes of segments, and so many that the host needs beside the framework."""
        fitted = self.fitted
        return system_memory(
            reserved + host,
            fitted.values["memory"],
            floor=fitted.floor.value + host,
            products=self._products,
            usable=fitted.usable.value,
        )

    def _step(self, batch_size: int) -> _Step:
        fitted = self.fitted
        key = fitted.element, fitted.gradients_stay, batch_size
        if key not in self._steps:
            self._steps[key] = _Step(self.captured, batch_size, fitted)
        return self._steps[key]

    def _timed(self, work: Work) -> StepTime:
        fitted = self.fitted
        return step_time(
            work,
            fitted.values,
            peak=fitted.peak,
            bandwidth=fitted.bandwidth,
            tensor=fitted.tensor,
        )

    def _reach(self, batch_size: int) -> float:
        """Of the reserved memory."""
        step = self._step(batch_size)
        if step.outside:  # as wide as it gets, whatever its operations are
            return reach_beyond(self.fitted.reach, {}, step.outside)["reserved"]
        strange = step.strange(self.fitted.values)
        shares = strange_shares(strange, self._timed(step.work))
        return reach_beyond(self.fitted.reach, shares, step.outside)["reserved"]

    def _memory(self, batch_size: int) -> Memory:
        fitted, reserved = self.fitted, self._step(batch_size).reserved
        used = self._used(reserved.reserved)
        return Memory(
            allocated=float(reserved.allocated),
            reserved=float(reserved.reserved),
            used=used,
            usable=fitted.usable.value,
            floor=fitted.floor,
            used_by=self._used,
        )

    def fits_with(self, batch_size: int, times: float = 1.0) -> float:
        """As `BatchSearch.fits_with`."""
        reserved = times * self._step(batch_size).reserved.reserved
        return self._fits(batch_size, reserved, self._reach(batch_size))

    def _fits(self, batch_size: int, reserved: float, reach: float) -> float:
        fitted, size = self.fitted, self.device.memory.size
        corrected = self.correction("reserved", batch_size, reach)
        return training_fits(
            reserved * corrected.factor,
            corrected.reach,
            usable=fitted.usable,
            most=inf if size is None else size.value,
            floor=fitted.floor,
            stays=fitted.values["memory"]["stays"],
        )
