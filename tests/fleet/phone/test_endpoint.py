"""The real adb against the endpoint of these tests, before anything else leans on it."""

from __future__ import annotations

import subprocess

from tests.fleet.phone.made import Made, needs_adb


def adb(phone: Made, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        ["adb", "-s", phone.endpoint.serial, *arguments], capture_output=True, check=False
    )


@needs_adb
def test_the_endpoint_runs_commands_and_keeps_files_as_the_real_adb_expects(phone, tmp_path):
    done = adb(phone, "shell", "echo out; echo err >&2; cat; exit 7")
    assert (done.returncode, done.stdout, done.stderr) == (7, b"out\n", b"err\n")
    assert adb(phone, "exec-out", r"printf 'a\000b\r\n'").stdout == b"a\0b\r\n"
    data = bytes(range(256)) * 700  # more than one message takes
    sent, back = tmp_path / "sent", tmp_path / "back"
    sent.write_bytes(data)
    assert adb(phone, "push", str(sent), "/data/local/tmp/deep/x").returncode == 0
    assert (phone.files / "deep/x").read_bytes() == data
    assert adb(phone, "pull", "/data/local/tmp/deep", str(back)).returncode == 0
    assert (back / "x").read_bytes() == data
    assert adb(phone, "pull", "/data/none", str(back)).returncode != 0
    assert {"shell", "exec", "sync"} <= {kind.split(",")[0] for kind in phone.endpoint.services}
