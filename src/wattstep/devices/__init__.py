"""Devices by name, alias or file: what predictions need to know of them. One TOML file each."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import cache
from pathlib import Path

from wattstep.devices.loading import parse_device
from wattstep.devices.table import Device
from wattstep.errors import InvalidValueError
from wattstep.schema.sanitize import plain

FOLDER = Path(__file__).parent


def names() -> list[str]:
    """The devices that have a file, in order of their names."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def find(name: str) -> Device:
    """The device of this name, alias or file.

    Args:
        name: E.g. "jetson-tx2", "tx2", or the path of a TOML file (it ends in .toml).

    Raises:
        InvalidValueError: There is none, or its file is wrong.
    """
    if name.endswith(".toml"):
        return _of_file(Path(name))
    word = name.strip().lower().replace("_", "-").replace(" ", "-")
    if word in names():
        return _shipped(word)
    for one in map(_shipped, names()):
        if word in one.aliases:
            return one
    raise InvalidValueError(
        f"{name!r} is no device: there are {', '.join(names())}; a file of your own ends in .toml",
        id="unknown-device",
    )


@cache
def _shipped(name: str) -> Device:
    return parse_device((FOLDER / f"{name}.toml").read_bytes(), name, f"devices/{name}.toml")


def _of_file(path: Path) -> Device:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InvalidValueError(
            f"{path} cannot be read: {error.strerror or error}", id="unreadable-file"
        ) from error
    device = parse_device(data, plain(path.stem), os.fspath(path))
    return replace(device, file=os.fspath(path))
