from __future__ import annotations

from pathlib import Path

import pytest

from wattstep.errors import InvalidValueError, RecordingError
from wattstep.record.hosts import open_host, parse_target
from wattstep.record.hosts.phone import PhoneHost
from wattstep.schema.channel import Absent, Present

SERIAL = "192.168.1.7:5555"  # a phone over Wi-Fi has its address for a number


def make_adb(tmp_path: Path, body: str) -> str:
    path = tmp_path / "adb"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return str(path)


def test_a_phone_is_a_target_by_its_serial_number(tmp_path):
    adb = make_adb(tmp_path, f'[ "$2" = "{SERIAL}" ] && exec sh -c "$4"')
    target = parse_target(f"adb:{SERIAL},adb={adb}")
    assert (target.scheme, target.name) == ("adb", SERIAL)
    host = open_host(target, 1, tmp_path)
    found = host.probe()
    assert isinstance(found["phone"], Present)
    assert isinstance(found["phone_rails"], Absent)
    assert SERIAL not in str((host.device, host.notes))
    assert {"model", "cpu", "cores", "memory", "kernel", "system"} <= set(host.device)
    host.close()


@pytest.mark.parametrize(
    ("said", "advice"),
    [
        (f"error: device '{SERIAL}' not found", "adb devices"),
        ("error: device unauthorized.", "on its screen"),
        ("error: device offline", "reconnect"),
        ("error: more than one device/emulator", "name one"),
        ("Segmentation fault", "no answer"),
    ],
)
def test_a_phone_that_cannot_be_reached_is_one_line_without_its_number(tmp_path, said, advice):
    adb = make_adb(tmp_path, f'echo "{said}" >&2; exit 1')
    with pytest.raises(RecordingError) as caught:
        PhoneHost(SERIAL, adb)
    assert advice in str(caught.value)
    assert SERIAL not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_unknown_option_is_an_error(tmp_path):
    with pytest.raises(InvalidValueError, match="speed"):
        open_host(parse_target("adb:X,speed=3"), 1, tmp_path)
