"""Energy of turns, by the sensors or the power model of a recorder that records no steps."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

from wattstep.errors import WattstepError
from wattstep.record.recorder import Recorder
from wattstep.schema.figure import Status
from wattstep.train.governor.power import PowerLog

WAIT_S: Final = 2.0  # for the samples of a turn


class TurnPower:
    """Samples power beside the turns of this process.

    Args:
        folder: Of the recorder, which must not be there.
        workload: What trains, by name.
        interval: Period of the sampler.
        power_model: As `Recorder` takes it.
        target: Likewise.
    """

    def __init__(
        self, folder: Path, *, workload: str, interval: str, power_model: str | None,
        target: str | None,
    ) -> None:  # fmt: skip
        self._recorder = Recorder(
            folder, interval=interval, trace="none", power_model=power_model, target=target,
            about={"workload": workload},
        ).start()  # fmt: skip
        self._log: PowerLog | None = None
        try:
            self._log = PowerLog(self._recorder)
        except WattstepError:  # the search says that nothing tells the power
            self._recorder.close()

    @property
    def status(self) -> str:
        """Of its energies, by name."""
        return Status.MISSING.value if self._log is None else self._log.status.value

    def joules(self, begin_ns: int, end_ns: int, steps: int) -> float | None:
        """Of a step within a stretch, mean; None where too little was sampled."""
        if self._log is None:
            return None
        until = time.monotonic() + WAIT_S
        while self._log.look() < end_ns and time.monotonic() < until:
            time.sleep(0.01)
        (total,) = self._log.energies([(begin_ns, end_ns)])
        return total / steps if total == total and total > 0 else None

    def close(self) -> None:
        """Ends the recording."""
        if self._log is not None:
            self._recorder.close()
