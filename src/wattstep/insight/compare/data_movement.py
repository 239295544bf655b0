"""Where a small GPU's time goes: the CPU beside OpenCL in its three modes, net by net and batch by batch.

After Das et al. (arXiv 2202.10100), who found that a phone's GPU multiplies faster than its CPU and
trains more slowly, since data move. Each training is a run of its own in the study's folder, so that
reports and comparisons know it; one that is there already is not made again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from wattstep.errors import InvalidValueError
from wattstep.run import Run, load
from wattstep.schema.figure import Figure, Status, missing, weakest
from wattstep.schema.opencl import MODES
from wattstep.schema.run_documents import GpuFacts

NETS: Final = ("mlp-16", "mlp-16-deep", "mlp-256", "mlp")
BATCHES: Final = (1, 4, 16, 64, 256)
CPU: Final = "cpu"
WAYS: Final = (CPU, *MODES)
SHARES: Final = ("compute_share", "data_movement_share", "launch_share")
PLAN: Final = "study.json"
PUBLISHED: Final[Mapping[str, str]] = {
    "movement": "data movement takes almost 91 % of training on the GPU",
    "copies": "copies take 10 to 15 times the time of computing",
    "slower": "training on the GPU takes more than 5 times as long as on the CPU",
    "products": "products of matrices in OpenCL reach 25, 40 and 70 GFLOP/s after 5, 10 and 15 untuned, the CPU 15 to 30",
}
SOURCE: Final = "Das, Kwon, Chauhan, Mascolo 2022, arXiv 2202.10100; MNN and OpenCL on OnePlus Nord, 6 and 8 Pro, batch 32"


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What is studied.

    Attributes:
        nets: Workloads.
        batches: Samples of a step.
        seconds: Measured time of each training.
        processor: The device, as the engine opencl takes it.
        threads: Of the CPU's training; None: torch's choice.
    """

    nets: Sequence[str] = NETS
    batches: Sequence[int] = BATCHES
    seconds: float = 3.0
    processor: str = "opencl"
    threads: int | None = None

    def document(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "nets": list(self.nets), "batches": list(self.batches), "seconds": self.seconds,
            "processor": self.processor, "threads": self.threads,
        }  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One training.

    Attributes:
        run: Its folder.
        figures: "step_time", the shares, "rate" (FLOP/s of the whole step), "energy_per_step".
    """

    run: Path
    figures: Mapping[str, Figure]


@dataclass(frozen=True, kw_only=True)
class Row:
    """A net at a batch.

    Attributes:
        net: Which.
        batch: Samples of a step.
        cells: By way, of `WAYS`.
    """

    net: str
    batch: int
    cells: Mapping[str, Cell]

    def speed_up(self, way: str) -> Figure:
        """Time of the CPU's step over that of a way: above 1 the device wins."""
        mine, cpu = (self.cells[each].figures["step_time"] for each in (way, CPU))
        if mine.value is None or cpu.value is None:
            return missing("ratio", mine.reason or cpu.reason or "not known")
        ends: dict[str, Any] = {}
        if mine.low and mine.high and cpu.low is not None and cpu.high is not None:
            ends = {
                "low": cpu.low / mine.high,
                "high": cpu.high / mine.low,
                "confidence": mine.confidence,
            }
        return Figure(
            value=cpu.value / mine.value, unit="ratio", source=mine.source,
            status=weakest([mine.status, cpu.status]), method="mean step of the CPU over that here",
            **ends,
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Study:
    """All trainings.

    Attributes:
        asked: What was studied.
        device: Facts of the device, as a run has them.
        rows: In order.
    """

    asked: Asked
    device: GpuFacts
    rows: Sequence[Row]

    @property
    def shared(self) -> bool:
        """True if the device's memory is the host's, so that a copy is plumbing."""
        return bool(self.device.get("shares_memory"))

    def wins(self, net: str, way: str) -> int | None:
        """The least batch from which on the device is faster beyond its interval; None: it never is."""
        won: int | None = None
        for row in sorted((row for row in self.rows if row.net == net), key=lambda row: -row.batch):
            speed_up = row.speed_up(way)
            if speed_up.low is None or speed_up.low <= 1:
                break
            won = row.batch
        return won

    def document(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "asked": self.asked.document(),
            "device": dict(self.device),
            "shares_memory": self.shared,
            "published": {**PUBLISHED, "source": SOURCE},
            "rows": [
                {
                    "net": row.net,
                    "batch": row.batch,
                    "ways": {
                        way: {
                            "run": str(cell.run),
                            **{name: each.to_dict() for name, each in cell.figures.items()},
                            **({} if way == CPU else {"speed_up": row.speed_up(way).to_dict()}),
                        }
                        for way, cell in row.cells.items()
                    },
                }
                for row in self.rows
            ],
            "wins_from": {
                net: {way: self.wins(net, way) for way in MODES} for net in self.asked.nets
            },
        }


def place_of(out: Path, net: str, batch: int, way: str) -> Path:
    """The run of a training of the study."""
    return out / f"{net}-{batch}-{way}"


def read_study(out: Path) -> Study:
    """A study that was made.

    Raises:
        InvalidValueError: The folder is none.
        DamagedRunError: A run cannot be read.
    """
    try:
        document = json.loads((out / PLAN).read_text(encoding="utf-8"))
        asked = Asked(**document)
    except (OSError, ValueError, TypeError) as error:
        raise InvalidValueError(
            f"{out} is no study of data movement: {error}", id="no-study"
        ) from error
    rows, device = [], cast("GpuFacts", {})
    for net in asked.nets:
        for batch in asked.batches:
            runs = {way: load(place_of(out, net, batch, way)) for way in WAYS}
            machine = runs[MODES[0]].info.device
            device = machine.get("gpu") or machine.get("opencl") or device
            flops = _flops(runs[MODES[1]])
            rows.append(
                Row(
                    net=net, batch=batch,
                    cells={way: _cell(run, flops) for way, run in runs.items()},
                )
            )  # fmt: skip
    return Study(asked=asked, device=device, rows=rows)


def _flops(run: Run) -> Figure:
    """Floating-point operations of a step by the kernels of a run, all passes and the update."""
    rows = run.document()["operations"]
    counted = [row["flops"]["value"] for row in rows if row["flops"].get("value")]
    if not counted:
        return missing("FLOP", "no kernels were traced")
    return Figure(
        value=float(sum(counted)), unit="FLOP", status=Status.COUNTED, source="shapes of kernels"
    )


def _cell(run: Run, flops: Figure) -> Cell:
    metrics = run.metrics
    names = ("step_time", *SHARES, "energy_per_step")
    figures = {name: metrics.figure(name) or missing("ratio", "the run has none") for name in names}
    return Cell(run=Path(run.path), figures={**figures, "rate": _rate(flops, figures["step_time"])})


def _rate(flops: Figure, step: Figure) -> Figure:
    if flops.value is None or step.value is None:
        return missing("FLOP/s", flops.reason or step.reason or "not known")
    ends: dict[str, Any] = {}
    if step.low and step.high:
        ends = {
            "low": flops.value / step.high, "high": flops.value / step.low,
            "confidence": step.confidence,
        }  # fmt: skip
    return Figure(
        value=flops.value / step.value, unit="FLOP/s", source=step.source,
        status=weakest([flops.status, step.status]),
        method="operations of all kernels of a step over its time", **ends,
    )  # fmt: skip
