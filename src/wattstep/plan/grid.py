"""A study of very many configurations: every batch size by every accumulation on several devices, on one machine or many."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Final

import numpy as np

from wattstep.devices.table import Device
from wattstep.errors import InvalidValueError
from wattstep.predict import predictor_for
from wattstep.schema.arrays import FloatArray, IntArray
from wattstep.schema.step_graph import StepFamily

CHUNK: Final = 16  # batch sizes of a piece of work
COLUMNS: Final = ("batch", "accumulate", "step_time", "energy_per_step", "memory", "fits_with")
# The step with one batch, and with two whose gradients are added up.
Families = tuple[StepFamily, StepFamily]


@dataclass(frozen=True, kw_only=True)
class Cell:
    """What a configuration has beside its batch.

    Attributes:
        device: Name.
        mode: Power mode; None: the one that the device's file is of.
        variant: Name of how it is trained, e.g. "checkpointing".
    """

    device: str
    mode: str | None
    variant: str


@dataclass(frozen=True, kw_only=True)
class StudyGrid:
    """What is studied: all of it with all of it.

    Attributes:
        families: The captured step by variant.
        devices: With all their power modes.
        batches: Samples of a forward pass.
        accumulates: Batches of an update.
        engine: Framework, as the devices' files name it; None: the one that their values are of.
        precision: Of the training.
    """

    families: Mapping[str, Families]
    devices: Sequence[Device]
    batches: Sequence[int]
    accumulates: Sequence[int]
    engine: str | None = None
    precision: str = "fp32"

    @property
    def cells(self) -> tuple[Cell, ...]:
        """Devices, modes and variants."""
        return tuple(
            Cell(device=device.name, mode=mode, variant=variant)
            for variant, device in product(self.families, self.devices)
            for mode in _modes(device)
        )

    @property
    def count(self) -> int:
        """Number of configurations."""
        return len(self.cells) * len(self.batches) * len(self.accumulates)


@dataclass(frozen=True, kw_only=True, eq=False)
class Study:
    """Costs of configurations, a row each; all are predicted.

    Attributes:
        cells: Devices, modes and variants.
        cell: Place in `cells`, shape (n,) as all that follow.
        batch: Samples of a forward pass.
        accumulate: Batches of an update.
        step_time: Of an update, in s.
        energy_per_step: In J; NaN where the device's power is not known.
        memory: In use, in B.
        fits_with: Probability that memory suffices.
    """

    cells: tuple[Cell, ...]
    cell: IntArray
    batch: IntArray
    accumulate: IntArray
    step_time: FloatArray
    energy_per_step: FloatArray
    memory: FloatArray
    fits_with: FloatArray

    @property
    def count(self) -> int:
        """Number of configurations."""
        return len(self.cell)


def study(
    grid: StudyGrid,
    client: Any = None,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> Study:
    """Predicts every configuration of a grid.

    Each batch is predicted once for each device, mode and variant; accumulations follow from one batch and
    two, as in a plan.

    Args:
        grid: What is studied.
        client: Of a Dask cluster, whose workers have wattstep; None: here.
        on_progress: Told how many pieces of work are done, and of how many.

    Raises:
        InvalidValueError: The grid is empty, a device's values do not reach, or a step cannot be sent to workers.
    """
    if not grid.count or min(*grid.batches, *grid.accumulates) < 1:
        raise InvalidValueError(
            "a study needs devices, and batches and accumulations from 1 on", id="nothing-to-plan"
        )
    pieces = list(_pieces(grid))
    results: dict[int, tuple[FloatArray, ...]] = {}
    if client is None:
        for number, piece in enumerate(pieces):
            on_progress(number, len(pieces))
            results[number] = _evaluated(*piece, grid.families[piece[0]])
    else:
        for number, rows in _on_workers(grid, pieces, client):
            on_progress(len(results), len(pieces))
            results[number] = rows
    return _assembled(grid, pieces, results)


# Variant, device, batch sizes, accumulations, engine, precision.
Piece = tuple[str, Device, tuple[int, ...], tuple[int, ...], "str | None", str]


def _pieces(grid: StudyGrid) -> Iterator[Piece]:
    """A device's modes stay together: they share the replay of its memory."""
    accumulates = tuple(grid.accumulates)
    for variant, device in product(grid.families, grid.devices):
        for begin in range(0, len(grid.batches), CHUNK):
            batches = tuple(grid.batches[begin : begin + CHUNK])
            yield variant, device, batches, accumulates, grid.engine, grid.precision


