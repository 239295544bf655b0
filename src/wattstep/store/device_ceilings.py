"""Measured ceilings of OpenCL devices, kept in the user's cache folder by device and version of its driver."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from wattstep.errors import DamagedRunError, RecordingError
from wattstep.schema.device_ceilings import DeviceCeilings
from wattstep.schema.figure import Missing
from wattstep.store.cache import cache_folder
from wattstep.store.folder import read_plain, replacing

FOLDER: Final = "device-ceilings"


def keep(ceilings: DeviceCeilings) -> bool:
    """Keeps them where `find` looks, unless what is kept of the same device has more rows.

    A measurement that was cut short does not take the place of a whole one.

    Returns:
        Whether they were kept.

    Raises:
        RecordingError: The cache folder cannot be written.
    """
    before = find(ceilings.device)
    if not isinstance(before, Missing) and before.measured > ceilings.measured:
        return False
    path = _path(ceilings.device)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as file:
            file.write(json.dumps(ceilings.to_dict(), indent=1).encode() + b"\n")
    except OSError as error:
        raise RecordingError(
            f"{path} cannot be written: {error.strerror or error}", id="unwritable-ceilings"
        ) from error
    return True


def find(device: Mapping[str, Any]) -> DeviceCeilings | Missing:
    """What was kept of a device, or why there is nothing.

    A file that cannot be read counts as none, as in all caches: measuring again replaces it.

    Args:
        device: Facts with "name" and "driver", as a run or `Device.facts` has them.
    """
    try:
        return DeviceCeilings.from_dict(json.loads(read_plain(_path(device))))
    except (OSError, ValueError, DamagedRunError):
        return Missing(
            f"no ceilings of {device.get('name', 'the OpenCL device')} are kept: "
            "wattstep ceilings --processor opencl measures them"
        )


def _path(device: Mapping[str, Any]) -> Path:
    key = "\0".join(str(device.get(name)) for name in ("name", "driver"))
    return cache_folder() / FOLDER / f"{hashlib.sha256(key.encode()).hexdigest()[:24]}.json"
