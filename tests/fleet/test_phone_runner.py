"""What a phone's training needs is checked before anything is sent; what it tells is placed, or refused."""

from __future__ import annotations

import math
import random
from itertools import pairwise
from pathlib import Path

import pytest
from tests.fleet.made_elf import write_elf
from tests.refusals import refused

from wattstep.errors import RecordingError, WattstepError
from wattstep.record.sensors.android.clock import Point
from wattstep.remote.phone.clock import PhoneClock
from wattstep.remote.phone.elf import read_elf
from wattstep.remote.phone.runner import FORMAT, PROGRAM, check_abi, find_runner, version_of
from wattstep.remote.phone.runner_clock import RunnerClock
from wattstep.remote.phone.runner_journal import (
    Beginning,
    ClockStamp,
    Ending,
    JournalReader,
    Memory,
    Name,
    Remark,
    Step,
)
from wattstep.remote.phone.training import PhoneTraining
from wattstep.train.child.limits import limit_elsewhere
from wattstep.train.settings import TrainingSettings

RUN = "_ZNK3MNN11Interpreter10runSessionEPNS_7SessionE"
LOADER = "/system/bin/linker64"


def program(folder: Path, abi: str = "arm64-v8a", **of: object) -> Path:
    folder.mkdir(exist_ok=True)
    known = {
        "loader": LOADER, "needed": ["libMNN.so", "libc.so"], "wanted": [RUN, "write"],
        "holding": FORMAT.encode(),
    }  # fmt: skip
    return write_elf(folder / PROGRAM, abi, **known | of)


def library(folder: Path, abi: str = "arm64-v8a", **of: object) -> Path:
    return write_elf(folder / "libMNN.so", abi, **{"needed": ["libm.so"], "given": [RUN]} | of)


# --- files ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("abi", ["arm64-v8a", "armeabi-v7a", "x86_64", "x86"])
def test_a_program_says_for_which_processor_it_is_and_what_it_needs(tmp_path, abi):
    known = read_elf(program(tmp_path, abi))
    assert known.abi == abi
    assert known.interpreter == LOADER
    assert known.needed == ("libMNN.so", "libc.so")
    assert known.wanted == {RUN, "write"}
    assert known.given == frozenset()
    of_library = read_elf(library(tmp_path, abi))
    assert (of_library.interpreter, of_library.given) == (None, {RUN})
    assert "number 8" in read_elf(write_elf(tmp_path / "mips", "mips")).abi


def test_a_file_that_is_cut_anywhere_or_garbled_is_refused_in_one_line_or_read(tmp_path):
    whole = program(tmp_path).read_bytes()
    draw = random.Random(1)
    broken = [whole[:length] for length in range(0, len(whole), 7)]
    for _ in range(80):
        copy = bytearray(whole)
        copy[draw.randrange(len(copy))] = draw.randrange(256)
        broken.append(bytes(copy))
    path, ids = tmp_path / "broken", set()
    for data in broken:
        path.write_bytes(data)
        try:
            read_elf(path)
        except WattstepError as error:
            ids.add(error.id)
    assert ids == {"not-a-program"}


def test_a_folder_with_program_and_library_of_one_abi_is_taken_whole(tmp_path):
    program(tmp_path, needed=["libMNN.so", "libc.so"])
    library(tmp_path, needed=["libc++_shared.so"])
    write_elf(tmp_path / "libc++_shared.so", "arm64-v8a", needed=["libc.so"])
    write_elf(tmp_path / "other.so", "x86")  # which nothing needs
    runner = find_runner(str(tmp_path))
    names = [path.name for path in runner.files]
    assert names == [PROGRAM, "libMNN.so", "libc++_shared.so"]
    check_abi(runner, ["arm64-v8a", "armeabi-v7a"])
    check_abi(runner, [""])  # a phone that does not tell is tried


def test_each_thing_that_is_missing_or_wrong_is_said_with_what_to_build(tmp_path):
    with refused("no-runner", "runner.cpp", "adb://SERIAL,runner=DIR", "libMNN.so"):
        find_runner(None)
    with refused("no-runner", "is no folder"):
        find_runner(str(tmp_path / "nowhere"))
    with refused("no-runner", PROGRAM, "NDK"):
        find_runner(str(tmp_path))
    program(tmp_path)
    with refused("missing-library", "libMNN.so"):
        find_runner(str(tmp_path))
    library(tmp_path, "armeabi-v7a")
    with refused("other-abi", "libMNN.so is for armeabi-v7a", "for arm64-v8a"):
        find_runner(str(tmp_path))
    library(tmp_path, given=["_ZN3MNN11Interpreter14createFromFileEPKc"])
    with refused("missing-functions", RUN, "libMNN.so"):
        find_runner(str(tmp_path))
    library(tmp_path)
    with refused("other-abi", "for arm64-v8a", "the phone runs x86_64, x86", "NDK for x86_64"):
        check_abi(find_runner(str(tmp_path)), ["x86_64", "x86"])
    program(tmp_path, holding=f"{PROGRAM} 0".encode())
    with refused("other-runner", PROGRAM):
        find_runner(str(tmp_path))
    (tmp_path / PROGRAM).write_text("#!/bin/sh\n")
    with refused("not-a-program", PROGRAM):
        find_runner(str(tmp_path))


