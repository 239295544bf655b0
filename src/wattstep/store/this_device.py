"""The file of this machine as a device: the last that was calibrated here."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from wattstep.errors import InvalidValueError, RecordingError
from wattstep.store.cache import cache_folder
from wattstep.store.folder import replacing

THIS: Final = "this"  # how commands name it


def keep(text: str) -> None:
    """Writes the file's text where `find` looks.

    Raises:
        RecordingError: The folder cannot be written.
    """
    path = _path()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as file:
            file.write(text.encode())
    except OSError as error:
        raise RecordingError(f"{path} cannot be written: {error.strerror or error}") from error


def find(name: str) -> str:
    """What `wattstep.devices.find` takes for a device's name: the file for `THIS`, else the name.

    Raises:
        InvalidValueError: This machine was not calibrated.
    """
    if name != THIS:
        return name
    if not _path().is_file():
        raise InvalidValueError(
            "this: this machine was not calibrated: `wattstep calibrate-device` does it in a few minutes",
            id="not-calibrated",
        )
    return str(_path())


def _path() -> Path:
    return cache_folder() / "this-device.toml"
