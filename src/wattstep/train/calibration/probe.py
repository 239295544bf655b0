"""A small training in a fresh process: memory by stage, time of its steps and of each operation in them."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import numpy as np

from wattstep import engines, workloads
from wattstep.errors import RecordingError, WattstepError
from wattstep.predict.cpu.memory import THRESHOLD, lasting, replay
from wattstep.predict.cpu.time import CpuWork, work_of
from wattstep.record.sensors.machine import caches
from wattstep.schema.operation_times import OperationTimes
from wattstep.schema.processes import (
    ChildNews,
    ends_with_us,
    obey_ctrl_c_once,
    refusal_news,
)
from wattstep.schema.workload import Preparation
from wattstep.train.calibration.load import Load
from wattstep.train.child.child import GuardedChild, tail
from wattstep.train.child.limits import enforced
from wattstep.train.child.verdict import judge
from wattstep.train.child.watchdog import find_watchdog
from wattstep.train.memory.resident import ResidentMemory

UNKNOWN_CACHE: Final = 32 << 20
STEADY_STEPS: Final = 3


@dataclass(frozen=True, kw_only=True)
class ProbeSettings:
    """A training that is measured.

    Attributes:
        workload: Its name.
        batch_size: Samples of a step.
        threads: Of its operations.
    """

    workload: str
    batch_size: int
    threads: int = 1

    @property
    def name(self) -> str:
        """For readers and files."""
        of = "" if self.threads == 1 else f"-{self.threads}-threads"
        return f"{self.workload}-{self.batch_size}{of}"


@dataclass(frozen=True, kw_only=True)
class Probe:
    """What a training took; sizes in B, times in s.

    Attributes:
        settings: The training.
        framework: Resident once the framework was loaded.
        prepared: Resident before the first step.
        first: Most that was resident within it.
        steady: Most within steps after it.
        tensors: Tensors that were there before the first step.
        growth_steady: As the allocator's replay says, without what calibration adds.
        fresh: Bytes of pages that the system gives within a step, as the replay says.
        libraries: That it loaded, of those that show.
        steps: Time of steps that nothing was attached to.
        clock: As `OperationTimes.clock`.
        starts: Operations by phase that compute something.
        rows: Of each operation: index into `cpu.time.KINDS`, its features, its time; 0: it was not timed.
        others: Cores that other processes took meanwhile; not a number: it was not noted.
    """

    settings: ProbeSettings
    framework: float
    prepared: float
    first: float
    steady: float
    tensors: float
    growth_steady: float
    fresh: float
    libraries: tuple[str, ...]
    steps: tuple[float, ...] = ()
    clock: str = "thread"
    starts: Mapping[str, int] = field(default_factory=dict)
    rows: tuple[tuple[float, ...], ...] = ()
    others: float = 0.0

    @property
    def seconds(self) -> float:
        """Time of a step: the least, since whatever disturbs only slows down."""
        return min(self.steps)

    @property
    def timed(self) -> bool:
        """True if its operations were timed."""
        return any(row[-1] for row in self.rows)

    @property
    def work(self) -> CpuWork:
        """What its operations do."""
        table = np.array(self.rows, float)
        return CpuWork(
            kinds=table[:, 0].astype(np.int64), features=table[:, 1:5], starts=self.starts
        )

    @property
    def operation_seconds(self) -> Any:
        """Of each operation, shape (n,)."""
        return np.array(self.rows, float)[:, 5]

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return asdict(self)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Probe:
        """The inverse of `to_dict`."""
        return cls(
            **{
                **document,
                "settings": ProbeSettings(**document["settings"]),
                "libraries": tuple(document["libraries"]),
                "steps": tuple(document["steps"]),
                "rows": tuple(map(tuple, document["rows"])),
            }
        )


class _ProbeNews(ChildNews, total=False):
    """News of a child that measures; `probe` is a document of `Probe`."""

    probe: Mapping[str, Any]


def largest_cache() -> int:
    """Bytes of this machine's largest cache."""
    return max((size for size, _ in caches().values()), default=UNKNOWN_CACHE)


