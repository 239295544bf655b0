"""Stretches in which a device was throttled: none missed, hardly any alarm without a cause."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from tests.wording import assert_says

from wattstep.device.throttling import (
    Stretch,
    by_channel,
    held_cap,
    merged,
    overlapping,
    slow_while_busy,
)
from wattstep.recorded.curves import Curve
from wattstep.schema.arrays import BoolArray, FloatArray, IntArray
from wattstep.schema.channel import Channel

S = 1_000_000_000
MS = 1_000_000


def channel(role: str, name: str = "cpu0", **more: object) -> Channel:
    unit = {"temperature": "°C", "frequency": "Hz", "frequency_cap": "Hz"}.get(role, "events")
    kind = "counter" if role == "throttle_events" else "gauge"
    return Channel(
        name=name, unit=unit, kind=kind, domain="cpu", role=role,
        **{"source": "made", **more},  # type: ignore[arg-type]
    )  # fmt: skip


def seconds(*values: float) -> tuple[IntArray, FloatArray]:
    """One value a second."""
    return np.arange(len(values), dtype=np.int64) * S, np.array(values, np.float64)


def spans(stretches: list[Stretch]) -> list[tuple[float, float]]:
    return [(one.start_ns / S, one.end_ns / S) for one in stretches]


def test_a_stretch_reaches_from_the_read_before_to_the_read_after_and_says_how_sure_that_is() -> (
    None
):
    found = by_channel(channel("throttle_flag", "oc1"), *seconds(0, 0, 1, 1, 0, 0))
    assert spans(found) == [(1, 4)]
    assert found[0].uncertain_s == 1
    assert (found[0].kind, found[0].cause) == ("throttled", "flag")
    assert found[0].evidence == "oc1 was set"


def test_a_counter_of_events_that_grew_tells_of_the_time_between_its_reads() -> None:
    found = by_channel(channel("throttle_events", "oc1"), *seconds(7, 7, 9, 12, 12))
    assert spans(found) == [(1, 3)]
    assert found[0].evidence == "oc1 counted 5 more"


@pytest.mark.parametrize(
    ("source", "bits", "words"),
    [
        ("NVML", 0x1, None),  # idle
        ("NVML", 0x2 | 0x100, None),  # clocks that the user asked for, a display
        ("NVML", 0x1 | 0x4, "power cap (0x4)"),
        ("NVML", 0x60, "too warm (software), too warm (hardware) (0x60)"),
        ("vcgencmd get_throttled", 0x50000, None),  # of the past
        # sbc-bench of a Raspberry Pi 3B+ (BSD-3): 1010000000000000101 while it ran
        ("vcgencmd get_throttled", 0b1010000000000000101, "voltage too low, throttled (0x5)"),
    ],
)
def test_only_bits_that_slow_the_training_down_count(
    source: str, bits: int, words: str | None
) -> None:
    reasons = channel("throttle_reasons", "reasons", source=source)
    found = by_channel(reasons, *seconds(0, bits, 0))
    assert [one.evidence for one in found] == ([] if words is None else [f"reasons: {words}"])


def test_a_cap_that_fell_is_evidence_and_one_that_never_moved_a_setting() -> None:
    cap = channel("frequency_cap", "cpu0.cap", limit=2e9)
    found = by_channel(cap, *seconds(2e9, 2e9, 1.2e9, 1.2e9, 2e9))
    assert spans(found) == [(1, 4)]
    assert found[0].evidence == "cpu0.cap fell to 1.2 GHz, from 2 GHz"
    t_ns, value = seconds(1.2e9, 1.2e9, 1.2e9)
    assert by_channel(cap, t_ns, value) == []
    assert_says(held_cap(cap, value), "1.2 GHz of 2 GHz")
    assert held_cap(cap, np.array([2e9])) is None


def test_a_temperature_counts_only_where_its_limit_is_known() -> None:
    t_ns, value = seconds(80, 86, 87, 88, 86, 80)
    found = by_channel(channel("temperature", "zone", limit=87), t_ns, value)
    assert spans(found) == [(1, 4)]
    assert_says(found[0].evidence, "zone", "88 °C", "87 °C")
    assert by_channel(channel("temperature"), t_ns, value) == []


def test_a_failed_read_shows_nothing_and_the_stretch_reaches_over_it() -> None:
    found = by_channel(channel("throttle_flag"), *seconds(0, np.nan, 1, np.nan, 0))
    assert spans(found) == [(0, 4)]


def rates(*parts: tuple[float, float]) -> Curve:
    """Busy time in s: parts of (seconds, share) one after another, every 10 ms."""
    share = np.concatenate([np.full(round(length * 100), rate) for length, rate in parts])
    t_ns = np.arange(len(share) + 1, dtype=np.int64) * 10 * MS
    return Curve(
        t_ns=t_ns, total=np.concatenate([[0.0], np.cumsum(share) * 0.01]), unit="s",
        covered_ns=t_ns,
    )  # fmt: skip


def frequencies(*parts: tuple[float, float]) -> tuple[IntArray, FloatArray]:
    value = np.concatenate([np.full(round(length * 10), hertz) for length, hertz in parts])
    return np.arange(len(value), dtype=np.int64) * 100 * MS, value


def test_a_busy_core_that_slows_down_is_throttled_and_an_idle_one_is_not() -> None:
    """3 s at 1.2 instead of 1.5 GHz; then 5 s at 0.6 GHz because there is little to do."""
    busy = rates((15, 1.0), (5, 0.3), (5, 1.0))
    speed = frequencies((6, 1.5e9), (3, 1.2e9), (6, 1.5e9), (5, 0.6e9), (5, 1.5e9))
    found = slow_while_busy(channel("frequency"), *speed, busy)
    assert len(found) == 1
    assert found[0].start_ns <= 6 * S
    assert 9 * S <= found[0].end_ns <= 10 * S
    assert_says(found[0].evidence, "1.2 GHz", "100 %", "1.5 GHz")


# Clock of a Raspberry Pi 3B+ with a weak supply, in MHz, while 7-zip kept every core at work:
# sbc-bench (ThomasKaiser/sbc-bench, BSD-3), the column that ThreadX tells, not the kernel.
PI = (1200, 600, 1200, 1200, 1200, 600, 1200, 600, 600, 600, 600, 600, 600, 600)
PI_TIMES = (0, 31, 61, 92, 123, 153, 183, 213, 244, 279, 309, 340, 370, 400)


def test_a_real_pi_with_a_weak_supply_is_found_throttled_in_every_read_at_half_its_clock() -> None:
    t_ns = np.array(PI_TIMES, np.int64) * S
    busy = rates((401, 1.0))
    found = slow_while_busy(channel("frequency"), t_ns, np.array(PI) * 1e6, busy)
    slow = [any(one.start_ns < t < one.end_ns or t == t_ns[-1] for one in found) for t in t_ns]
    assert slow == [mhz == 600 for mhz in PI]
    assert all(29 < one.uncertain_s < 36 for one in found)


def test_stretches_of_one_cause_that_touch_are_one() -> None:
    def one(start: int, end: int, cause: str, evidence: str) -> Stretch:
        return Stretch(
            start_ns=start, end_ns=end, kind="throttled", cause=cause, evidence=evidence,
            uncertain_s=1.0,
        )  # fmt: skip

    found = merged([one(3, 6, "cap", "b"), one(1, 4, "cap", "a"), one(2, 3, "flag", "c")])
    assert [(s.start_ns, s.end_ns, s.cause, s.evidence) for s in found] == [
        (1, 6, "cap", "a; and b"), (2, 3, "flag", "c"),
    ]  # fmt: skip


# --- many traces with a known truth -------------------------------------------------------------


@dataclass
class Trace:
    """Ten minutes of a device that heats up and is throttled from 87 °C until below 84 °C."""

    step_start: IntArray
    step_end: IntArray
    truth: BoolArray
    t_ns: IntArray
    temperature: FloatArray
    cap: FloatArray


def trace(seed: int, every_ns: int) -> Trace:
    """The truth is drawn on a grid of 1 ms; sensors see it every `every_ns`, with noise.

    A stretch of throttling lasts no less than a sample and a half: shorter ones between two reads
    of a level nobody can see.
    """
    rng = np.random.default_rng(seed)
    end = 600 * S
    edges = np.sort(rng.uniform(30, 570, 6))
    while np.diff(edges).min() < 1.5 * every_ns / S + 1:
        edges = np.sort(rng.uniform(30, 570, 6))
    grid = np.arange(0, end, MS)
    throttled = (np.searchsorted(edges * S, grid) % 2).astype(bool)
    t_ns = (
        np.arange(rng.integers(0, every_ns), end, every_ns)
        + rng.integers(0, max(every_ns // 10, 1), len(range(0, end, every_ns)))[
            : len(np.arange(0, end, every_ns))
        ]
    )
    t_ns = t_ns[t_ns < end]
    seen = throttled[t_ns // MS]
    # A cap wavers by a part in a thousand, as far as the clock behind it does.
    cap = np.where(seen, 1.2e9, 2.0e9) * (1 + 0.001 * rng.standard_normal(len(t_ns)))
    temperature = np.where(seen, 87.5, 80) + rng.uniform(-0.4, 0.4, len(t_ns))
    length = 37 * MS
    start = np.arange(0, end - 2 * length, length)
    counts = np.concatenate([[0], np.cumsum(throttled)])
    truth = counts[(start + length) // MS] > counts[start // MS]
    return Trace(start, start + length, truth, t_ns, temperature, cap)


@pytest.mark.parametrize("every_ns", [10 * MS, 100 * MS, S], ids=["10 ms", "100 ms", "1 s"])
@pytest.mark.parametrize("evidence", ["cap", "temperature"])
def test_no_throttled_step_is_missed_and_false_alarms_stay_below_one_in_a_hundred(
    every_ns: int, evidence: str
) -> None:
    """Over 40 random traces of ten minutes, three stretches each, of 16,000 steps of 37 ms."""
    source = channel("frequency_cap" if evidence == "cap" else "temperature", limit=87)
    missed = alarms = quiet = far = 0
    for seed in range(40):
        made = trace(seed, every_ns)
        value = made.cap if evidence == "cap" else made.temperature
        stretches = by_channel(source, made.t_ns, value)
        marked = overlapping(made.step_start, made.step_end, stretches)
        missed += int((made.truth & ~marked).sum())
        alarms += int((~made.truth & marked).sum())
        quiet += int((~made.truth).sum())
        # What lies further from the truth than the stated uncertainty.
        near = made.truth.copy()
        reach = int(np.ceil(1.2 * every_ns / (37 * MS))) + 1
        for shift in range(1, reach + 1):
            near[:-shift] |= made.truth[shift:]
            near[shift:] |= made.truth[:-shift]
        far += int((marked & ~near).sum())
    assert missed == 0
    assert alarms / quiet < 0.01
    assert far == 0


def test_a_slow_clock_is_found_without_a_flag_and_an_idle_one_raises_no_alarm() -> None:
    """Over 20 random traces: a clock that wavers by 2 %, falls with the load, and is throttled.

    A governor lets the clock fall while the core is busy for less than 80 % of the time.
    """
    missed = alarms = quiet = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        share = np.repeat(rng.choice([1.0, 1.0, 1.0, 0.97, 0.5, 0.2], 120), 50)  # 5 s each
        held = np.zeros(6000, bool)
        for at in rng.choice(np.flatnonzero(share[:-100] > 0.9), 4):
            held[at : at + int(rng.integers(20, 50))] = True  # 2 to 5 s
        held &= share > 0.9
        edges = np.flatnonzero(np.diff(held.astype(int)))
        for a, b in zip(edges[::2], edges[1::2], strict=False):
            if b - a < 20:  # cut by an idle stretch: shorter than what can be told
                held[a : b + 1] = False
        hertz = np.where(held, 1.0e9, np.where(share > 0.8, 1.5e9, 0.6e9))
        hertz = hertz * (1 + 0.02 * rng.standard_normal(6000))
        t_ns = np.arange(6000, dtype=np.int64) * 100 * MS
        found = slow_while_busy(
            channel("frequency"), t_ns, hertz, rates(*((0.1, float(one)) for one in share))
        )
        start = np.arange(0, 599 * S, 50 * MS)
        truth = held[(start + 25 * MS) // (100 * MS)]
        marked = overlapping(start, start + 50 * MS, found)
        missed += int((truth & ~marked).sum())
        near = np.convolve(truth, np.ones(61), "same") > 0  # 1.5 s on either side
        alarms += int((marked & ~near).sum())
        quiet += int((~near).sum())
    assert missed == 0
    assert alarms / quiet < 0.01
