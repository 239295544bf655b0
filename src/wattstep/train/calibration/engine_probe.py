"""A small training on any engine in a fresh process: what it takes of memory, and the time of its steps."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from wattstep import engines, workloads
from wattstep.errors import WattstepError
from wattstep.schema.processes import ChildNews, obey_ctrl_c_once, refusal_news
from wattstep.schema.workload import Preparation
from wattstep.train.calibration.probe import document_of_child
from wattstep.train.memory.resident import ResidentMemory

WARM_UP: Final = 5  # steps
SECONDS: Final = (
    2.0  # of CPU time, in which steps are measured: on a busy machine as many as on a quiet one,
)
LEAST_STEPS: Final = 3  # at least so many


@dataclass(frozen=True, kw_only=True)
class EngineProbe:
    """What a training with one thread took; sizes in B, times in s.

    Attributes:
        engine: Its name.
        workload: Its name.
        batch_size: Samples of a step.
        loaded: Resident once the engine was loaded.
        peak: Most that was resident within steady steps.
        steps: CPU time of each step's process.
        shares: Of all operations by their group; {}: the engine tells no operations.
    """

    engine: str
    workload: str
    batch_size: int
    loaded: float
    peak: float
    steps: tuple[float, ...]
    shares: Mapping[str, float] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """For readers and files."""
        return f"{self.engine}-{self.workload}-{self.batch_size}"

    @property
    def seconds(self) -> float:
        """Time of a step: the least, since whatever disturbs only slows down."""
        return min(self.steps)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> EngineProbe:
        """The inverse of `asdict`, also of what became of it in JSON."""
        return cls(**{**document, "steps": tuple(document["steps"])})


def measure_engine(name: str, workload: str, batch_size: int) -> EngineProbe:
    """Trains a little, in this process, which should be a fresh one."""
    resident = ResidentMemory()
    engine = engines.find(name)
    engine.load()
    loaded = resident.read().all
    trainer = engine.prepare(
        workloads.find(workload), Preparation(batch_size=batch_size), threads=1
    )
    for _ in range(WARM_UP):
        trainer.step()
    resident.reset()
    steps: list[float] = []
    begun = before = time.process_time()
    while len(steps) < LEAST_STEPS or before - begun < SECONDS:
        trainer.step()
        after = time.process_time()
        steps.append(after - before)
        before = after
    peak = resident.read().peak
    resident.close()
    # Here, since runs are read by pyarrow: within the floor it would be half as much again.
    from wattstep.train.calibration.engine_groups import recorded_shares

    return EngineProbe(
        engine=name, workload=workload, batch_size=batch_size, loaded=loaded, peak=peak, steps=tuple(steps),
        # torch's compiler makes operations that are in no group.
        shares=recorded_shares(trainer, min(steps)) if engine.exports else {},
    )  # fmt: skip


def engine_probe_in_child(name: str, workload: str, batch_size: int) -> EngineProbe:
    """Measures in a child process.

    Raises:
        WattstepError: The child failed, or ended in any other way.
        KeyboardInterrupt: The user stopped it.
        Terminated: SIGTERM or SIGHUP came.
    """
    asked = json.dumps([name, workload, batch_size])
    return EngineProbe.from_dict(
        document_of_child(
            "wattstep.train.calibration.engine_probe:main", asked, f"{workload} on {name}"
        )
    )


def main() -> int:
    """Entry of the child process: the descriptor for news, and what is asked."""
    obey_ctrl_c_once()
    with os.fdopen(int(sys.argv[1]), "w", encoding="utf-8", buffering=1) as news:
        try:
            probe = measure_engine(*json.loads(sys.argv[2]))
            document: dict[str, Any] | ChildNews = {"probe": asdict(probe)}
        except WattstepError as error:
            document = refusal_news(error)
        news.write(json.dumps(document) + "\n")
    return 2 if "error" in document else 0
