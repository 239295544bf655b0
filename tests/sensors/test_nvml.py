"""NVML as it answers on several products: a module in place of the bindings, and a library of C below them."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from wattstep.record.sensors import nvml
from wattstep.record.sensors.nvml import BITS, HARMLESS, Nvml, make_source
from wattstep.schema.channel import Absent, Channel, Present, SensorRead
from wattstep.schema.journal import MISSING

ROOT = Path("/")
VOLTA, AMPERE, HOPPER = 5, 7, 9  # nvml.h
NOT_SUPPORTED, NOT_FOUND, NO_LIBRARY, LOST = 3, 6, 12, 15


class NVMLError(Exception):
    def __init__(self, value: int) -> None:
        super().__init__({NOT_SUPPORTED: "Not Supported", LOST: "GPU is lost"}.get(value, "?"))
        self.value = value


class Bindings(ModuleType):
    """What pynvml is to the sensor; `fails` maps a call, or a field's number, to an error."""

    def __init__(self, cards: Sequence[tuple[str, int]]) -> None:
        super().__init__("pynvml")
        self.NVMLError = NVMLError
        self.cards = cards
        self.fails: dict[str | int, int] = {}
        self.opened = 0
        self.energy_mj = 5_000_000_000_000
        self.loads = SimpleNamespace(gpu=97, memory=41)

    def _or_fail(self, call: str | int, value: object) -> object:
        if call in self.fails:
            raise NVMLError(self.fails[call])
        return value

    def __getattr__(self, name: str) -> Callable[..., object]:
        answers = {
            "nvmlDeviceGetCount": len(self.cards),
            "nvmlDeviceGetPowerUsage": 60_123,
            "nvmlDeviceGetUtilizationRates": self.loads,
            "nvmlDeviceGetMemoryInfo": SimpleNamespace(used=1_234_567_890, free=1, total=2),
            "nvmlDeviceGetCurrentClocksEventReasons": 0x1 | 0x4,
            "nvmlDeviceGetTemperature": 61,
            "nvmlDeviceGetTemperatureThreshold": 87,
            "nvmlDeviceGetFanSpeed": 35,
            "nvmlDeviceGetEnforcedPowerLimit": 700_000,
        }
        if name not in answers:
            raise AttributeError(name)
        return lambda *_: self._or_fail(name, answers[name])

    def nvmlInit(self) -> None:
        self._or_fail("nvmlInit", None)
        self.opened += 1

    def nvmlShutdown(self) -> None:
        self.opened -= 1
        self._or_fail("nvmlShutdown", None)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        self._or_fail(f"handle{index}", None)
        return index

    def nvmlDeviceGetName(self, handle: int) -> str:
        return self.cards[handle][0]

    def nvmlDeviceGetArchitecture(self, handle: int) -> int:
        return self.cards[handle][1]

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: int) -> object:
        self.energy_mj += 700
        return self._or_fail("energy", self.energy_mj)

    def nvmlDeviceGetFieldValues(self, handle: int, fields: Sequence[int]) -> list[object]:
        watts = {185: 65_000, 186: 71_500}
        return [
            SimpleNamespace(nvmlReturn=self.fails.get(f, 0), value=SimpleNamespace(uiVal=watts[f]))
            for f in fields
        ]

    def nvmlDeviceGetClockInfo(self, handle: int, kind: int) -> object:
        return self._or_fail("clock", {1: 1755, 2: 2619}[kind])

    def nvmlDeviceGetMaxClockInfo(self, handle: int, kind: int) -> int:
        return {1: 1980, 2: 2619}[kind]


@pytest.fixture
def bindings(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Bindings]:
    def install(*cards: tuple[str, int]) -> Bindings:
        made = Bindings(cards)
        monkeypatch.setitem(sys.modules, "pynvml", made)
        return made

    return install


def channels_of(found: Present | Absent) -> dict[str, Channel]:
    assert isinstance(found, Present), found
    return {channel.name: channel for read in found.reads for channel in read.channels}


def feeds_of(found: Present | Absent) -> list[list[SensorRead]]:
    """Reads by feed, as the plan groups them: same settings."""
    assert isinstance(found, Present), found
    groups: dict[str, list[SensorRead]] = {}
    for read in found.reads:
        groups.setdefault(json.dumps(dict(read.push_settings)), []).append(read)
    return list(groups.values())


