"""The file of devices: what it says, and every way in which it may be wrong, in one line without a secret."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.refusals import refused

from wattstep.errors import InvalidValueError
from wattstep.sweep.fleet_file import Device, choose, parse_fleet, read_fleet

TWO = """
[devices.tx2]
target = "ssh://me@tx2.local,keep=yes"
workloads = ["squeezenet", "lenet", "squeezenet"]
memory_limit = "7GiB"

[devices.laptop]
target = "local"
"""


def test_a_file_names_devices_in_its_order(tmp_path: Path) -> None:
    path = tmp_path / "fleet.toml"
    path.write_text(TWO)
    tx2, laptop = read_fleet(path)
    assert (tx2.name, tx2.target) == ("tx2", "ssh://me@tx2.local,keep=yes")
    assert tx2.workloads == ("squeezenet", "lenet")
    assert tx2.memory_limit == 7 * 1024**3
    assert laptop == Device(name="laptop", target="local")
    assert choose((tx2, laptop), ["laptop"]) == (laptop,)
    assert choose((tx2, laptop), None) == (tx2, laptop)
    with refused("unknown-device", "--device nano", "tx2, laptop"):
        choose((tx2, laptop), ["nano"])


def test_one_machine_may_serve_two_ports() -> None:
    text = '[devices.a]\ntarget="ssh://me@h:1"\n[devices.b]\ntarget="ssh://me@h:2"'
    assert [device.name for device in parse_fleet(text, "f")] == ["a", "b"]


def device(keys: str, name: str = "tx2") -> str:
    return f"[devices.{name}]\n{keys}\n"


@pytest.mark.parametrize(
    ("text", "id", "named"),
    [
        ("", "no-devices", ""),
        ("[devices]", "no-devices", ""),
        ("devices = 3", "no-devices", ""),
        ("devices = [1", "malformed-toml", ""),
        ("[device.tx2]", "unknown-key", "'device'"),
        ("[devices]\ntx2 = 'local'", "needs-a-table", "device 'tx2'"),
        (device("target = 'local'", "'a b'"), "malformed-name", "device 'a b'"),
        (device("target = 'local'", "'../x'"), "malformed-name", ""),
        (device("target = 'local'", "TX2"), "malformed-name", ""),
        (device("target = 'local'\ncolour = 1"), "unknown-key", "device 'tx2': 'colour'"),
        (device(""), "needs-a-target", "target = "),
        (device("target = 7"), "needs-a-target", "target = "),
        (device("target = 'replay:file.csv'"), "not-a-sweep-target", "ssh://USER@BOARD"),
        (device("target = 'adb://0123SERIAL'"), "no-engine-on-phone", ""),
        (device("target = 'ssh://me@board:99999'"), "not-a-board-address", ""),
        (device("target = 'ssh://'"), "not-a-board-address", ""),
        (device("target = 'ssh://me@board,colour=red'"), "unknown-target-option", "colour"),
        (device("target = 'ssh://me@board,keep=maybe'"), "malformed-option", "keep=maybe"),
        (device("target = 'ssh://me@board,reconnect=soon'"), "malformed-duration", "soon"),
        (device("target = 'local'\nworkloads = []"), "needs-a-list", "workloads = "),
        (device("target = 'local'\nworkloads = 'lenet'"), "needs-a-list", "workloads = "),
        (device("target = 'local'\nworkloads = ['lenette']"), "unknown-workload", "lenette"),
        (device("target = 'local'\nmemory_limit = 7"), "malformed-size", 'memory_limit = "7GiB"'),
        (
            device("target = 'local'\nmemory_limit = 'much'"),
            "malformed-size",
            "memory_limit 'much'",
        ),
        (
            device("target='local'", "a") + device("target='local'", "b"),
            "same-target",
            "'a' and 'b'",
        ),
        (
            device("target='ssh://me@h'", "a") + device("target='ssh://you@H:22,keep=yes'", "b"),
            "same-target",
            "'a' and 'b'",
        ),
    ],
)
def test_what_is_wrong_is_said_in_one_line_with_file_and_device(
    text: str, id: str, named: str
) -> None:
    with refused(id, named) as raised:
        parse_fleet(text, "fleet.toml")
    assert "fleet.toml" in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "target",
    [
        "ssh://alice:hunter2@secret.example",
        "ssh:alice:hunter2@secret.example,keep=yes",
        "ssh://alice:@secret.example",
        "ssh://alice@secret.example:port",
        "ssh://alice@secret.example@other",
        "adb://secret.example",
        "ftp://alice:hunter2@secret.example",
    ],
)
def test_no_error_names_a_user_a_host_or_a_password(target: str) -> None:
    with pytest.raises(InvalidValueError) as raised:
        parse_fleet(device(f'target = "{target}"'), "fleet.toml")
    for secret in ("alice", "hunter2", "secret.example"):
        assert secret not in str(raised.value)
    assert ("holds a password" in str(raised.value)) == (
        target.startswith("ssh:") and ("hunter2" in target or ":@" in target)
    )


def test_what_shows_a_device_shows_its_name_alone() -> None:
    (tx2, _) = parse_fleet(TWO, "f")
    assert repr(tx2) == "Device(tx2)"


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with refused("unreadable-file", "none.toml", "No such file"):
        read_fleet(tmp_path / "none.toml")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with refused("not-utf8", "binary"):
        read_fleet(tmp_path / "binary")


VALUES = st.one_of(
    st.text(max_size=20),
    st.integers(),
    st.lists(st.text(max_size=8), max_size=3),
    st.sampled_from(["local", "ssh://me@b", "ssh://me@b,keep=yes", "adb://x", "7GiB", "lenet"]),
)


def spelt(value: object) -> str:
    """As TOML writes it."""
    if isinstance(value, list):
        return f"[{', '.join(map(spelt, value))}]"
    if isinstance(value, int):
        return str(value)
    return '"' + "".join(f"\\U{ord(c):08X}" for c in str(value)) + '"'


@given(
    st.dictionaries(
        st.one_of(st.text(max_size=6), st.sampled_from(["a", "b"])),
        st.dictionaries(st.sampled_from(["target", "workloads", "memory_limit", "x"]), VALUES),
        max_size=3,
    )
)
def test_any_file_is_devices_or_one_line(tables: dict[str, dict[str, object]]) -> None:
    text = "".join(
        f"[devices.{spelt(name)}]\n"
        + "".join(f"{key} = {spelt(value)}\n" for key, value in table.items())
        for name, table in tables.items()
    )
    error = ""
    try:
        devices = parse_fleet(text, "fleet.toml")
    except InvalidValueError as refused:
        error = str(refused)
    if error:
        assert "fleet.toml" in error
        assert "\n" not in error
    else:
        assert [each.name for each in devices] == list(tables)
