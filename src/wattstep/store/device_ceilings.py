"""Measured ceilings of OpenCL devices, kept in the user's cache folder by device and version of its driver."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Final

from wattstep.errors import DamagedRunError
from wattstep.schema.device_ceilings import DeviceCeilings
from wattstep.schema.figure import Missing
from wattstep.store.cache import cache_folder
from wattstep.store.ceilings import write
from wattstep.store.folder import read_plain

FOLDER: Final = "device-ceilings"


def keep(ceilings: DeviceCeilings) -> bool:
    """Keeps them where `find` looks, unless what is kept of the same device has more rows.

    A measurement that was cut short does not take the place of a whole one.

    Returns:
        Whether they were kept.

    Raises:
        RecordingError: The cache folder cannot be written.
    """
    name, driver = str(ceilings.device["name"]), str(ceilings.device["driver"])
    before = find(name, driver)
    if not isinstance(before, Missing) and before.measured > ceilings.measured:
        return False
    write(ceilings, _path(name, driver))
    return True


def find(name: str, driver: str) -> DeviceCeilings | Missing:
    """What was kept of a device, or why there is nothing.

    A file that cannot be read counts as none, as in all caches: measuring again replaces it.

    Args:
        name: Of the device, as its driver calls it.
        driver: Its version.
    """
    try:
        return DeviceCeilings.from_dict(json.loads(read_plain(_path(name, driver))))
    except (OSError, ValueError, DamagedRunError):
        return Missing(
            f"no ceilings of {name or 'the OpenCL device'} are kept: "
            "wattstep ceilings --processor opencl measures them"
        )


def _path(name: str, driver: str) -> Path:
    key = hashlib.sha256(f"{name}\0{driver}".encode()).hexdigest()[:24]
    return cache_folder() / FOLDER / f"{key}.json"
