"""The ceilings of an OpenCL device: asks a process of its own for each, and goes on where a driver ends one."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from wattstep.errors import DeviceFaultError, WattstepError, error_of
from wattstep.opencl.child import (
    ENTRY,
    TASKS,
    OutcomeDocument,
    Report,
    Request,
    outcome_document,
)
from wattstep.opencl.config import KINDS, Config
from wattstep.opencl.convolution import WAYS
from wattstep.opencl.limits import SILENT_S, run_limited
from wattstep.opencl.measuring import NUMPY, TUNED
from wattstep.schema.device_ceilings import CeilingRow, CeilingTable, DeviceCeilings
from wattstep.schema.figure import Missing

MOST_LOST: Final = 8  # processes that a driver may end
SAID_EVERY_S: Final = 5.0  # while a search goes on
TABLES: Final = {
    "products": ("products of matrices", (*KINDS[:-1], TUNED, NUMPY)),
    "steps": (
        "what each step of optimization gains at 1024",
        ("reached", "over the step before", "over the first"),
    ),
    "convolutions": ("convolutions, as FLOP of the direct one", WAYS),
    "bandwidth": ("memory, bytes read and written", ("device", NUMPY)),
    "copies": (
        "copies between host and device",
        ("to, copied", "from, copied", "to, mapped", "from, mapped", "in place", NUMPY),
    ),
    "launch": ("an empty kernel", ("time",)),
}  # fmt: skip
Run = Callable[[str, list[str], Callable[[Report], None], float, float], str]


@dataclass
class _Asking:
    """What is still to be measured, and what was.

    Attributes:
        tasks: Still to do.
        rows: By table.
        notes: Of all processes.
        device: Facts, once known.
        host: Likewise.
        error: The refusal that ended a process.
        outcomes: Of candidates of the task that is being done.
        candidate: That is being tried, None for none.
        lost: Processes that a driver ended.
        begun: Whether the process has begun a task.
        said: What was told last.
        said_at: When.
    """

    tell: Callable[[str], None]
    tasks: list[str]
    rows: dict[str, list[CeilingRow]] = field(default_factory=lambda: {name: [] for name in TABLES})
    notes: list[str] = field(default_factory=list)
    device: Mapping[str, Any] = field(default_factory=dict)
    host: Mapping[str, Any] = field(default_factory=dict)
    error: WattstepError | None = None
    outcomes: list[OutcomeDocument] = field(default_factory=list)
    candidate: Mapping[str, Any] | None = None
    lost: int = 0
    begun: bool = False
    said: str = ""
    said_at: float = 0.0

    def hear(self, news: Report) -> None:
        """Takes in a line of news."""
        if "error" in news:
            self.error = error_of(news, news["error"], DeviceFaultError)
        elif "device" in news:
            self.device, self.host = news["device"], news["host"]
        elif "task" in news:
            if self.begun:  # the one before is done
                self._done()
            self.begun = True
        elif "candidate" in news:
            self.candidate = news["candidate"]
            if time.monotonic() - self.said_at > SAID_EVERY_S:
                self._say(f"{len(self.outcomes)} tried, now {Config.from_dict(news['candidate'])}")
        elif "outcome" in news:
            self.outcomes.append(news["outcome"])
            self.candidate = None
        elif "row" in news:
            self.rows[news["table"]].append(CeilingRow.from_dict(news["row"]))
        elif "note" in news:
            self.notes.append(news["note"])
        elif "stage" in news:
            self._say(news["stage"])

    def _say(self, text: str) -> None:
        if text != self.said:
            self.said, self.said_at = text, time.monotonic()
            self.tell(text)

    def _done(self) -> None:
        self.tasks.pop(0)
        self.outcomes, self.candidate = [], None

    def leave_out(self, why: str) -> None:
        """Measures nothing more."""
        if self.tasks:
            names = ", ".join(self.tasks)
            self.notes.append(f"{why}: {len(self.tasks)} parts were not measured ({names})")
            self.tasks.clear()

    def ended(self, how: str) -> None:
        """A process has ended; "" for well.

        Raises:
            DeviceFaultError: Drivers ended too many, or one before it began.
            WattstepError: The process refused.
        """
        if not how and self.error is None:
            self.tasks.clear()
            return
        if self.error is not None and not self.begun:
            raise self.error
        self.lost += 1
        name = self.device.get("name", "the OpenCL device")
        if not self.begun or self.lost > MOST_LOST:
            raise DeviceFaultError(f"{name}: {how or self.error}", id="opencl-process")
        task, reason = self.tasks[0], f"{name}: {how or self.error}"
        if self.candidate is not None:
            config = Config.from_dict(self.candidate)
            self.outcomes.append(outcome_document(config, Missing(reason)))
            self.notes.append(f"{config} ended the process that tried it: {how or self.error}")
        else:
            self.notes.append(f"{task} was not measured: {how or self.error}")
            self._done()
        self.candidate, self.begun, self.error = None, False, None


def measure(
    which: str | None,
    seconds: float,
    *,
    retune: bool = False,
    tell: Callable[[str], None] = lambda text: None,
    host: Mapping[str, str | int] | None = None,
    run: Run = run_limited,
) -> DeviceCeilings:
    """Measures the ceilings of a device; what is not measured when the time is up is left out, and named.

    Args:
        which: The device, as `device.choose` takes it.
        seconds: How long all of it may take, in equal parts of what is left; what runs then is ended.
            Kernels that were found before are not searched again.
        retune: Whether to search again all the same.
        tell: Hears what is measured next.
        host: Facts of the CPU that is measured beside it.
        run: Runs the process, as `limits.run_limited`.

    Raises:
        InvalidValueError: There is no such device.
        MissingPartError: pyopencl or a driver is not installed.
        DeviceFaultError: The driver refuses, hangs or crashes whatever is tried.
    """
    begin = time.monotonic()
    asking = _Asking(tell, list(TASKS))
    try:
        while asking.tasks:
            left = begin + seconds - time.monotonic()
            request: Request = {
                "device": which,
                "tasks": asking.tasks.copy(),
                "seconds": left,
                "retune": retune,
                "parent": os.getpid(),
                "outcomes": asking.outcomes.copy(),
            }
            how = run(ENTRY, [json.dumps(request)], asking.hear, SILENT_S, left)
            if how and time.monotonic() >= begin + seconds:
                if not asking.device:
                    raise DeviceFaultError(
                        f"no OpenCL device was open after {seconds:g} s", id="opencl-process"
                    )
                asking.leave_out(f"{seconds:g} s were up")
            else:
                asking.ended(how)
    except KeyboardInterrupt:
        if not any(asking.rows.values()):
            raise
        asking.leave_out("Ctrl-C came")
    target = asking.device.get("target")
    if target:
        asking.notes.insert(0, f"PoCL's compiler does not know this CPU, and was told {target}")
    return DeviceCeilings(
        created=time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        device=asking.device,
        host={**(host or {}), **asking.host},
        tables=[
            CeilingTable(name=name, title=title, columns=columns, rows=asking.rows[name])
            for name, (title, columns) in TABLES.items()
        ],
        seconds=time.monotonic() - begin,
        notes=list(dict.fromkeys(asking.notes)),
    )
