"""Makes the one file that records on a board: plans what it reads, and puts plan and sampler inside."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from wattstep.errors import RecordingError
from wattstep.record.sampling.plan import DITHER, SELF, make_plan
from wattstep.record.sampling.sampler import CHILD_FILE
from wattstep.record.sensors import probe_all
from wattstep.record.sensors.machine import describe
from wattstep.remote.agent.bundling import bundle
from wattstep.remote.agent.looking import Look, board_tree
from wattstep.schema.channel import Absent, Present, SensorRead
from wattstep.schema.run_documents import DeviceFacts
from wattstep.train.environment.canary import PLAIN_FILE

BOARD = "wattstep.remote.agent.board"
PERIOD_S = 0.01  # of the plan; the agent lays it out anew for the period that it is asked for
FILES_ONLY = (
    "the agent reads files only, and on this board a command or a library gives these values"
)
# What these sensors say of a tree is true of it, and misleads where the tree stands for a board.
REASONS = {
    "process_cpu": "the agent opens no perf counters: its CPU time is the process's own clock, read "
    "at every step, and the scheduler's account of threads",
    "nvml": FILES_ONLY,
}
COMMANDS = {"tegrastats": "tegrastats", "raspberry": "vcgencmd", "raspberry_clock": "vcgencmd"}
PAGES, TICKS = ("statm",), ("cores", "stat_total")  # what counts in the board's own units


@functools.cache
def bare_agent() -> str:
    """The file without a plan: it can look, and nothing else."""
    return bundle(f"{BOARD}.wattstep_agent", f"{BOARD}.old_python")


def make_agent(look: Look) -> str:
    """The file for one board.

    Args:
        look: Facts of the board.

    Raises:
        InvalidValueError: The look contradicts itself.
    """
    text = bare_agent()
    contents = {
        "CHILD": CHILD_FILE.read_text(encoding="utf-8"),
        "CANARY": PLAIN_FILE.read_text(encoding="utf-8"),
        "PLAN": _plan_text(look),
    }
    for name, content in contents.items():
        line = f'\n{name} = ""\n'
        if text.count(line) != 1:
            raise RecordingError(f"the agent of this wattstep has no place for its {name}")
        text = text.replace(line, f"\n{name} = (\n{_literal(content)})\n")
    return text


def _plan_text(look: Look) -> str:
    return json.dumps(make_agent_plan(look), indent=1)


def _literal(text: str) -> str:
    """A literal of ASCII for each line: who puts the file on a board can read what it does."""
    return "".join(f"    {json.dumps(line)}\n" for line in text.splitlines(keepends=True))


def make_agent_plan(look: Look) -> dict[str, Any]:
    """Plan of what the agent reads, JSON-ready.

    Returns:
        `reads` (as `RunInfo.reads`), `entries` (as the sampler's child takes them, with the least
        period of each; `{pid}` stands for the training), `absent` (reason by sensor), `dither` and
        `device`.
    """
    with board_tree(look) as root:
        results = probe_all(root, look.pid)
        results = {name: _usable(name, result, root, look) for name, result in results.items()}
        device = _device(root, look)
        hidden = str(root)
    plan = make_plan(results, PERIOD_S, hidden=hidden)
    periods = [SELF.least_period_s]
    for result in results.values():
        if isinstance(result, Present):
            periods += [read.least_period_s for read in result.reads]
    entries = [
        {**entry, "least_period_s": period}
        for entry, period in zip(plan.entries, periods, strict=True)
    ]
    document = {
        "reads": [asdict(read) for read in plan.reads],
        "entries": _of_any_process(entries, look.pid),
        "absent": dict(plan.absent),
        "dither": DITHER,
        "device": device,
    }
    # The tree stands for the board's root, wherever its name got to.
    rooted: dict[str, Any] = json.loads(json.dumps(document).replace(hidden, ""))
    return rooted


def _of_any_process(entries: list[dict[str, Any]], pid: int) -> list[dict[str, Any]]:
    """Entries in which the training's own number is left open."""
    own = f"/proc/{pid}"
    return [
        {**entry, "path": str(entry["path"]).replace(f"{own}/", "/proc/{pid}/", 1)}
        if f"{own}/" in str(entry["path"])
        else {**entry, "path": str(entry["path"]).removesuffix(own) + "/proc/{pid}"}
        if str(entry["path"]).endswith(own)
        else entry
        for entry in entries
    ]


def _usable(name: str, result: Present | Absent, root: Path, look: Look) -> Present | Absent:
    """Sensor as far as the agent can read it, in the board's own units; or the agent's reason why not."""
    if isinstance(result, Absent):
        if COMMANDS.get(name) in look.commands:
            return Absent(reason=FILES_ONLY)
        if name in REASONS:
            return Absent(reason=REASONS[name])
        return Absent(reason=_reason(result.reason.replace(str(root), ""), look.unreadable))
    reads = tuple(_in_units(read, look) for read in result.reads if not read.push_source)
    return Present(reads=reads) if reads else Absent(reason=FILES_ONLY)


def _reason(reason: str, unreadable: Mapping[str, int]) -> str:
    """Reason why a file cannot be read: the board's, not that of the stand-in in the tree."""
    named = [path for path in unreadable if path in reason]
    if not named:
        return reason
    path = max(named, key=len)
    return f"{path}: {os.strerror(unreadable[path]).lower()} for the user who looked"


def _in_units(read: SensorRead, look: Look) -> SensorRead:
    """The read with the board's size of a page and length of a tick instead of this machine's."""
    factor = 1.0
    if Path(read.path).name in PAGES:
        factor = look.page_size / os.sysconf("SC_PAGE_SIZE")
    elif read.parser in TICKS:
        factor = os.sysconf("SC_CLK_TCK") / look.clock_ticks
    if factor == 1.0:
        return read
    channels = tuple(
        replace(
            channel,
            scale=channel.scale * factor,
            resolution=None if channel.resolution is None else channel.resolution * factor,
        )
        for channel in read.channels
    )
    return replace(read, channels=channels)


def _device(root: Path, look: Look) -> DeviceFacts:
    """The board's facts; what `describe` takes from the running system comes from the look."""
    device = describe(root)
    if device["cpu"] == device["architecture"]:
        device["cpu"] = look.machine
    device["architecture"] = look.machine
    device["kernel"] = look.release.split("-")[0]
    return device