def _on_workers(
    grid: StudyGrid, pieces: Sequence[Piece], client: Any
) -> Iterator[tuple[int, tuple[FloatArray, ...]]]:
    """Number and rows of each piece, as they come."""
    from wattstep.schema.extras import require

    for variant, families in grid.families.items():
        if any(family.capture is not None for family in families):
            raise InvalidValueError(
                f"{variant}: each batch size has to be captured by itself, which no worker can: study it here",
                id="each-captured",
            )
    sent = {
        name: client.scatter(families, broadcast=True) for name, families in grid.families.items()
    }
    futures = {
        client.submit(_evaluated, *piece, sent[piece[0]], pure=False): number
        for number, piece in enumerate(pieces)
    }
    completed = require("distributed").as_completed(futures, with_results=True, loop=client.loop)
    for future, rows in completed:
        yield futures[future], rows


def _evaluated(
    variant: str,
    device: Device,
    batches: tuple[int, ...],
    accumulates: tuple[int, ...],
    engine: str | None,
    precision: str,
    families: Families,
) -> tuple[FloatArray, ...]:
    """Step time, energy, memory and chance to fit of a piece, each of shape (modes, batches, accumulations)."""
    modes = _modes(device)
    shape = (len(modes), len(batches), len(accumulates))
    columns = tuple(np.empty(shape) for _ in range(4))
    more = np.array(accumulates, float) - 1
    single = more == 0
    predictors = [
        predictor_for(family, device, engine=engine, precision=precision) for family in families
    ]
    for i, mode in enumerate(modes):
        here = [each if mode is None else each.in_mode(mode) for each in predictors]
        for j, batch in enumerate(batches):
            one, two = (each.at(batch) for each in here)
            begin, added = one.time.total, two.time.total - one.time.total
            columns[0][i, j] = begin + more * added
            joules = [
                np.nan if each.power is None else each.power[0].value * each.time.total
                for each in (one, two)
            ]
            columns[1][i, j] = joules[0] + more * (joules[1] - joules[0])
            columns[2][i, j] = np.where(single, one.memory.used, two.memory.used)
            columns[3][i, j] = np.where(single, one.fits_with, two.fits_with)
    return columns


def _assembled(
    grid: StudyGrid, pieces: Sequence[Piece], results: Mapping[int, tuple[FloatArray, ...]]
) -> Study:
    cells = grid.cells
    places = {(each.variant, each.device, each.mode): n for n, each in enumerate(cells)}
    rows: list[tuple[Any, ...]] = []
    for number, (variant, device, batches, accumulates, *_) in enumerate(pieces):
        of_modes = [places[variant, device.name, mode] for mode in _modes(device)]
        axes = np.meshgrid(of_modes, batches, accumulates, indexing="ij")
        rows.append(tuple(each.ravel() for each in (*axes, *results[number])))
    cell, batch, accumulate, time, energy, memory, fits = map(
        np.concatenate, zip(*rows, strict=True)
    )
    return Study(
        cells=cells, cell=cell, batch=batch, accumulate=accumulate, step_time=time, energy_per_step=energy,
        memory=memory, fits_with=fits,
    )  # fmt: skip


def _modes(device: Device) -> tuple[str | None, ...]:
    named = (
        name
        for name, mode in device.modes.items()
        if mode.cores or mode.clocks or mode.memory_clock
    )
    return (None, *named)