def first_values(found: Present | Absent) -> dict[str, float]:
    """Each channel's first value, through its feed."""
    values = {}
    for reads in feeds_of(found):
        for position, _, _, raw in rows_of(reads):
            for channel, number in zip(reads[position].channels, raw or (), strict=False):
                if number != MISSING:
                    values.setdefault(channel.name, number * channel.scale)
    return values


Row = tuple[int, int, int, Sequence[int] | None]


def rows_of(reads: Sequence[SensorRead], *, each: int = 1) -> list[Row]:
    """Rows until every read has given so many: one that took much of a core rests for a while."""
    rows: list[Row] = []
    counts = [0] * len(reads)
    stop = threading.Event()

    def emit(position: int, t_ns: int, code: int, values: Sequence[int] | None) -> None:
        rows.append((position, t_ns, code, values))
        counts[position] += 1
        if min(counts) >= each:
            stop.set()

    make_source(**reads[0].push_settings, period_s=0.001).run(emit, stop)
    return rows


def test_every_quantity_of_a_gpu_comes_in_si_units(bindings: Callable[..., Bindings]) -> None:
    made = bindings(("NVIDIA H100 80GB HBM3", HOPPER))
    found = Nvml().probe(ROOT, 1)
    assert first_values(found) == pytest.approx(
        {
            "gpu0.energy": 5_000_000_000 + 2 * 0.7,  # asked at the probe, too
            "gpu0.power": 71.5,
            "gpu0.average_power": 65.0,
            "gpu0.utilization": 0.97,
            "gpu0.memory_controller_utilization": 0.41,
            "gpu0.memory_used": 1_234_567_890,
            "gpu0.frequency": 1755e6,
            "gpu0.memory_frequency": 2619e6,
            "gpu0.throttle_reasons": 0x4,
            "gpu0.clock_reasons": 0x5,
            "gpu0.temperature": 61,
            "gpu0.fan_duty": 0.35,
            "gpu0.power_limit": 700,
        },
        rel=1e-12,
    )
    assert made.opened == 0


def test_a_gpu_is_a_part_of_its_machine_and_never_its_total(
    bindings: Callable[..., Bindings],
) -> None:
    bindings(("NVIDIA H100 80GB HBM3", HOPPER))
    channels = channels_of(Nvml().probe(ROOT, 1))
    assert channels["gpu0.energy"].role == "energy_part"
    assert channels["gpu0.power"].role == "power_part"
    assert [c.name for c in channels.values() if c.role == "power_part"] == ["gpu0.power"]
    assert channels["gpu0.energy"].kind == "counter"
    assert "±5 %" in channels["gpu0.power"].note


def test_limits_come_with_their_channels(bindings: Callable[..., Bindings]) -> None:
    bindings(("NVIDIA H100 80GB HBM3", HOPPER))
    channels = channels_of(Nvml().probe(ROOT, 1))
    assert channels["gpu0.frequency"].limit == 1980e6
    assert channels["gpu0.temperature"].limit == 87
    assert channels["gpu0.power"].limit is None


@pytest.mark.parametrize(
    ("card", "instant", "share", "window_s"),
    [
        (("NVIDIA H100 80GB HBM3", HOPPER), True, 0.25, None),
        (("NVIDIA H100 PCIe", HOPPER), False, 0.25, 1.0),
        (("NVIDIA H200", HOPPER), False, None, 1.0),
        (("NVIDIA A100-SXM4-40GB", AMPERE), False, 0.25, None),
        (("NVIDIA GeForce RTX 3060", AMPERE), False, None, 1.0),
        (("Tesla V100-SXM2-32GB", VOLTA), False, None, None),
    ],
)
def test_what_the_power_sensor_sees_depends_on_the_product(
    bindings: Callable[..., Bindings],
    card: tuple[str, int],
    instant: bool,
    share: float | None,
    window_s: float | None,
) -> None:
    made = bindings(card)
    if not instant:
        made.fails = {186: NOT_SUPPORTED, 185: NOT_SUPPORTED}
    found = Nvml().probe(ROOT, 1)
    power = channels_of(found)["gpu0.power"]
    assert (power.observed_share, power.window_s) == (share, window_s)
    energy = channels_of(found)["gpu0.energy"]
    assert energy.observed_share == share
    words = "is not published" if share is None else "a quarter of the time"
    assert words in energy.note
    assert words in power.note
    assert first_values(found)["gpu0.power"] == pytest.approx(71.5 if instant else 60.123)


