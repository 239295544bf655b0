"""Predictions of a training with MNN on a phone's CPU at any batch size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import hypot, inf, log
from typing import Final

import numpy as np

from wattstep.devices.table import Device, Value
from wattstep.predict.cpu.time import CpuTime
from wattstep.predict.life import (
    BESIDE,
    EVALUATION,
    FRAMEWORK,
    RELOADING,
    SAVING,
    STEADY,
    Life,
    life_notes,
)
from wattstep.predict.like import CALIBRATED, Sharing
from wattstep.predict.memory import training_fits
from wattstep.predict.mnn.values import mnn_values
from wattstep.predict.mnn.work import MnnWork, work_of
from wattstep.predict.power import power_of
from wattstep.predict.prediction import Memory, Prediction
from wattstep.predict.search import EACH_CAPTURED, BatchSearch
from wattstep.predict.threads import UNMEASURED, left_of, parallel_share, spread_of
from wattstep.schema.arrays import FloatArray
from wattstep.schema.step_graph import StepFamily, StepGraph

STRANGE_SPREAD: Final = log(2)  # by which work unlike that of the fit may be off
COMMANDS_SPREAD: Final = log(2)  # and commands, which one of the fitted networks alone has many of
FLOOR_SPREAD: Final = log(1.6)
BESIDE_SPREAD: Final = log(2)  # and stages beside the steps
LARGEST_FITTED: Final = 32
OUTSIDE_SPREAD: Final = log(1.25)
WORTH_SAYING: Final = 0.05
THREADS: Final = 4


@dataclass(frozen=True, kw_only=True)
class Resident:
    """Memory of the process in B.

    Attributes:
        floor: Of MNN without a network.
        parameters: Parameters with their gradients and state, and what an update makes of them.
        tensors: All that a step makes.
    """

    floor: float
    parameters: float
    tensors: float

    @property
    def total(self) -> float:
        """Of the process."""
        return self.floor + self.parameters + self.tensors


def resident(work: MnnWork, *, floor: float, copies: float, tensors: float) -> Resident:
    """Memory of a training's process.

    Args:
        work: Of a step.
        floor: Bytes without a network.
        copies: How often the parameters are there with SGD with momentum, the state as one of them.
        tensors: Part of all the tensors of a step that are there in the end.
    """
    return Resident(
        floor=floor,
        parameters=(copies - 1) * work.trained + work.state + work.frozen,
        tensors=tensors * float(work.tensors.sum()),
    )


def operation_seconds(
    work: MnnWork,
    graph: StepGraph,
    *,
    flop: float,
    byte: float,
    command: float,
    copies: float,
) -> FloatArray:
    """Time of each operation in s, shape (n,).

    Args:
        work: Of a step.
        graph: Of the step.
        flop: Seconds of a floating-point operation.
        byte: Seconds of a byte of the tensors that are made, those of the update included.
        command: Seconds of a command beside its work.
        copies: As of `resident`: tensors that an update makes of the parameters.
    """
    made = work.tensors.copy()
    updating = np.array([phase == "optimizer" for phase in graph.phases])
    if updating.any():
        made[updating] += copies * work.trained / updating.sum()
    seconds: FloatArray = work.flops * flop + made * byte + work.commands * command
    return seconds


class MnnPredictor(BatchSearch):
    """Predicts one training with MNN on one device's CPU, with four threads (see `with_threads`).

    Args:
        captured: Its step at any batch size.
        device: Where it would train.
        precision: Of the training.
        mode: Power mode, as `mnn_values` takes it.

    Raises:
        InvalidValueError: The device's values do not reach.
    """

    processor = "cpu"
    threads: int = THREADS

    def __init__(
        self,
        captured: StepFamily,
        device: Device,
        *,
        precision: str = "fp32",
        mode: str | None = None,
    ) -> None:
        self._device = device
        self.fitted = mnn_values(device, precision, mode)
        super().__init__(captured, self.fitted.device, precision)
        self._works: dict[int, tuple[StepGraph, MnnWork]] = {}

    def in_mode(self, mode: str | None) -> MnnPredictor:
        """As `Predictor.in_mode`."""
        other = MnnPredictor(self.captured, self._device, precision=self.precision, mode=mode)
        other._works = self._works
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
        graph, work = self._work(batch_size)
        seconds = self._seconds(graph, work)
        used = self._resident(work)
        time = CpuTime(total=float(seconds.sum()), operations=seconds, between=0.0)
        bandwidth = self.device.memory.bandwidth
        cores = self._cores
        load = {"cpu": cores}
        if bandwidth is not None:  # each tensor is written and read
            moved = 2 * (used.tensors + used.parameters)
            load["memory"] = min(1.0, moved / bandwidth.value / time.total)
        strange = self._strange(work, seconds)
        notes = [*fitted.notes, *graph.notes]
        if strange > WORTH_SAYING:
            notes.append(
                f"{100 * strange:.0f} % of the step is in operations that no value was fitted to (normalization, "
                "depthwise convolutions and the like): intervals are wider by an estimated factor"
            )
        if batch_size > LARGEST_FITTED:
            notes.append(
                f"batch {batch_size:,} is beyond those that values were fitted to (1 to {LARGEST_FITTED}): intervals are "
                "wider by an estimated factor"
            )
        if self.threads != THREADS:
            notes.append(UNMEASURED.format(number=self.threads, share=100 * self._share.value))
        life = self.life(batch_size)
        notes += life_notes(life, fitted.usable.value)
        if self.captures_each:
            notes.append(EACH_CAPTURED)
        prediction = Prediction(
            device=fitted.device,
            engine=fitted.engine,
            precision=self.precision,
            batch_size=batch_size,
            graph=graph,
            time=time,
            operation_seconds=seconds,
            memory=Memory(
                allocated=used.parameters + used.tensors,
                reserved=used.parameters + used.tensors,
                used=used.total,
                usable=fitted.usable.value,
                floor=fitted.floor,
            ),
            fits_with=self.fits_with(batch_size),
            power=power_of(self.device.power, load),
            load=load,
            reach=self._reach(batch_size, work, seconds),
            within=strange <= WORTH_SAYING and batch_size <= LARGEST_FITTED,
            fitted=fitted.fitted,
            notes=tuple(notes),
            processor="cpu",
            life=life,
            life_reach=dict.fromkeys(BESIDE, BESIDE_SPREAD),
        )
        return self._corrected(prediction)

    def life(self, batch_size: int) -> Life:
        """Resident memory of the process in B by stage of its life; of no other stage than steps was any measured.

        An evaluation makes the tensors of a forward pass. A file is put together, and read, as a whole.
        """
        graph, work = self._work(batch_size)
        used, memory = self._resident(work), self.fitted.values["memory"]
        forward = np.array([phase == "forward" for phase in graph.phases])
        made = memory["tensors"] * float(work.tensors[forward].sum())
        model = work.trained + work.frozen
        return {
            FRAMEWORK: used.floor,
            STEADY: used.total,
            EVALUATION: used.floor + used.parameters + made,
            SAVING: used.total + model,
            RELOADING: used.floor + 2 * model + work.state,
        }

    def fits_with(self, batch_size: int, times: float = 1.0) -> float:
        """As `BatchSearch.fits_with`: the process in steady steps."""
        fitted, size = self.fitted, self.device.memory.size
        graph, work = self._work(batch_size)
        reach = self._reach(batch_size, work, self._seconds(graph, work))
        corrected = self.correction("system", batch_size, reach["system"])
        return training_fits(
            times * self._resident(work).total * corrected.factor,
            corrected.reach,
            usable=fitted.usable,
            most=inf if size is None else size.value,
            floor=fitted.floor,
            stays=0.0,
        )

    def _work(self, batch_size: int) -> tuple[StepGraph, MnnWork]:
        if batch_size not in self._works:
            graph = self.captured.at(batch_size)
            self._works[batch_size] = graph, work_of(graph)
        return self._works[batch_size]

    def _resident(self, work: MnnWork) -> Resident:
        memory = self.fitted.values["memory"]
        return resident(
            work,
            floor=self.fitted.floor.value,
            copies=memory["copies"],
            tensors=memory["tensors"],
        )

    def _seconds(self, graph: StepGraph, work: MnnWork) -> FloatArray:
        step = self.fitted.values["step"]
        left = left_of(self._share.value, self._faster)
        return left * operation_seconds(
            work,
            graph,
            flop=step["second_per_flop"],
            byte=step["second_per_byte"],
            command=step["command_s"],
            copies=self.fitted.values["memory"]["copies"],
        )

    @property
    def _share(self) -> Value:
        return parallel_share(self.device, self.fitted.engine)

    @property
    def _rates(self) -> list[float]:
        """Of the cores, the fastest first: threads take these."""
        cpus = [each for each in self.device.processors.values() if each.kind == "cpu"]
        return sorted(
            (each.peak["fp32"].value / each.cores for each in cpus for _ in range(each.cores)),
            reverse=True,
        )

    @property
    def _faster(self) -> float:
        """How many times as fast its cores are as those of the threads that values are of."""
        return sum(self._rates[: self.threads]) / sum(self._rates[:THREADS])

    @property
    def _cores(self) -> float:
        """Part of the CPU's full load that the threads make."""
        return sum(self._rates[: self.threads]) / sum(self._rates)

    def _strange(self, work: MnnWork, seconds: FloatArray) -> float:
        return float(seconds[work.strange].sum() / seconds.sum())

    def _reach(self, batch_size: int, work: MnnWork, seconds: FloatArray) -> dict[str, float]:
        """Half of the 90 % intervals, as logarithms, with what is unlike the trainings of the fit."""
        reach = dict(self.fitted.reach)
        outside = OUTSIDE_SPREAD if batch_size > LARGEST_FITTED else 0.0
        commands = float(work.commands.sum()) * self.fitted.values["step"]["command_s"]
        reach["step_time"] = hypot(
            reach["step_time"],
            spread_of(self._share, self._faster),
            STRANGE_SPREAD * self._strange(work, seconds),
            COMMANDS_SPREAD * commands / float(seconds.sum()),
            outside,
        )
        used = self._resident(work)
        strange = float(work.tensors[work.strange].sum()) / used.total
        for name in ("allocated", "reserved", "system"):
            floor = used.floor / used.total if name == "system" else 0.0
            reach[name] = hypot(
                reach[name], STRANGE_SPREAD * strange, FLOOR_SPREAD * floor, outside
            )
        return reach
