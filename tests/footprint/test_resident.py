"""What is resident, with memory that the test takes itself."""

from __future__ import annotations

import mmap

import numpy as np
import pytest

from wattstep.train.memory.resident import ResidentMemory, parse_status

MB = 10**6
SLACK = 2 * MB  # the kernel counts pages by processor and adds them up now and then


def test_the_high_water_mark_shows_memory_that_is_gone_and_can_be_reset(
    resident: ResidentMemory,
) -> None:
    resident.reset()
    before = resident.read()
    # Made, touched, and gone; of the system, since the C library may still hold pages that it reuses.
    with mmap.mmap(-1, 64 * MB) as area:
        area[:: mmap.PAGESIZE] = bytes(len(range(0, 64 * MB, mmap.PAGESIZE)))
    after = resident.read()
    assert after.peak - before.all == pytest.approx(64 * MB, abs=SLACK)
    assert after.all - before.all < 8 * MB
    resident.reset()
    assert resident.read().peak - before.all < 8 * MB


def test_heap_and_pages_of_files_make_all_of_it(resident: ResidentMemory) -> None:
    now = resident.read()
    assert now.anonymous + now.library_pages == pytest.approx(now.all, abs=SLACK)
    assert now.library_pages > MB


def test_memory_that_was_never_written_to_is_absent(resident: ResidentMemory) -> None:
    with mmap.mmap(-1, 64 * mmap.PAGESIZE) as area:
        view = np.frombuffer(area, np.uint8)
        start = view.ctypes.data
        assert resident.absent(start, len(area)) == 64 * mmap.PAGESIZE
        view_of = memoryview(area)
        view_of[10 * mmap.PAGESIZE] = 1
        view_of[11 * mmap.PAGESIZE] = 1
        assert resident.absent(start, len(area)) == 62 * mmap.PAGESIZE
        # Of pages that belong to it in part only, nothing is said.
        assert resident.absent(start + 1, mmap.PAGESIZE) == 0
        view_of.release()
        del view


def test_an_address_of_nobody_has_nothing_absent(resident: ResidentMemory) -> None:
    assert resident.absent(1 << 60, 1 << 20) == 0


def test_sizes_are_read_from_the_kernels_text() -> None:
    text = "Name:\tpython\nVmHWM:\t    8736 kB\nRssAnon:\t    2900 kB\nThreads:\t3\n"
    assert parse_status(text) == {"VmHWM": 8736 * 1024, "RssAnon": 2900 * 1024}