def test_a_runner_that_holds_mnn_itself_needs_no_library(tmp_path):
    program(tmp_path, needed=["libc.so"], wanted=["write"], given=[RUN])
    assert [path.name for path in find_runner(str(tmp_path)).files] == [PROGRAM]


def test_mnn_s_version_is_what_the_runner_says_on_the_phone():
    assert version_of(f"The device supports: fp16:1\n{FORMAT} 3.6.1\n") == "3.6.1"
    with refused("engine-too-old", "MNN 3.5.0", "3.6 or newer"):
        version_of(f"{FORMAT} 3.5.0\n")
    with refused("runner-does-not-start", 'library "libc++_shared.so" not found'):
        version_of('CANNOT LINK EXECUTABLE: library "libc++_shared.so" not found\n')


@pytest.mark.parametrize(
    ("of", "limit", "id"),
    [
        ({}, None, "no-engine-on-phone"),
        ({"exported": "x", "engine": "onnxruntime"}, None, "no-engine-on-phone"),
        ({"exported": "x", "engine": "mnn", "idle": "5s"}, None, "not-on-phone"),
        ({"exported": "x", "engine": "mnn", "until": "loss=1"}, None, "not-on-phone"),
        ({"exported": "x", "engine": "mnn"}, 1 << 30, "not-on-phone"),
        ({"exported": "/nowhere", "engine": "mnn"}, None, "no-export"),
        ({"exported": "x", "engine": "mnn", "accumulate": 2}, None, "not-for-engine"),
    ],
)
def test_what_a_phone_cannot_do_is_refused_before_it_is_asked(of, limit, id):
    settings = TrainingSettings(workload="lenet", target="adb://X", **of)
    with refused(id):
        PhoneTraining.of(settings, limit and limit_elsewhere(limit))


# --- the journal ----------------------------------------------------------------------------------

JOURNAL = (
    b"H\t3.6.1\t2\nC\t100\t1700000000000000000\t5000\t120\n"
    b"S\t0\t200\t210\t300\t10\t90\t2.34383607\n"
    b"M\tpeak\t310\t4096\nN\tfirst\tRaster\t0.25\t4x1;scalar\nN\t-\tWhile\t1e-3\t-\n"
    b"T\t320\t1\t330\t340\t400\t100\t160\tnan\nP\t11\t20\t5\t30\n"
    b"M\tafter\t410\t8192\nX\twindows\t7\nE\n"
)


def test_a_journal_becomes_the_same_records_however_it_comes_in_pieces():
    whole = list(JournalReader().take(JOURNAL))
    assert whole[:3] == [
        Beginning(version="3.6.1", threads=2),
        ClockStamp(before_ns=100, real_ns=1700000000000000000, boot_ns=5000, after_ns=120),
        Step(index=0, begin_ns=200, run_ns=210, end_ns=300, cpu_ns=(10, 90), loss=2.34383607),
    ]
    assert whole[3:6] == [
        Memory(kind="peak", at_ns=310, size=4096),
        Name(told=("first", "Raster", 0.25, "4x1;scalar")),
        Name(told=("", "While", 0.001, "")),
    ]
    traced = whole[6]
    assert isinstance(traced, Step)
    assert (traced.opened_ns, math.isnan(traced.loss)) == (320, True)
    assert traced.operations == [(341, 361), (366, 396)]  # from its begin at 330 on
    assert whole[7:] == [
        Memory(kind="after", at_ns=410, size=8192), Remark(what="windows", number=7), Ending(),
    ]  # fmt: skip
    for size in (1, 3, 50):
        reader = JournalReader()
        pieces = [JOURNAL[at : at + size] for at in range(0, len(JOURNAL), size)]
        again = [record for piece in pieces for record in reader.take(piece)]
        assert repr(again) == repr(whole)
        assert reader.unfinished == 0


@pytest.mark.parametrize(
    "line",
    [
        b"Z\t1", b"S\t0\t5\t4\t6\t0\t0\t1", b"S\t0\t1\t2\t3\t9\t8\t1", b"S\t-1\t1\t2\t3\t0\t0\t1",
        b"S\t0\t1\t2\t3\t0\t0", b"S\t0\t1\t2\t3\t0\t0\tx", b"P\t1\t2", b"C\t1\t2\t3",
        b"T\t1\t0\t2\t3\t4\t0\t0\t1\nS\t1\t5\t6\t7\t0\t0\t1", b"T\t1\t0\t2\t3\t4\t0\t0\t1\nP\t1\t9",
        b"T\t1\t0\t2\t3\t4\t0\t0\t1\nP\t1", b"N\ta\tb\tnan\t-", b"M\tpeak\t99999999999999999999\t1",
        b"\xff\xfe", b"", b"E\tx",
    ],
)  # fmt: skip
def test_a_line_that_is_none_of_the_runner_s_is_refused(line):
    with pytest.raises(RecordingError) as caught:
        list(JournalReader().take(line + b"\n"))
    assert caught.value.id == "garbled-runner-journal"


