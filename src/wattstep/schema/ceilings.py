"""Measured ceilings of a processor: floating-point operations and bytes a second."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from wattstep.errors import DamagedRunError
from wattstep.schema.configuration import MACHINE
from wattstep.schema.figure import Figure
from wattstep.schema.run_documents import MachineFacts

SCHEMA: Final = 1
# Facts of a machine that make its processor the same; the name of its board tells of sensors, and a
# later version may know it where an earlier one did not.
PROCESSOR: Final = tuple(fact for fact in MACHINE if fact != "board")
PRODUCT: Final = "matrix_product"
CONVOLUTION: Final = "convolution"
CHANNELS_LAST: Final = "convolution_channels_last"


def identity(device: MachineFacts) -> MachineFacts:
    """The facts `PROCESSOR` of a machine; None for one that is not known."""
    return {
        "model": device.get("model"),
        "cpu": device.get("cpu"),
        "architecture": device.get("architecture"),
        "cores": device.get("cores"),
    }


def spoken_threads(count: int) -> str:
    """ "1 thread", "4 threads"."""
    return "1 thread" if count == 1 else f"{count} threads"


@dataclass(frozen=True, kw_only=True)
class Level:
    """Bandwidth of memory while everything touched is of this size.

    Attributes:
        name: "memory" for arrays far larger than all caches, else the cache ("L2").
        size: Bytes of all arrays together.
        copy: Bytes read and written in a second by `a = b`.
        triad: Likewise by `a = b + s c`.
    """

    name: str
    size: int
    copy: Figure
    triad: Figure

    @property
    def best(self) -> Figure:
        """The faster of the two."""
        return max((self.copy, self.triad), key=lambda figure: figure.value or 0.0)


@dataclass(frozen=True, kw_only=True)
class Asked:
    """Ceilings that are to be measured.

    Attributes:
        device: Facts of this machine, see `sensors.machine.describe`.
        threads: Threads of an operation.
        precisions: Of "fp32" and "bf16".
        caches: Bytes of the caches that data go through by name, the smallest first.
        free: Bytes of memory that are free.
        seconds: How long it may take, roughly.
    """

    device: MachineFacts
    threads: int
    precisions: Sequence[str]
    caches: Mapping[str, int]
    free: int
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Ceilings:
    """The ceilings of one machine with one number of threads.

    Attributes:
        created: When they were measured.
        device: What machine: the facts `PROCESSOR`.
        engine: Framework with its version that reached them, as `RunInfo.engine` has it.
        threads: Threads of an operation.
        compute: FLOP/s by what was computed and precision, "matrix_product.fp32".
        levels: Memory and caches, the smallest first.
        medians: Of the same repetitions, by "matrix_product.fp32" or "memory.copy".
        seconds: How long measuring took.
        notes: What a reader must know.
    """

    created: str
    device: MachineFacts
    engine: str
    threads: int
    compute: Mapping[str, Figure]
    levels: tuple[Level, ...]
    medians: Mapping[str, Figure]
    seconds: float
    notes: tuple[str, ...] = ()

    def peak(self, precision: str) -> Figure | None:
        """The highest FLOP/s in "fp32" or "bf16", whatever reached it; None where not measured."""
        figures = [
            figure
            for name, figure in self.compute.items()
            if name.endswith(f".{precision}") and not figure.missing
        ]
        return max(figures, key=lambda figure: figure.value or 0.0, default=None)

    def level(self, touched: float) -> Level:
        """Level of memory that holds so many bytes at best."""
        return next((level for level in self.levels if level.size >= touched), self.levels[-1])

    @property
    def memory(self) -> Level:
        """Memory itself, beyond all caches."""
        return self.levels[-1]

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "schema": SCHEMA,
            "created": self.created,
            "device": dict(self.device),
            "engine": self.engine,
            "threads": self.threads,
            "compute": {name: figure.to_dict() for name, figure in self.compute.items()},
            "levels": [
                {
                    "name": level.name,
                    "size": level.size,
                    "copy": level.copy.to_dict(),
                    "triad": level.triad.to_dict(),
                }
                for level in self.levels
            ],
            "medians": {name: figure.to_dict() for name, figure in self.medians.items()},
            "seconds": self.seconds,
            "notes": list(self.notes),
        }

    @classmethod
    def from_dict(cls, document: Any) -> Ceilings:
        """The inverse of `to_dict`.

        Raises:
            DamagedRunError: It is something else.
        """
        try:
            if document["schema"] != SCHEMA:
                raise ValueError(f"schema {document['schema']!r}, this wattstep reads {SCHEMA}")
            levels = tuple(_level(level) for level in document["levels"])
            if not levels:
                raise ValueError("no memory was measured")
            return cls(
                created=str(document["created"]),
                device=identity(document["device"]),
                # Before engines of other packages had any, only the version stood there.
                engine=str(document.get("engine") or f"torch {document['torch']}"),
                threads=int(document["threads"]),
                compute=_figures(document["compute"]),
                levels=levels,
                medians=_figures(document["medians"]),
                seconds=float(document["seconds"]),
                notes=tuple(str(note) for note in document.get("notes", ())),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise DamagedRunError(
                f"these are no measured ceilings: {error}", id="damaged-ceilings"
            ) from error


def _level(document: Mapping[str, Any]) -> Level:
    return Level(
        name=str(document["name"]),
        size=int(document["size"]),
        copy=Figure.from_dict(document["copy"]),
        triad=Figure.from_dict(document["triad"]),
    )


def _figures(documents: Mapping[str, Any]) -> dict[str, Figure]:
    return {str(name): Figure.from_dict(document) for name, document in documents.items()}
