"""An Android phone as a target, "adb:SERIAL": its sensors, for looking at; `remote.phone` runs commands there."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from wattstep.errors import InvalidValueError, RecordingError
from wattstep.record.sensors.android import probe
from wattstep.record.sensors.android.look import trouble
from wattstep.schema.channel import Absent, Present
from wattstep.schema.run_documents import DeviceFacts

LIST_S = 30.0  # that adb may take to start and to list phones


def find_serial(name: str, adb: str = "adb") -> str:
    """The phone that is meant: the one of this serial number, or the only one where none is given.

    Raises:
        RecordingError: None was named, and there is none, several, or none that can be used.
    """
    if name:
        return name
    try:
        listed = subprocess.run(
            [adb, "devices"], stdin=subprocess.DEVNULL, capture_output=True, timeout=LIST_S,
            check=False, env=dict(os.environ),
        ).stdout.decode(errors="replace")  # fmt: skip
    except FileNotFoundError:
        raise RecordingError(
            "--target adb: adb is not installed: it is in the Android platform tools"
        ) from None
    except subprocess.TimeoutExpired:
        raise RecordingError(f"--target adb: adb did not answer within {LIST_S:.0f} s") from None
    phones = [line.split("\t") for line in listed.splitlines() if "\t" in line]
    if not phones:
        raise RecordingError(f"--target adb: {trouble('no devices')}", id="no-such-phone")
    usable = [serial for serial, state, *_ in phones if state.strip() == "device"]
    if len(usable) > 1:
        raise RecordingError(f"--target adb: {trouble('more than one')}", id="several-phones")
    if not usable:
        raise RecordingError(f"--target adb: {trouble(phones[0][1])}")
    return usable[0]


def check_options(options: Mapping[str, str]) -> None:
    """Refuses what is no option of a phone: adb= (the command) and runner= (what trains there, see `remote.phone`).

    Raises:
        InvalidValueError: One is unknown.
    """
    if unknown := set(options) - {"adb", "runner"}:
        raise InvalidValueError(
            f"--target adb: no option {sorted(unknown)[0]!r}: there are adb= and runner=",
            id="unknown-target-option",
        )


class PhoneHost:
    """The phone with this serial number, which appears in nothing that is recorded.

    Args:
        serial: As `adb devices` lists it.
        adb: The command.
        root: Before every path on the phone; "" but in tests.

    Raises:
        RecordingError: The phone cannot be reached.
    """

    def __init__(self, serial: str, adb: str = "adb", root: str = "") -> None:
        phone = probe(serial, adb, root)
        missing = phone.sensors["phone"]
        if isinstance(missing, Absent):
            raise RecordingError(f"--target adb: {missing.reason}")
        self._sensors = phone.sensors
        self.device: DeviceFacts = phone.device
        self.notes: tuple[str, ...] = phone.notes
        self.hidden = ""
        self.root = None

    def probe(self) -> dict[str, Present | Absent]:
        """Reads found when it was opened: "phone", and a reason for each part that is missing."""
        return dict(self._sensors)

    def close(self) -> None:
        """The loop on the phone ends with the collector."""


def open_host(name: str, options: Mapping[str, str], pid: int, folder: Path) -> PhoneHost:
    """As `record.hosts.TARGETS` names it; see `check_options`.

    Raises:
        InvalidValueError: An option is unknown.
        RecordingError: The phone cannot be reached.
    """
    check_options(options)
    adb = options.get("adb", "adb")
    return PhoneHost(find_serial(name, adb), adb)
