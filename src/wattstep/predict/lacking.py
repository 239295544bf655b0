"""What a device's file lacks of a prediction, all of it at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from wattstep.devices.table import Device, KindValues, quoted
from wattstep.errors import InvalidValueError


def absent_values(
    kinds: Mapping[str, KindValues], framework: str, needed: Mapping[str, Iterable[str]]
) -> list[str]:
    """Keys of fitted values that are not there; of a kind without any, its table alone.

    Args:
        kinds: Of the framework.
        framework: As the file names it.
        needed: Names of values by kind.
    """
    absent = []
    for kind, keys in needed.items():
        table = ".".join(map(quoted, ("kinds", framework, kind)))
        values = kinds[kind].values if kind in kinds else {}
        without = [key for key in keys if key not in values]
        absent += (
            [f"{table}.{quoted(key)}" for key in without] if values else [table][: len(without)]
        )
    return absent


def refuse_lacking(device: Device, absent: Sequence[str], advice: str = "") -> None:
    """Refuses a device that lacks something.

    Args:
        device: The device.
        absent: What it lacks, by keys of its file.
        advice: What would supply that; "": the device's own screen says it.

    Raises:
        InvalidValueError: It does.
    """
    if absent:
        advice = advice or f"`wattstep devices {device.called}` shows what would tell"
        raise InvalidValueError(
            f"{device.name} lacks {', '.join(absent)}: {advice}", id="device-lacks-values"
        )