def measure_probe(settings: ProbeSettings) -> Probe:
    """Trains a little, in this process, which should be a fresh one."""
    resident = ResidentMemory()
    load = Load()
    engine, workload = engines.find(engines.DEFAULT), workloads.find(settings.workload)
    engine.load()
    framework = resident.read().all
    trainer = engine.prepare(
        workload, Preparation(batch_size=settings.batch_size), threads=settings.threads
    )
    prepared = resident.read().all
    resident.reset()
    trainer.step()
    first = resident.read().peak
    resident.reset()
    for _ in range(STEADY_STEPS):
        trainer.step()
    steady = resident.read().peak
    resident.close()
    times = engine.time_operations(trainer)
    others = load.others()
    growth = replay(times.graph, threshold=THRESHOLD, threads=settings.threads)
    work = work_of(times.graph, cache=largest_cache(), threads=settings.threads)
    return Probe(
        settings=settings,
        framework=framework,
        prepared=prepared,
        first=first,
        steady=steady,
        tensors=sum(size for _, size in lasting(times.graph)),
        growth_steady=growth.steady,
        fresh=growth.fresh,
        libraries=times.graph.libraries,
        steps=times.steps,
        clock=times.clock,
        starts=work.starts,
        rows=_rows(work, times),
        others=others,
    )


def _rows(work: CpuWork, times: OperationTimes) -> tuple[tuple[float, ...], ...]:
    table = np.column_stack([work.kinds, work.features, times.seconds])
    return tuple(map(tuple, table.tolist()))


def probe_in_child(settings: ProbeSettings) -> Probe:
    """Measures in a child process.

    Raises:
        WattstepError: The child failed, or ended in any other way.
        KeyboardInterrupt: The user stopped it.
        Terminated: SIGTERM or SIGHUP came.
    """
    asked = json.dumps(asdict(settings))
    document = document_of_child("wattstep.train.calibration.probe:main", asked, settings.name)
    return Probe.from_dict(document)


def document_of_child(entry: str, asked: str, name: str) -> Mapping[str, Any]:
    """What a child that measures tells as its `probe`.

    Args:
        entry: "module:function" of the child.
        asked: Its argument.
        name: Of what it measures, for errors.

    Raises:
        WattstepError: The child failed, or ended in any other way.
        KeyboardInterrupt: The user stopped it.
        Terminated: SIGTERM or SIGHUP came.
    """
    documents: list[Mapping[str, Any]] = []
    began_s = time.monotonic()

    def hear(news: _ProbeNews) -> None:
        if "probe" in news:
            documents.append(news["probe"])

    with tempfile.TemporaryFile() as output, enforced(None) as cage:
        child = GuardedChild(
            entry, [asked], cage, output=output, ends_with_us=True, watchdog=find_watchdog("cpu")
        )
        with ends_with_us(child.process):
            ending = child.follow(hear)
        if ending.interrupted:
            raise KeyboardInterrupt
        if ending.error is not None:
            raise WattstepError(ending.error)
        if not documents:
            _, reason, evidence = judge(ending, cage, tail(output), began_s, when="")
            reason = reason or "it ended without a result"
            if evidence.signal is not None and evidence.peak_resident is not None:
                reason += f", with {evidence.peak_resident / 1e6:,.0f} MB resident at most"
            raise RecordingError(f"{name} could not be measured: {reason}")
    return documents[0]


def main() -> int:
    """Entry of the child process: the descriptor for news, and the settings."""
    obey_ctrl_c_once()
    news = os.fdopen(int(sys.argv[1]), "w", encoding="utf-8", buffering=1)
    try:
        probe = measure_probe(ProbeSettings(**json.loads(sys.argv[2])))
        document: _ProbeNews | ChildNews = {"probe": probe.to_dict()}
    except WattstepError as error:
        document = refusal_news(error)
    news.write(json.dumps(document) + "\n")
    return 2 if "error" in document else 0
