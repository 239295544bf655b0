"""Where a small GPU's time goes: the CPU beside OpenCL in its three modes, net by net and batch by batch.

After Das et al. (arXiv 2202.10100), who found that a phone's GPU multiplies faster than its CPU and
trains more slowly, since data move. Each training is a run of its own in the study's folder, so that
reports and comparisons know it; one that is there already is not made again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, cast

from wattstep.errors import InvalidValueError
from wattstep.insight.compare.step_ceilings import device_step, host_step, work_of
from wattstep.run import Run, load
from wattstep.schema.device_ceilings import DeviceCeilings
from wattstep.schema.figure import Figure, Missing, Status, missing, weakest
from wattstep.schema.opencl import MODES
from wattstep.schema.run_documents import GpuFacts
from wattstep.store.device_ceilings import find

NETS: Final = ("mlp-16", "mlp-16-deep", "mlp-256", "mlp")
# Those of the paper and the ends first: a study that is ended early has seen the whole range.
BATCHES: Final = (32, 1, 256, 8, 64, 2, 128, 4, 16)
CPU: Final = "cpu"
SHARES: Final = ("compute_share", "data_movement_share", "launch_share")
PLAN: Final = "study.json"
DISTURBED: Final = (
    0.1  # share of a training's steps beyond which its time is not the machine's alone
)
NEVER: Final = "at no batch of these, by the ceilings"
PUBLISHED: Final[Mapping[str, str]] = {
    "movement": "data movement takes almost 91 % of training on the GPU",
    "copies": "copies take 10 to 15 times the time of computing",
    "slower": "training on the GPU takes more than 5 times as long as on the CPU",
    "products": "products of matrices in OpenCL reach 25, 40 and 70 GFLOP/s after 5, 10 and 15 untuned, the CPU 15 to 30",
}
SOURCE: Final = "Das, Kwon, Chauhan, Mascolo 2022, arXiv 2202.10100; MNN and OpenCL on OnePlus Nord, 6 and 8 Pro, batch 32"


@dataclass(frozen=True, kw_only=True)
class Way:
    """A way to train a net.

    Attributes:
        name: As tables and folders have it.
        mode: Of OpenCL; `CPU` for torch on the CPU.
        processor: As the engine takes it.
    """

    name: str
    mode: str
    processor: str = CPU


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What is studied.

    Attributes:
        nets: Workloads.
        batches: Samples of a step.
        seconds: Measured time of each training.
        processors: Devices, as the engine opencl takes them.
        threads: Of the CPU's training; None: torch's choice.
    """

    nets: Sequence[str] = NETS
    batches: Sequence[int] = BATCHES
    seconds: float = 3.0
    processors: Sequence[str] = ("opencl",)
    threads: int | None = None

    @property
    def ways(self) -> list[Way]:
        """The CPU, then each device in its modes; of several devices with their names."""
        several = len(self.processors) > 1
        return [
            Way(name=CPU, mode=CPU),
            *(
                Way(name=f"{mode} {one}" if several else mode, mode=mode, processor=one)
                for one in self.processors
                for mode in MODES
            ),
        ]

    @property
    def device_ways(self) -> list[Way]:
        """All but the CPU's."""
        return self.ways[1:]

    def document(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "nets": list(self.nets), "batches": list(self.batches), "seconds": self.seconds,
            "processors": list(self.processors), "threads": self.threads,
        }  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One training.

    Attributes:
        run: Its folder.
        figures: "step_time", the shares, "rate" (FLOP/s of the whole step), "energy_per_step"; of a
            device "predicted", the step's time at its ceilings, and "predicted_cpu", the CPU's for the
            same work at its own.
        disturbed: Share of its clean steps that other programs disturbed; 0 where that was not seen.
    """

    run: Path
    figures: Mapping[str, Figure]
    disturbed: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Row:
    """A net at a batch.

    Attributes:
        net: Which.
        batch: Samples of a step.
        cells: By way, of `Asked.ways`.
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

    def in_doubt(self, way: str) -> bool:
        """Whether other programs disturbed the training of a way, or the CPU's."""
        return any(self.cells[each].disturbed > DISTURBED for each in (way, CPU))

    def predicted_speed_up(self, way: str) -> Figure:
        """The same at the ceilings of both."""
        figures = self.cells[way].figures
        mine, cpu = figures["predicted"], figures["predicted_cpu"]
        if not mine.value or cpu.value is None:
            return missing("ratio", mine.reason or cpu.reason or "not known")
        return replace(
            mine, value=cpu.value / mine.value, unit="ratio", method=f"{cpu.method}; over: {mine.method}"
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Study:
    """All trainings.

    Attributes:
        asked: What was studied.
        devices: Facts of each processor, as a run has them.
        rows: In order, of those nets and batches of which all trainings are there.
        left: Trainings that are not there yet.
        ceilings: That were kept of a processor.
    """

    asked: Asked
    devices: Mapping[str, GpuFacts]
    rows: Sequence[Row]
    left: int = 0
    ceilings: Mapping[str, DeviceCeilings] = field(default_factory=dict)

    @property
    def shared(self) -> list[str]:
        """Names of devices whose memory is the host's, so that a copy is plumbing."""
        return [
            str(facts.get("name", name))
            for name, facts in self.devices.items()
            if facts.get("shares_memory")
        ]

    @property
    def disturbed(self) -> int:
        """How many trainings other programs disturbed so much that no win counts of them."""
        return sum(cell.disturbed > DISTURBED for row in self.rows for cell in row.cells.values())

    @property
    def title(self) -> str:
        """What stands beside what."""
        names = [str(facts.get("name", name)) for name, facts in self.devices.items()]
        return f"Computing and moving data: the CPU beside {' and '.join(names) or 'OpenCL'}"

    def wins(self, net: str, way: str) -> int | None:
        """The least batch from which on the device is faster beyond its interval; None: it never is.

        What other programs disturbed decides nothing: an interval is of steps of one training, and
        says nothing of a load that lasts longer than all of them.
        """
        return self._from(net, lambda row: None if row.in_doubt(way) else row.speed_up(way).low)

    def predicted_wins(self, net: str, way: str) -> Figure:
        """The least batch from which on it is faster at the ceilings of both; missing where it never is."""
        rows = [row for row in self.rows if row.net == net]
        known = [speed_up for row in rows if not (speed_up := row.predicted_speed_up(way)).missing]
        if not known or len(known) < len(rows):
            reasons = (row.predicted_speed_up(way).reason for row in rows)
            return missing("samples", next(filter(None, reasons), "nothing was trained yet"))
        batch = self._from(net, lambda row: row.predicted_speed_up(way).value)
        if batch is None:
            return missing("samples", NEVER)
        return replace(known[0], value=float(batch), unit="samples")

    def _from(self, net: str, speed_up: Callable[[Row], float | None]) -> int | None:
        won: int | None = None
        for row in sorted((row for row in self.rows if row.net == net), key=lambda row: -row.batch):
            least = speed_up(row)
            if least is None or least <= 1:
                break
            won = row.batch
        return won

    def document(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "asked": self.asked.document(),
            "devices": {name: dict(facts) for name, facts in self.devices.items()},
            "shares_memory": self.shared,
            "published": {**PUBLISHED, "source": SOURCE},
            "left": self.left,
            "disturbed": self.disturbed,
            "rows": [
                {
                    "net": row.net,
                    "batch": row.batch,
                    "ways": {
                        way: {
                            "run": str(cell.run),
                            "disturbed": cell.disturbed,
                            **{name: each.to_dict() for name, each in cell.figures.items()},
                            **({} if way == CPU else _speed_ups(row, way)),
                        }
                        for way, cell in row.cells.items()
                    },
                }
                for row in self.rows
            ],
            "wins_from": self._of_ways(self.wins),
            "predicted_wins_from": self._of_ways(
                lambda net, way: self.predicted_wins(net, way).to_dict()
            ),
        }

    def _of_ways(self, value: Callable[[str, str], Any]) -> dict[str, dict[str, Any]]:
        ways = [way.name for way in self.asked.device_ways]
        return {net: {way: value(net, way) for way in ways} for net in self.asked.nets}


def _speed_ups(row: Row, way: str) -> dict[str, Any]:
    return {
        "speed_up": row.speed_up(way).to_dict(),
        "predicted_speed_up": row.predicted_speed_up(way).to_dict(),
    }


def place_of(out: Path, net: str, batch: int, way: Way) -> Path:
    """The run of a training of the study."""
    return out / f"{net}-{batch}-{way.name.replace(':', '-').replace(' ', '-')}"


def read_study(out: Path) -> Study:
    """A study that was made, or as much of it as is there.

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
    rows: list[Row] = []
    devices: dict[str, GpuFacts] = {}
    left = 0
    for net in asked.nets:
        for batch in sorted(asked.batches):
            places = {way.name: place_of(out, net, batch, way) for way in asked.ways}
            lacking = sum(not place.exists() for place in places.values())
            left += lacking
            if not lacking:
                rows.append(_row(asked, net, batch, places, devices))
    kept = {name: _ceilings(facts) for name, facts in devices.items()}
    ceilings = {name: one for name, one in kept.items() if not isinstance(one, Missing)}
    return Study(asked=asked, devices=devices, rows=rows, left=left, ceilings=ceilings)


def _row(
    asked: Asked, net: str, batch: int, places: Mapping[str, Path], devices: dict[str, GpuFacts]
) -> Row:
    """A net at a batch; facts of devices that were not seen before are added."""
    runs = {name: load(place) for name, place in places.items()}
    flops = _flops(runs[asked.device_ways[1].name])
    cells = {CPU: _cell(runs[CPU], flops, {})}
    for way in asked.device_ways:
        run = runs[way.name]
        machine = run.info.device
        facts = machine.get("gpu") or machine.get("opencl") or cast("GpuFacts", {})
        facts = devices.setdefault(way.processor, facts)
        ceilings, work = _ceilings(facts), work_of(run)
        predicted = (
            dict.fromkeys(("predicted", "predicted_cpu"), missing("s", ceilings))
            if isinstance(ceilings, Missing)
            else {
                "predicted": device_step(work, way.mode, ceilings),
                "predicted_cpu": host_step(work, ceilings),
            }
        )
        cells[way.name] = _cell(run, flops, predicted)
    return Row(net=net, batch=batch, cells=cells)


def _ceilings(facts: GpuFacts) -> DeviceCeilings | Missing:
    return find(str(facts.get("name", "")), str(facts.get("driver", "")))


def _flops(run: Run) -> Figure:
    """Floating-point operations of a step by the kernels of a run, all passes and the update."""
    rows = run.document()["operations"]
    counted = [row["flops"]["value"] for row in rows if row["flops"].get("value")]
    if not counted:
        return missing("FLOP", "no kernels were traced")
    return Figure(
        value=float(sum(counted)), unit="FLOP", status=Status.COUNTED, source="shapes of kernels"
    )


def _cell(run: Run, flops: Figure, predicted: Mapping[str, Figure]) -> Cell:
    metrics = run.metrics
    names = ("step_time", *SHARES, "energy_per_step")
    figures = {name: metrics.figure(name) or missing("ratio", "the run has none") for name in names}
    rate = _rate(flops, figures["step_time"])
    steps = run.report().steps
    return Cell(
        run=Path(run.path), figures={**figures, "rate": rate, **predicted},
        disturbed=(steps.disturbed or 0) / (steps.clean or 1),
    )  # fmt: skip


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
