"""CPU time of the training process from the scheduler's accounts, where perf is not to be had."""

from __future__ import annotations

from pathlib import Path

from wattstep.record.sensors import read_text
from wattstep.schema.channel import Absent, Channel, Present, Sensor, SensorRead


class ThreadTimes(Sensor):
    """On-CPU time summed over the threads that live.

    It moves in steps of the scheduler's tick (4 ms at 250 Hz) while a thread runs, so it is fine
    over seconds, not over one sample; and it falls when a thread ends and takes its time along.
    """

    name = "process_threads"
    description = "CPU time of the training process, coarse"
    scope = "process"

    def probe(self, root: Path, pid: int) -> Present | Absent:
        """Finds the process, and whether its scheduler keeps accounts."""
        process = root / "proc" / str(pid)
        if not process.is_dir():
            return Absent(reason=f"there is no process {pid}")
        text = read_text(process / "task" / str(pid) / "schedstat")
        if isinstance(text, Absent):
            return Absent(reason=f"the kernel keeps no schedstat: {text.reason}")
        channel = Channel(
            name="process.thread_time",
            unit="s",
            kind="counter",
            domain="process",
            role="process_cpu_time_coarse",
            source="/proc/PID/task/*/schedstat",
            scale=1e-9,
        )
        read = SensorRead(
            path=str(process / "task"), parser="threads", channels=(channel,), least_period_s=0.1
        )
        return Present(reads=(read,))