def test_what_a_gpu_does_not_support_is_left_out_alone(bindings: Callable[..., Bindings]) -> None:
    made = bindings(("GeForce GTX 1070 Ti", 4))
    made.fails = {
        "energy": NOT_SUPPORTED, 185: NOT_SUPPORTED, 186: NOT_SUPPORTED,
        "nvmlDeviceGetPowerUsage": NOT_SUPPORTED, "nvmlDeviceGetTemperatureThreshold": NOT_SUPPORTED,
    }  # fmt: skip
    channels = channels_of(Nvml().probe(ROOT, 1))
    assert "gpu0.energy" not in channels
    assert "gpu0.power" not in channels
    assert channels["gpu0.temperature"].limit is None
    assert channels["gpu0.utilization"].role == "gpu_utilization"


def test_the_instant_power_alone_is_enough(bindings: Callable[..., Bindings]) -> None:
    made = bindings(("NVIDIA H200", HOPPER))
    made.fails = {"nvmlDeviceGetPowerUsage": NOT_SUPPORTED}
    assert first_values(Nvml().probe(ROOT, 1))["gpu0.power"] == pytest.approx(71.5)


def test_a_library_that_cannot_be_ended_hides_nothing(bindings: Callable[..., Bindings]) -> None:
    made = bindings(("NVIDIA H200", HOPPER))
    made.fails = {"nvmlShutdown": 1}  # NVML_ERROR_UNINITIALIZED
    found = Nvml().probe(ROOT, 1)
    assert first_values(found)["gpu0.power"] == pytest.approx(71.5)
    made.fails["energy"] = LOST
    with pytest.raises(OSError, match="GPU 0: GPU is lost"):
        rows_of(feeds_of(found)[0], each=3)


def test_bindings_without_a_call_lack_its_quantity_alone(
    bindings: Callable[..., Bindings], monkeypatch: pytest.MonkeyPatch
) -> None:
    bindings(("NVIDIA H200", HOPPER))
    monkeypatch.delattr(Bindings, "nvmlDeviceGetTotalEnergyConsumption")
    channels = channels_of(Nvml().probe(ROOT, 1))
    assert "gpu0.energy" not in channels
    assert "gpu0.power" in channels


def test_a_load_above_100_percent_is_a_gap(bindings: Callable[..., Bindings]) -> None:
    made = bindings(("NVIDIA H200", HOPPER))
    found = Nvml().probe(ROOT, 1)
    made.loads = SimpleNamespace(gpu=255, memory=100)
    values = first_values(found)
    assert "gpu0.utilization" not in values
    assert values["gpu0.memory_controller_utilization"] == 1


def test_a_gpu_that_fails_does_not_hide_the_other(bindings: Callable[..., Bindings]) -> None:
    made = bindings(("NVIDIA H200", HOPPER), ("NVIDIA H200", HOPPER))
    made.fails = {"handle0": LOST}
    names = set(channels_of(Nvml().probe(ROOT, 1)))
    assert {name.split(".")[0] for name in names} == {"gpu1"}


def test_one_call_that_fails_later_is_a_gap_in_its_channel(
    bindings: Callable[..., Bindings],
) -> None:
    made = bindings(("NVIDIA H200", HOPPER))
    feeds = feeds_of(Nvml().probe(ROOT, 1))
    reads = next(f for f in feeds if any(r.path == "nvml:0:clock" for r in f))
    made.fails = {"clock": NOT_FOUND}
    failed = {reads[p].path: code for p, _, code, _ in rows_of(reads)}
    assert failed.pop("nvml:0:clock") == errno.EIO
    assert failed.pop("nvml:0:memory_clock") == errno.EIO
    assert set(failed.values()) == {0}


