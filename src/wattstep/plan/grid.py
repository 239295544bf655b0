"""A study of very many configurations: workloads, batches, accumulations, devices, modes and precisions, all with all."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np

from wattstep.devices.table import Device
from wattstep.errors import InvalidValueError
from wattstep.predict import Prediction, check_device, predictors_for
from wattstep.schema.arrays import FloatArray, IntArray
from wattstep.schema.figure import Figure
from wattstep.schema.step_graph import StepFamily

CHUNK: Final = 16  # batch sizes of a piece of work
WAITING: Final = (
    4  # pieces that a worker has at a time, so that it never waits and no scheduler holds all
)
# Step time in s of an update, its energy in J, memory in use in B, each with the ends of its 90 % interval.
COLUMNS: Final = (
    "step_time", "step_time_low", "step_time_high", "energy_per_step", "energy_per_step_low", "energy_per_step_high",
    "memory", "memory_low", "memory_high", "fits_with",
)  # fmt: skip
# The step with one batch, and with two whose gradients are added up, where any accumulation is studied.
Families = tuple[StepFamily, StepFamily | None]
Rows = Mapping[str, FloatArray]


@dataclass(frozen=True, kw_only=True)
class Variant:
    """A training whose step is captured.

    Attributes:
        workload: Its name.
        precision: Of it.
        checkpointing: Whether activations are computed again.
    """

    workload: str
    precision: str = "fp32"
    checkpointing: bool = False


@dataclass(frozen=True, kw_only=True)
class Cell:
    """What a configuration has beside its batch.

    Attributes:
        variant: The training.
        device: Name.
        mode: Power mode; None: the one that the device's file is of.
    """

    variant: Variant
    device: str
    mode: str | None


@dataclass(frozen=True, kw_only=True)
class Piece:
    """Work that is done at a time: some batch sizes of a variant in all else that there is.

    Attributes:
        number: Among all pieces.
        variant: The training.
        batches: Samples of a forward pass.
    """

    number: int
    variant: Variant
    batches: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class StudyGrid:
    """What is studied: all of it with all of it, but a precision on a device that has none.

    Attributes:
        families: The captured step by variant.
        devices: With all their power modes.
        batches: Samples of a forward pass.
        accumulates: Batches of an update.
        engine: Framework, as the devices' files name it; None: the one that their values are of.
    """

    families: Mapping[Variant, Families]
    devices: Sequence[Device]
    batches: Sequence[int]
    accumulates: Sequence[int]
    engine: str | None = None

    @cached_property
    def refused(self) -> Mapping[tuple[str, str], InvalidValueError]:
        """Why a device, by its name, is not studied in a precision."""
        return self._refused(self.families)

    def _refused(
        self, variants: Collection[Variant]
    ) -> Mapping[tuple[str, str], InvalidValueError]:
        refused = {}
        for precision in dict.fromkeys(variant.precision for variant in variants):
            for device in self.devices:
                try:
                    check_device(device, engine=self.engine, precision=precision)
                except InvalidValueError as error:
                    refused[device.name, precision] = error
        return refused

    def devices_of(self, variant: Variant) -> list[Device]:
        """Those that train in its precision."""
        return [one for one in self.devices if (one.name, variant.precision) not in self.refused]

    def cells_of(self, variant: Variant) -> list[Cell]:
        """Devices in their modes."""
        return [
            Cell(variant=variant, device=device.name, mode=mode)
            for device in self.devices_of(variant)
            for mode in modes_of(device)
        ]

    @property
    def cells(self) -> tuple[Cell, ...]:
        """Variants on devices in their modes."""
        return tuple(cell for variant in self.families for cell in self.cells_of(variant))

    @property
    def count(self) -> int:
        """Number of configurations."""
        return len(self.cells) * len(self.batches) * len(self.accumulates)

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """The work: devices and modes stay together, since they share the replay of memory."""
        begins = range(0, len(self.batches), CHUNK)
        parts = [tuple(self.batches[begin : begin + CHUNK]) for begin in begins]
        each = ((variant, part) for variant in self.families for part in parts)
        return tuple(
            Piece(number=number, variant=variant, batches=part)
            for number, (variant, part) in enumerate(each)
        )

    def check(self, variants: Collection[Variant]) -> None:
        """Refuses what leaves nothing to study.

        Args:
            variants: Whose steps are captured, or will be.

        Raises:
            InvalidValueError: The grid is empty, or a device trains in none of the precisions.
        """
        given = variants and self.devices and self.batches and self.accumulates
        if not given or min(*self.batches, *self.accumulates) < 1:
            raise InvalidValueError(
                "a study needs devices, and batches and accumulations from 1 on",
                id="nothing-to-plan",
            )
        refused = self._refused(variants)
        for device in self.devices:
            reasons = [error for (name, _), error in refused.items() if name == device.name]
            if len(reasons) == len({variant.precision for variant in variants}):
                raise reasons[0]


@dataclass(frozen=True, kw_only=True, eq=False)
class Study:
    """Costs of configurations, a row each; all are predicted.

    Attributes:
        cells: Variants on devices in their modes.
        cell: Place in `cells`, shape (n,) as all that follow.
        batch: Samples of a forward pass.
        accumulate: Batches of an update.
        columns: By name, of `COLUMNS`; energy is NaN where the device's power is not known.
    """

    cells: tuple[Cell, ...]
    cell: IntArray
    batch: IntArray
    accumulate: IntArray
    columns: Rows

    @property
    def count(self) -> int:
        """Number of configurations."""
        return len(self.cell)


def study(
    grid: StudyGrid,
    client: Any = None,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> Study:
    """Predicts every configuration of a grid; all of it has to lie in memory, some 100 bytes each.

    Each batch is predicted once for each device, mode and variant; accumulations follow from one batch and
    two, as in a plan.

    Args:
        grid: What is studied.
        client: Of a Dask cluster, whose workers have wattstep; None: here.
        on_progress: Told how many pieces of work are done, and of how many.

    Raises:
        InvalidValueError: The grid is empty, a device's values do not reach, or a step cannot be sent to workers.
    """
    pieces = grid.pieces
    results: dict[int, Rows] = {}
    for piece, rows in predicted(grid, client):
        results[piece.number] = rows
        on_progress(len(results), len(pieces))
    places = {cell: place for place, cell in enumerate(grid.cells)}
    of_pieces = [rows_of(grid, piece) for piece in pieces]
    return Study(
        cells=grid.cells,
        cell=np.concatenate([[places[cell] for cell in cells] for cells, _, _ in of_pieces]),
        batch=np.concatenate([batch for _, batch, _ in of_pieces]),
        accumulate=np.concatenate([accumulate for _, _, accumulate in of_pieces]),
        columns={
            name: np.concatenate([results[piece.number][name] for piece in pieces])
            for name in COLUMNS
        },
    )


def rows_of(grid: StudyGrid, piece: Piece) -> tuple[list[Cell], IntArray, IntArray]:
    """Cell, batch and accumulation of each row of a piece."""
    cells = grid.cells_of(piece.variant)
    axes = np.meshgrid(range(len(cells)), piece.batches, grid.accumulates, indexing="ij")
    place, batch, accumulate = (axis.ravel() for axis in axes)
    return [cells[each] for each in place], batch, accumulate


def predicted(
    grid: StudyGrid, client: Any = None, done: Collection[int] = ()
) -> Iterator[tuple[Piece, Rows]]:
    """Pieces with the columns of their rows, as they come.

    Args:
        grid: What is studied.
        client: As of `study`.
        done: Numbers of pieces that are left out.

    Raises:
        InvalidValueError: As of `study`.
    """
    grid.check(grid.families)
    left = [piece for piece in grid.pieces if piece.number not in done]
    if client is not None:
        yield from _on_workers(grid, left, client)
        return
    for piece in left:
        yield piece, _evaluated(piece, grid.families[piece.variant], *_asked(grid, piece))


# Devices, accumulations, engine.
Asked = tuple[Sequence[Device], tuple[int, ...], str | None]


def _asked(grid: StudyGrid, piece: Piece) -> Asked:
    return grid.devices_of(piece.variant), tuple(grid.accumulates), grid.engine


def _on_workers(
    grid: StudyGrid, left: Sequence[Piece], client: Any
) -> Iterator[tuple[Piece, Rows]]:
    from wattstep.schema.extras import require

    for variant, families in grid.families.items():
        if any(family is not None and family.capture is not None for family in families):
            raise InvalidValueError(
                f"{variant.workload}: each batch size has to be captured by itself, which no worker can: study it here",
                id="each-captured",
            )
    sent: dict[Variant, Any] = {}
    waiting = iter(left)
    futures: dict[Any, Piece] = {}

    def submit(piece: Piece) -> Any:
        if piece.variant not in sent:
            families = grid.families[piece.variant]
            for old in list(sent)[:-1]:  # the cluster keeps what its tasks still need
                del sent[old]
            sent[piece.variant] = client.scatter((families,), broadcast=True)[0]
        future = client.submit(
            _evaluated, piece, sent[piece.variant], *_asked(grid, piece), pure=False
        )
        futures[future] = piece
        return future

    room = WAITING * max(1, sum(client.nthreads().values()))
    first = [submit(piece) for piece, _ in zip(waiting, range(room), strict=False)]
    completed = require("distributed").as_completed(first, with_results=True, loop=client.loop)
    for future, rows in completed:
        yield futures.pop(future), rows
        for piece in waiting:
            completed.add(submit(piece))
            break


def _evaluated(
    piece: Piece,
    families: Families,
    devices: Sequence[Device],
    accumulates: tuple[int, ...],
    engine: str | None,
) -> Rows:
    """Columns of a piece's rows, device by device, mode by mode, batch by batch."""
    more = np.array(accumulates, float) - 1
    single = more == 0
    # By family: predictors in each mode of each device.
    lines = [
        [
            predictor if mode is None else predictor.in_mode(mode)
            for predictor in predictors_for(
                family, devices, engine=engine, precision=piece.variant.precision
            )
            for mode in modes_of(predictor.device)
        ]
        for family in families
        if family is not None
    ]
    columns = {
        name: np.empty((len(lines[0]), len(piece.batches), len(accumulates))) for name in COLUMNS
    }
    for j, batch in enumerate(piece.batches):
        for i, of_families in enumerate(zip(*lines, strict=True)):
            one, *others = (each.at(batch) for each in of_families)
            two = others[0] if others else one
            first, second = one.time.total, two.time.total
            longer = (first + more * (second - first)) / second
            costlier = longer
            if one.power is not None and two.power is not None:
                begin, end = (each.power[0].value * each.time.total for each in (one, two))
                costlier = (begin + more * (end - begin)) / end
            factors = (longer,) * 3 + (costlier,) * 3 + (1.0,) * 4
            for name, of_one, of_two, factor in zip(
                COLUMNS, _costs(one), _costs(two), factors, strict=True
            ):
                columns[name][i, j] = np.where(single, of_one, factor * of_two)
    return {name: column.ravel() for name, column in columns.items()}


def _costs(one: Prediction) -> tuple[float, ...]:
    """Of `COLUMNS`, of a step."""
    figures = one.step_time, one.energy_per_step, one.system_memory
    return *(number for figure in figures for number in _ends(figure)), one.fits_with


def _ends(figure: Figure) -> tuple[float, ...]:
    """Value and ends of its interval; NaN of a missing one."""
    numbers = figure.value, figure.low, figure.high
    return tuple(np.nan if number is None else number for number in numbers)


def modes_of(device: Device) -> tuple[str | None, ...]:
    """Modes that are studied: None for the one that its file is of."""
    named = (
        name
        for name, mode in device.modes.items()
        if mode.cores or mode.clocks or mode.memory_clock
    )
    return (None, *named)
