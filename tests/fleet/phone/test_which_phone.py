"""Which phone is meant, and what is said where it, or what is asked of it, cannot be had."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from tests.fleet.phone.made import PATIENCE_S, Made, adb_server, connected, needs_adb
from tests.refusals import refused
from tests.waiting import until

from wattstep.api import open_execution_host as open_target
from wattstep.errors import InvalidValueError, RecordingError, RunExistsError
from wattstep.record.hosts import Target, parse_target
from wattstep.remote.phone.host import PhoneHost, open_execution_host
from wattstep.train.script import ProfileSettings


def test_adb_with_and_without_slashes_is_the_same_phone():
    serials = [open_target(t, print)._serial for t in ("adb:10.0.0.7:5555", "adb://10.0.0.7:5555")]
    assert serials == ["10.0.0.7:5555"] * 2


def test_a_target_names_the_folder_of_its_runner_which_no_run_keeps():
    target = parse_target("adb://0123,runner=/somewhere/build")
    assert open_execution_host(target, print)._runner == "/somewhere/build"
    assert target.text == "adb:phone"


@needs_adb
def test_without_a_serial_number_the_only_phone_is_meant_and_of_two_none(tmp_path):
    anyone = Target(scheme="adb", name="")
    with adb_server():
        with refused("no-such-phone"):
            open_execution_host(anyone, print)
        with connected(tmp_path / "one") as one:
            assert open_execution_host(anyone, print)._serial == one.endpoint.serial
            with (
                connected(tmp_path / "other"),
                refused("several-phones"),
            ):
                open_execution_host(anyone, print)


@needs_adb
def test_a_phone_that_cannot_be_used_is_one_line_with_what_to_do_and_no_run(
    server, phone, tmp_path
):
    out = tmp_path / "run"
    with refused("phone-unreachable", "adb devices") as caught:
        PhoneHost("nobody", print).profile(phone.settings("true"), str(out))
    assert "nobody" not in str(caught.value)
    with refused("no-adb"):
        PhoneHost("nobody", print, adb=str(tmp_path / "none")).profile(
            phone.settings("true"), str(out)
        )
    shutil.rmtree(phone.files)
    with refused("phone-cannot-start", "/data/local/tmp") as caught:
        phone.host().profile(phone.settings("true"), str(out))
    assert str(phone.root) not in str(caught.value).replace(f"{phone.root}/data/local/tmp", "")
    assert not out.exists()
    out.mkdir()
    with pytest.raises(RunExistsError):
        phone.host().profile(phone.settings("true"), str(out))
    assert not phone.processes()


@needs_adb
def test_a_phone_that_has_not_allowed_this_computer_says_so(server, tmp_path):
    made = Made(tmp_path / "phone", authorized=False)
    try:
        with subprocess.Popen(
            ["adb", "connect", made.endpoint.serial],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        ) as connecting:  # fmt: skip
            until(lambda: made.endpoint.asked_for_trust >= 2, PATIENCE_S)  # its key was shown
            serial = made.endpoint.serial

            def is_refused() -> bool:  # the server takes a while to know it, and tries it again
                with pytest.raises(RecordingError) as caught:
                    made.host().profile(made.settings("true"), str(tmp_path / "run"))
                assert serial not in str(caught.value)
                assert not (tmp_path / "run").exists()
                return "unlock it, confirm on its screen" in str(caught.value)

            until(is_refused, PATIENCE_S)
            connecting.kill()
    finally:
        subprocess.run(
            ["adb", "disconnect", made.endpoint.serial], check=False, capture_output=True
        )
        made.endpoint.close()
        made.kill_all()


def test_what_cannot_be_had_on_a_phone_is_refused_with_what_works():
    place = PhoneHost("X", print)
    for wrong in (
        {"module": True}, {"trace": "every:5"}, {"step_marker": "backward"},
        {"step_marker": "output:("}, {"step_marker": "output:"},
    ):  # fmt: skip
        with pytest.raises(InvalidValueError):
            place.profile(ProfileSettings(script="x", target="adb:X", **wrong), "never")
    assert not Path("never").exists()
    with refused("unknown-target-option", "adb=", "runner="):
        open_target("adb://X,root=/tmp", print)
