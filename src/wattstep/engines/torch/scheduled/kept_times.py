"""Performance models of this machine's operations, kept between runs in the user's cache folder."""

from __future__ import annotations

import hashlib
import os
import platform
from contextlib import suppress
from pathlib import Path
from typing import Final

import torch

from wattstep.engines.torch.kept_steps import VARIABLES
from wattstep.errors import InvalidValueError
from wattstep.schedule.machine import Machine
from wattstep.schedule.model import TaskTimes
from wattstep.schedule.times import MachineTimes
from wattstep.store.cache import cache_folder

FOLDER: Final = "task-times"
_PROCESSOR: Final = (
    "model name", "CPU implementer", "CPU variant", "CPU part", "flags", "Features", "cache size",
)  # fmt: skip


def device(machine: Machine) -> str:
    """What the times of operations depend on, but for what else the machine does: processor, cores, torch, settings.

    Args:
        machine: Whose cores are planned for.
    """
    processor = _processor()
    what = "\0".join(
        [
            *(f"{key}={value}" for key, value in processor),
            torch.__config__.show(),
            *(f"{key}={value}" for key, value in sorted(os.environ.items()) if key.startswith(VARIABLES)),
        ]
    )  # fmt: skip
    name = dict(processor).get("model name") or platform.machine()
    usable = ",".join(map(str, sorted(os.sched_getaffinity(0))))
    digest = hashlib.sha256(what.encode()).hexdigest()[:16]
    kinds = (
        f" on {','.join(each.name for each in machine.clusters)}"
        if len(machine.clusters) > 1
        else ""
    )
    return f"{name}, cores {usable}, {machine.count} threads{kinds}, torch {torch.__version__}, {digest}"


def path_of(machine: Machine) -> Path:
    """File of the model of this machine, where there is one."""
    digest = hashlib.sha256(device(machine).encode()).hexdigest()[:24]
    return cache_folder() / FOLDER / f"{digest}.json"


def read(machine: Machine) -> tuple[TaskTimes, str]:
    """The model of this machine, empty where none is kept, and why one that is kept cannot be used, or "".

    Args:
        machine: Its cores; several clusters are named by them.
    """
    prior, most = MachineTimes(machine), tuple(each.cores for each in machine.clusters)
    path, name = path_of(machine), device(machine)
    problem = ""
    if path.exists():
        try:
            model = TaskTimes.load(path, name, prior=prior)
            if model.most == most:
                return model, ""
            problem = f"{path} is of other threads"
        except InvalidValueError as error:
            problem = str(error)
    return TaskTimes(name, most, prior=prior), problem


def keep(model: TaskTimes, machine: Machine) -> str:
    """Writes a model where `read` looks; returns why that failed, or "".

    Args:
        model: Of this machine.
        machine: As of `read`.
    """
    path = path_of(machine)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        model.save(path)
    except OSError as error:
        return f"{path} cannot be written: {error.strerror or error}"
    return ""


def _processor() -> list[tuple[str, str]]:
    """What the system tells of the first processor."""
    facts: dict[str, str] = {}
    with suppress(OSError), Path("/proc/cpuinfo").open(encoding="utf-8", errors="replace") as file:
        for line in file:
            key, _, value = line.partition(":")
            if not line.strip():
                break
            if key.strip() in _PROCESSOR:
                facts.setdefault(key.strip(), value.strip())
    return [("machine", platform.machine()), *facts.items()]