def test_a_number_that_is_none_is_a_gap_and_not_4294967_watts(
    bindings: Callable[..., Bindings],
) -> None:
    made = bindings(("NVIDIA H200", HOPPER))
    found = Nvml().probe(ROOT, 1)
    made.energy_mj = 2**64 - 1 - 700
    assert "gpu0.energy" not in first_values(found)


def test_a_gpu_that_is_lost_ends_the_feed_with_its_name(bindings: Callable[..., Bindings]) -> None:
    made = bindings(("NVIDIA H200", HOPPER))
    reads = feeds_of(Nvml().probe(ROOT, 1))[0]
    made.fails = {"energy": LOST}
    with pytest.raises(OSError, match="GPU 0: GPU is lost"):
        rows_of(reads, each=3)
    assert made.opened == 0


def test_times_are_of_the_monotonic_clock_and_grow(bindings: Callable[..., Bindings]) -> None:
    bindings(("NVIDIA H200", HOPPER))
    reads = feeds_of(Nvml().probe(ROOT, 1))[0]
    before = time.monotonic_ns()
    rows = rows_of(reads, each=3)
    for position in range(len(reads)):
        t_ns = [t for p, t, _, _ in rows if p == position]
        assert len(t_ns) >= 3
        assert before <= t_ns[0]
        assert all(earlier < later for earlier, later in pairwise(t_ns))
        assert t_ns[-1] <= time.monotonic_ns()


@pytest.mark.parametrize(
    ("fails", "cards", "reason"),
    [
        ({"nvmlInit": NO_LIBRARY}, 1, "no NVIDIA driver"),
        ({}, 0, "no GPU"),
        ({"nvmlDeviceGetCount": NOT_SUPPORTED}, 1, "answer: Not Supported"),
    ],
)
def test_without_a_gpu_the_reason_is_said(
    bindings: Callable[..., Bindings], fails: dict[str | int, int], cards: int, reason: str
) -> None:
    made = bindings(*[("NVIDIA H200", HOPPER)] * cards)
    made.fails = fails
    found = Nvml().probe(ROOT, 1)
    assert isinstance(found, Absent)
    assert reason in found.reason


def test_without_the_bindings_the_reason_says_how_to_get_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    found = Nvml().probe(ROOT, 1)
    assert isinstance(found, Absent)
    assert "wattstep[nvidia]" in found.reason


def test_another_file_tree_has_no_gpus_of_this_machine(tmp_path: Path) -> None:
    assert isinstance(Nvml().probe(tmp_path, 1), Absent)


def test_idleness_chosen_clocks_and_the_display_are_no_throttling() -> None:
    assert {BITS[bit] for bit in BITS if bit & HARMLESS} == {
        "idle", "chosen clocks", "display clocks",
    }  # fmt: skip


# --- the real bindings over a library of C ------------------------------------------------------

LIBRARY = r"""
#include <stdint.h>
#include <string.h>
typedef void *device; typedef struct { unsigned gpu, memory; } rates;
typedef struct { unsigned long long total, free, used; } memory;
typedef union { double d; unsigned ui; unsigned long long ull; } value;
typedef struct { uint32_t id, scope; int64_t t, latency; int type, code; value v; } field;
int nvmlInitWithFlags(unsigned f) { return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = 1; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, device *d) { *d = (device)1; return i ? 6 : 0; }
int nvmlDeviceGetName(device d, char *s, unsigned n) { strncpy(s, "NVIDIA A100-PCIE-40GB", n); return 0; }
int nvmlDeviceGetArchitecture(device d, unsigned *a) { *a = 7; return 0; }
int nvmlDeviceGetTotalEnergyConsumption(device d, unsigned long long *e) { *e = 123456789; return 0; }
int nvmlDeviceGetPowerUsage(device d, unsigned *p) { *p = 54321; return 0; }
int nvmlDeviceGetFieldValues(device d, int n, field *f) {
    for (int i = 0; i < n; i++) f[i].code = 3;
    return 0;
}
int nvmlDeviceGetUtilizationRates(device d, rates *r) { r->gpu = 88; r->memory = 12; return 0; }
int nvmlDeviceGetMemoryInfo(device d, memory *m) { m->total = 40; m->free = 30; m->used = 10; return 0; }
int nvmlDeviceGetClockInfo(device d, int k, unsigned *c) { *c = k == 1 ? 1410 : 1215; return 0; }
int nvmlDeviceGetMaxClockInfo(device d, int k, unsigned *c) { *c = k == 1 ? 1410 : 1215; return 0; }
int nvmlDeviceGetTemperature(device d, int k, unsigned *c) { *c = 44; return 0; }
int nvmlDeviceGetTemperatureThreshold(device d, int k, unsigned *c) { *c = k == 1 ? 92 : 95; return 0; }
int nvmlDeviceGetCurrentClocksThrottleReasons(device d, unsigned long long *r) { *r = 0x21; return 0; }
int nvmlDeviceGetFanSpeed(device d, unsigned *s) { return 3; }
"""
PRINT = """
import json, threading
from pathlib import Path
from wattstep.record.sensors.nvml import Nvml, make_source
found = Nvml().probe(Path("/"), 1)
values = {}
for read in found.reads:
    stop = threading.Event()
    def emit(position, t_ns, code, raw):
        key = read.push_settings["quantities"][position]
        if read.path.endswith(":" + key):
            for channel, number in zip(read.channels, raw):
                values[channel.name] = [number * channel.scale, channel.limit, channel.observed_share]
        stop.set()
    make_source(**read.push_settings, period_s=1).run(emit, stop)
print(json.dumps(values))
"""


@pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc to build the library with")
def test_the_real_bindings_read_a_library_of_c(tmp_path: Path) -> None:
    pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")
    (tmp_path / "nvml.c").write_text(LIBRARY)
    library = tmp_path / "libnvidia-ml.so.1"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, tmp_path / "nvml.c"], check=True)
    said = subprocess.run(
        [sys.executable, "-c", PRINT],
        env={**os.environ, "LD_LIBRARY_PATH": str(tmp_path)},
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert json.loads(said) == {
        "gpu0.energy": [pytest.approx(123456.789), None, 0.25],
        "gpu0.power": [pytest.approx(54.321), None, 0.25],
        "gpu0.utilization": [0.88, None, None],
        "gpu0.memory_controller_utilization": [0.12, None, None],
        "gpu0.memory_used": [10, None, None],
        "gpu0.frequency": [1410e6, 1410e6, None],
        "gpu0.memory_frequency": [1215e6, 1215e6, None],
        "gpu0.throttle_reasons": [0x20, None, None],
        "gpu0.clock_reasons": [0x21, None, None],
        "gpu0.temperature": [44, 92, None],
    }


def test_a_quantity_that_is_dear_to_ask_for_takes_a_tenth_of_a_core(
    bindings: Callable[..., Bindings], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The counter of an H200 takes 3 to 6 ms of processor time a call; its power takes 20 µs."""
    made = bindings(("NVIDIA H200", HOPPER))
    (reads,) = [
        reads
        for reads in feeds_of(Nvml().probe(ROOT, 1))
        if any(channel.name == "gpu0.energy" for channel in reads[0].channels)
    ]
    now_ns, ended_ns = 0, 20 * 10**9
    stop, asked = threading.Event(), dict.fromkeys(range(len(reads)), 0)

    def call_energy(handle: object) -> int:
        nonlocal now_ns
        now_ns += 5_000_000
        return 1_000

    def ticking(period_s: float, stop: threading.Event) -> Iterator[int]:
        nonlocal now_ns
        while now_ns < ended_ns:
            yield now_ns
            now_ns += 20_000_000

    def emit(position: int, t_ns: int, code: int, values: Sequence[int] | None) -> None:
        asked[position] += 1

    made.nvmlDeviceGetTotalEnergyConsumption = call_energy
    clock = SimpleNamespace(monotonic_ns=lambda: now_ns, thread_time_ns=lambda: now_ns)
    monkeypatch.setattr(nvml, "time", clock)
    monkeypatch.setattr(nvml, "ticks", ticking)
    make_source(**reads[0].push_settings, period_s=0.02).run(emit, stop)
    names = [read.channels[0].name for read in reads]
    energy, power = (asked[names.index(name)] for name in ("gpu0.energy", "gpu0.power"))
    assert 0.05 * ended_ns <= 5_000_000 * energy <= 0.1 * ended_ns
    assert power > 2 * energy  # goes on at every tick