# --- clocks ---------------------------------------------------------------------------------------

EPOCH_US = 1_700_000_000_000_000


def phone_clock(
    seconds: int, *, rate: float = 1.0, jitter_ns: int = 0, by_uptime: bool = False
) -> PhoneClock:
    """Moments every 2 s; our clock begins at 7 s and runs `rate` times as fast as the phone's."""
    clock, draw = PhoneClock(), random.Random(3)
    for t_us in range(0, (seconds + 4) * 1_000_000, 2_000_000):
        off_ns = draw.randint(-jitter_ns, jitter_ns) if jitter_ns else 0
        uptime_us = t_us + 1_000_000
        point = Point(
            device_us=uptime_us if by_uptime else EPOCH_US + t_us,
            host_ns=7_000_000_000 + round(t_us * 1000 * rate) + off_ns,
            uncertainty_ns=jitter_ns + 1000,
        )
        clock.add(point, uptime_us)
    return clock


def stamps(clock: RunnerClock, seconds: int, slept: dict[int, int] | None = None) -> None:
    """A stamp a second; the runner's clock stands still while the phone sleeps."""
    behind = 0
    for second in range(seconds + 1):
        behind += (slept or {}).get(second, 0)
        real_ns = second * 1_000_000_000
        clock.add(
            ClockStamp(
                before_ns=real_ns - behind, real_ns=EPOCH_US * 1000 + real_ns,
                boot_ns=real_ns + 1_000_000_000, after_ns=real_ns - behind + 200,
            )
        )  # fmt: skip


@pytest.mark.parametrize("by_uptime", [False, True])
def test_times_of_a_phone_that_runs_slower_are_placed_where_they_were(by_uptime):
    clock = RunnerClock(phone_clock(60, rate=1.0002, by_uptime=by_uptime))
    stamps(clock, 60)
    clock.look(everything=True)
    for second in (0, 1, 5, 33, 59):
        true_ns = 7_000_000_000 + second * 1_000_200_000
        assert (
            abs(clock.map(second * 1_000_000_000 + 100) - true_ns) <= clock.uncertainty_ns + 5_000
        )
    assert clock.slept_ns == 0


@pytest.mark.parametrize("jitter_ns", [1_000_000, 20_000_000])
def test_however_uncertain_the_echoes_are_no_length_is_wrong_by_more_than_clocks_drift(jitter_ns):
    for seconds in (1, 2, 45):
        clock = RunnerClock(phone_clock(seconds, jitter_ns=jitter_ns))
        stamps(clock, seconds)
        clock.look(everything=True)
        times = [n * 370_000 for n in range(seconds * 2000)]
        placed = [clock.map(t) for t in times]
        for before, after in pairwise(placed):
            assert 370_000 * (1 - 501e-6) - 1 <= after - before <= 370_000 * (1 + 501e-6) + 1
        # And each lies where it was, as far as the run then says.
        for t, at in zip(times, placed, strict=True):
            assert abs(at - 7_000_000_000 - t) <= clock.uncertainty_ns + 500e-6 * 1e9 * seconds


def test_a_phone_that_slept_lengthens_the_step_in_which_it_did_and_no_other():
    clock = RunnerClock(phone_clock(60))
    stamps(clock, 60, {20: 600_000_000})
    clock.look(everything=True)
    assert clock.slept_ns == pytest.approx(6e8, abs=1e6)

    def ours(real_s: float, slept_s: float) -> int:
        return clock.map(round((real_s - slept_s) * 1e9) + 100)

    for real_s, slept_s in ((5, 0), (18.9, 0), (20, 0.6), (59, 0.6)):
        assert abs(ours(real_s, slept_s) - 7e9 - real_s * 1e9) < 5e6


def test_nothing_is_placed_before_a_moment_after_it_is_known():
    phone = PhoneClock()
    clock = RunnerClock(phone)
    stamps(clock, 12)
    clock.look()
    assert not clock.known
    for point_s in (0, 2, 4):
        us = point_s * 1_000_000
        phone.add(
            Point(device_us=EPOCH_US + us, host_ns=us * 1000, uncertainty_ns=10), us + 1_000_000
        )
    clock.look()
    assert clock.known
    assert not clock.reaches(3_000_000_000)
    clock.look(everything=True)
    assert clock.reaches(12_000_000_000)
