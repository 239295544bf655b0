"""The devices that one sweep drives: a TOML file that names each, says how it is reached and what goes there."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from wattstep import workloads
from wattstep.errors import InvalidValueError, error_of
from wattstep.record.hosts import LOCAL, parse_target
from wattstep.remote.ssh.board import BoardOptions
from wattstep.remote.ssh.ssh import Address
from wattstep.train.child.limits import parse_size

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

EXAMPLE: Final = '[devices.tx2] with target = "ssh://me@tx2.local"'
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_]*")  # becomes a part of names of runs, between "-"
_PASSWORD: Final = re.compile(r"ssh:(?://)?[^@/]*:[^@]*@")
_KEYS: Final = ("target", "workloads", "memory_limit")


@dataclass(frozen=True, kw_only=True)
class Device:
    """Device of a fleet.

    Attributes:
        name: As the file calls it: all that outcomes and messages say of it.
        target: "local", or ssh://USER@BOARD:PORT with options; user and host stay in here.
        workloads: Those that go there, or None for all.
        memory_limit: In bytes, in place of the sweep's, or None.
    """

    name: str
    target: str
    workloads: tuple[str, ...] | None = None
    memory_limit: int | None = None

    def __repr__(self) -> str:
        """Without the target: what is shown somewhere must not name a host."""
        return f"Device({self.name})"


def read_fleet(path: Path) -> tuple[Device, ...]:
    """The devices of a file, in its order.

    Raises:
        InvalidValueError: It is not there or no TOML, a key is unknown, a value cannot be used, or
            two devices are one.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidValueError(
            f"{path} cannot be read: {error.strerror or error}", id="unreadable-file"
        ) from error
    except UnicodeDecodeError:
        raise InvalidValueError(f"{path} is no text in UTF-8", id="not-utf8") from None
    return parse_fleet(text, str(path))


def parse_fleet(text: str, name: str) -> tuple[Device, ...]:
    """The devices of a file's text.

    Args:
        text: TOML.
        name: Name of the file in errors.

    Raises:
        InvalidValueError: As `read_fleet`.
    """
    try:
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InvalidValueError(
            f"{name} is not valid TOML: {error}", id="malformed-toml"
        ) from error
    if unknown := [key for key in document if key != "devices"]:
        raise InvalidValueError(
            f"{name}: {unknown[0]!r} is not known; there is {EXAMPLE}", id="unknown-key"
        )
    tables = document.get("devices")
    if not isinstance(tables, dict) or not tables:
        raise InvalidValueError(f"{name} names no device: write {EXAMPLE}", id="no-devices")
    devices = tuple(_device(f"{name}, device {key!r}", key, table) for key, table in tables.items())
    _check_different(devices, name)
    return devices


def choose(devices: Sequence[Device], wanted: Sequence[str] | None) -> tuple[Device, ...]:
    """Those that `--device` names, or all.

    Raises:
        InvalidValueError: There is none of that name.
    """
    if wanted is None:
        return tuple(devices)
    known = {device.name: device for device in devices}
    for name in wanted:
        if name not in known:
            raise InvalidValueError(
                f"--device {name}: no device of --targets is called so; there are "
                f"{', '.join(known)}",
                id="unknown-device",
            )
    return tuple(known[name] for name in dict.fromkeys(wanted))


def _device(where: str, name: str, table: Any) -> Device:
    if not _NAME.fullmatch(name):
        raise InvalidValueError(
            f"{where}: a name is made of small letters, digits and _, and begins with none of _",
            id="malformed-name",
        )
    if not isinstance(table, dict):
        raise InvalidValueError(f"{where}: a table is wanted: {EXAMPLE}", id="needs-a-table")
    if unknown := [key for key in table if key not in _KEYS]:
        raise InvalidValueError(
            f"{where}: {unknown[0]!r} is not known; there are {', '.join(_KEYS)}", id="unknown-key"
        )
    return Device(
        name=name,
        target=_target(where, table),
        workloads=_workloads(where, table.get("workloads")),
        memory_limit=_limit(where, table.get("memory_limit")),
    )


def _target(where: str, table: Mapping[str, Any]) -> str:
    """The target, of which no error says anything but its options: it may hold a secret."""
    target = table.get("target")
    if not isinstance(target, str):
        raise InvalidValueError(
            f'{where}: target = "ssh://USER@BOARD" or target = "local" wanted', id="needs-a-target"
        )
    scheme = target.partition(":")[0]
    if target == LOCAL:
        return target
    if scheme == "adb":
        raise InvalidValueError(
            f"{where}: a sweep trains on boards and here only: on a phone, wattstep run --from one by one",
            id="no-engine-on-phone",
        )
    if scheme != "ssh":
        raise InvalidValueError(
            f"{where}: target is neither ssh://USER@BOARD nor local, and a sweep trains nowhere else",
            id="not-a-sweep-target",
        )
    if _PASSWORD.match(target):
        raise InvalidValueError(
            f"{where}: target holds a password, which would stand in files and lists of processes: "
            "use a key (ssh-copy-id USER@BOARD) and write ssh://USER@BOARD",
            id="no-password-taken",
        )
    _check_address(where, target)
    return target


def _check_address(where: str, target: str) -> None:
    try:
        parsed = parse_target(target)
        Address.parse(parsed.name)
    except InvalidValueError:
        raise InvalidValueError(
            f"{where}: target is no address: ssh://USER@BOARD or ssh://USER@BOARD:PORT, then "
            "options as ,key=value",
            id="not-a-board-address",
        ) from None
    try:
        BoardOptions.parse(parsed.options)
    except InvalidValueError as error:
        raise error_of(error.document(), f"{where}: {_words(error)}") from error


def _workloads(where: str, names: Any) -> tuple[str, ...] | None:
    if names is None:
        return None
    if not isinstance(names, list) or not names or not all(isinstance(n, str) for n in names):
        raise InvalidValueError(f'{where}: workloads = ["NAME", ...] wanted', id="needs-a-list")
    try:
        for name in names:
            workloads.check_name(name)
    except InvalidValueError as error:
        raise error_of(error.document(), f"{where}: workloads: {error}") from error
    return tuple(dict.fromkeys(names))


def _limit(where: str, text: Any) -> int | None:
    if text is None:
        return None
    if not isinstance(text, str):
        raise InvalidValueError(
            f'{where}: memory_limit = "7GiB" wanted, a size in quotation marks', id="malformed-size"
        )
    try:
        return parse_size(text)
    except InvalidValueError as error:
        raise error_of(error.document(), f"{where}: {_words(error)}") from error


def _check_different(devices: Sequence[Device], name: str) -> None:
    """Refuses two names for one device, which would measure beside each other.

    Raises:
        InvalidValueError: Two have one target, whatever their options.
    """
    seen: dict[tuple[Any, ...], str] = {}
    for device in devices:
        parsed = parse_target(device.target)
        key: tuple[Any, ...] = (parsed.scheme,)
        if parsed.scheme == "ssh":
            address = Address.parse(parsed.name)
            key = (address.host.lower(), address.port or 22)
        if key in seen:
            raise InvalidValueError(
                f"{name}: devices {seen[key]!r} and {device.name!r} have one target: each device "
                "measures one at a time, under one name",
                id="same-target",
            )
        seen[key] = device.name


def _words(error: InvalidValueError) -> str:
    """Complaint of an option of the command line, in the words of a key here."""
    text = str(error).removeprefix("--target ssh: ")
    return text.replace("--memory-limit", "memory_limit", 1)
