"""Devices are found, chosen by number or name, and refuse in one line what they cannot do."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest
from tests.opencl.conftest import made_device
from tests.refusals import refused

from wattstep.opencl.device import Opened, chosen, find_devices
from wattstep.opencl.program import build, kernel

TWO = [
    made_device(number=0, name="pthread-EPYC", kind="cpu"),
    made_device(number=1, name="Mali-G76"),
    made_device(number=2, name="Mali-G57"),
]


@pytest.mark.parametrize(
    ("which", "number"), [(None, 1), ("0", 0), ("2", 2), ("g76", 1), (" PTHREAD ", 0)]
)
def test_a_device_is_chosen_by_number_or_name_and_is_a_gpu_otherwise(
    which: str | None, number: int
) -> None:
    assert chosen(TWO, which).number == number


def test_without_a_gpu_the_first_is_taken() -> None:
    assert chosen(TWO[:1], None).number == 0


@pytest.mark.parametrize(("which", "naming"), [("3", "Mali-G57"), ("adreno", "0 ("), ("mali", "2")])
def test_a_device_that_is_not_there_or_not_one_is_refused(which: str, naming: str) -> None:
    with refused("unknown-opencl-device", which, naming):
        chosen(TWO, which)


class NoPlatform(Exception):
    code = -1001


def no_platforms() -> list[object]:
    raise NoPlatform("PLATFORM_NOT_FOUND_KHR")


@pytest.mark.parametrize("platforms", [no_platforms, list], ids=["the loader refuses", "none"])
def test_no_platform_is_refused_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch, platforms: object
) -> None:
    cl = SimpleNamespace(get_platforms=platforms, Error=NoPlatform)
    monkeypatch.setitem(sys.modules, "pyopencl", cl)  # type: ignore[arg-type]
    with refused("no-opencl-device", "wattstep[opencl]"):
        find_devices()


def test_the_real_device_has_its_limits(opened: Opened) -> None:
    device = opened.device
    assert device.number == 0
    assert device.largest_group >= 1
    assert 0 < device.largest_buffer <= device.memory
    assert device.facts()["name"] == device.name
    assert device.driver in device.key


def test_memory_comes_back_and_is_counted(opened: Opened) -> None:
    before = opened.allocated
    array = np.arange(10, dtype=np.float32).reshape(2, 5)
    buffer = opened.upload(array)
    assert opened.allocated == before + 40
    assert (opened.download(buffer, (2, 5)) == array).all()
    opened.release(buffer)
    assert opened.allocated == before


def test_a_buffer_that_the_device_has_not_is_refused(opened: Opened) -> None:
    before = opened.allocated
    with refused("opencl-memory", opened.device.name):
        opened.allocate(opened.device.largest_buffer + 1)
    assert opened.allocated == before


def test_a_kernel_that_does_not_build_shows_the_driver_s_log(opened: Opened) -> None:
    with refused("opencl-build", opened.device.name, "unheard_of"):
        build(opened, "__kernel void broken(__global float *a) { a[0] = unheard_of; }")


def test_a_kernel_that_a_program_has_not_is_refused(opened: Opened) -> None:
    with refused("opencl-build", "nowhere"):
        kernel(opened, "memory", "nowhere", {"WIDTH": 1, "GROUP": 1})
