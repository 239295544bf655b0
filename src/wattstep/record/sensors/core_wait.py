"""Time in which the training waited for a core: its main thread could run and did not."""

from __future__ import annotations

from pathlib import Path

from wattstep.record.sensors import read_text
from wattstep.schema.channel import Absent, Channel, Present, Sensor, SensorRead

WAITED = 1  # position in schedstat: time on a core, time waiting for one, turns


class CoreWait(Sensor):
    """Time that the main thread stood in a run queue.

    The kernel adds a wait when it ends: it shows at the first read after that.
    """

    name = "core_wait"
    description = "time in which the training's main thread waited for a core"
    scope = "process"

    def probe(self, root: Path, pid: int) -> Present | Absent:
        """Finds the process, and whether its scheduler keeps accounts."""
        if not (root / "proc" / str(pid)).is_dir():
            return Absent(reason=f"there is no process {pid}")
        path = root / "proc" / str(pid) / "schedstat"
        text = read_text(path)
        if isinstance(text, Absent):
            return Absent(reason=f"the kernel keeps no schedstat: {text.reason}")
        if len(text.split()) <= WAITED:
            return Absent(reason="/proc/PID/schedstat does not tell how long threads waited")
        channel = Channel(
            name="process.main_thread.core_wait",
            unit="s",
            kind="counter",
            domain="process",
            role="core_wait",
            source="/proc/PID/schedstat",
            scale=1e-9,
            resolution=1e-9,
        )
        read = SensorRead(
            path=str(path),
            parser="fields",
            arguments=(WAITED,),
            channels=(channel,),
            least_period_s=0.05,
        )
        return Present(reads=(read,))
