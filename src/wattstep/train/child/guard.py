"""The first lines of a child that works for us: bounds itself before anything large is loaded."""

from __future__ import annotations

import importlib
import json
import os
import resource
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from wattstep.schema.processes import end_with


def main() -> int:
    """Entry of the child process: what bounds it as JSON, then what it works on and its arguments.

    What the child starts (the sampler, data loaders) is bounded as well.
    """
    apply(json.loads(sys.argv.pop(1)))
    module, _, function = sys.argv.pop(1).partition(":")
    # torch, pyarrow and the rest are loaded from here on
    return int(getattr(importlib.import_module(module), function)())


def apply(guard: dict[str, Any]) -> None:
    """Bounds this process.

    Args:
        guard: `cgroup`: the file that takes its processes. `data`: bytes of data segments.
            `parent`: the process without which it must not go on. `cores`: where it may run.

    Raises:
        OSError: The limit cannot be set; nothing may be measured without it.
    """
    # Where the machine's own memory runs out, this process is the one to go. A wish, no more.
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    if "cgroup" in guard:
        with Path(guard["cgroup"]).open("r+", encoding="ascii") as file:
            file.write("0")
    if "data" in guard:
        resource.setrlimit(resource.RLIMIT_DATA, (guard["data"], guard["data"]))
    if "cores" in guard:  # before torch asks how many there are
        os.sched_setaffinity(0, guard["cores"])
    if "parent" in guard:
        # A second measurement beside one that nobody waits for would spoil both.
        end_with(guard["parent"])
