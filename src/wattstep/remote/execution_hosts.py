"""Devices that train by themselves, opened by the scheme of their target."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from wattstep.errors import before_recording
from wattstep.record.hosts import parse_target
from wattstep.train.execution_hosts import ExecutionHost

# Scheme to the function that opens the host: (target, say) -> ExecutionHost; `say` takes lines for the user.
OPENERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "ssh": "wattstep.remote.ssh.board:open_execution_host",
        "adb": "wattstep.remote.phone.host:open_execution_host",
    }
)


def open_device(target: str, say: Callable[[str], None]) -> ExecutionHost:
    """Opens the device that a target names; see `api.open_execution_host`."""
    parsed = parse_target(target)
    module, _, function = OPENERS[parsed.scheme].partition(":")
    with before_recording():
        host: ExecutionHost = getattr(importlib.import_module(module), function)(parsed, say)
    return host
