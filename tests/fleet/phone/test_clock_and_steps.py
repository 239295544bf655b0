"""Lines of a command by themselves: when each was, which step it ends, and what stands in none."""

from __future__ import annotations

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from wattstep.record.sensors.android.clock import Point
from wattstep.record.sensors.android.loop import Stamp, Stream
from wattstep.remote.phone.clock import PhoneClock
from wattstep.remote.phone.steps import OutputMarker

EXAMPLES = 100_000 if settings.default.max_examples > 1000 else 100


@settings(max_examples=EXAMPLES)
@given(
    ahead_s=st.floats(0, 2e9),
    rate=st.floats(0.9995, 1.0005),
    uncertain_us=st.lists(st.integers(0, 50_000), min_size=2, max_size=8),
    set_by_s=st.sampled_from([0.0, -3600.0, 0.5, 86400.0]),
    at=st.floats(0, 1),
)
def test_a_stamp_is_placed_within_what_is_stated_even_if_the_clock_was_set(
    ahead_s, rate, uncertain_us, set_by_s, at
):
    span_s = 2.0 * (len(uncertain_us) - 1)

    def wall_us(t_s: float) -> int:
        since = t_s * rate + (set_by_s if t_s > span_s / 2 else 0.0)
        return int((5e5 + ahead_s + since) * 1e6)

    def uptime_us(t_s: float) -> int:
        return int((1000.0 + t_s * rate) * 1e6)

    clock = PhoneClock()
    for number, off in enumerate(uncertain_us):
        t_s = 2.0 * number
        sign = 1 if number % 2 else -1
        point = Point(
            device_us=wall_us(t_s), host_ns=int(t_s * 1e9) + sign * off * 1000,
            uncertainty_ns=off * 1000,
        )  # fmt: skip
        clock.add(point, uptime_us(t_s))
    t_s = span_s * at
    now, up = wall_us(t_s), uptime_us(t_s) // 10_000 * 10_000
    found = clock.place(Stamp(before_us=now, uptime_us=up, after_us=now))
    assert abs(found.host_ns - t_s * 1e9) <= found.uncertainty_ns + 20_000


def test_an_uptime_that_goes_back_is_another_start_of_the_phone():
    clock = PhoneClock()
    clock.add(Point(device_us=10**12, host_ns=10**9, uncertainty_ns=1), 500_000_000)
    clock.add(Point(device_us=10**12 + 10**7, host_ns=11 * 10**9, uncertainty_ns=1), 9_000_000)
    assert clock.restarted
    assert len(clock) == 1
    nothing = PhoneClock().place(Stamp(before_us=1, uptime_us=1, after_us=1))
    assert nothing is None


def test_what_a_line_says_of_its_step():
    marker = OutputMarker(r"output:it (\d+)(?: loss (?P<loss>\S+))?(?: n=(?P<samples>\S+))?")
    assert marker.find("epoch 1") is None
    assert marker.find("it 5 loss 0.25 n=16").loss == 0.25
    assert marker.find("it 5 loss 0.25 n=16").samples == 16
    for line in ("it 5", "it 5 loss nan n=-3", "it 5 loss soon n=many"):
        found = marker.find(line)
        assert math.isnan(found.loss)
        assert math.isnan(found.samples)


def test_what_stands_in_no_record_is_counted():
    good = b"\x010 1.0 1.0 1.0 0\x02text\x03"
    stream = Stream()
    assert [r.text for r in stream.take(b"junk" + good + b"\x01cut\x02of" + good)] == ["text"] * 2
    assert (stream.skipped, stream.unfinished) == (4 + 7, 0)  # junk; 1, cut, 2, of
    assert list(stream.take(b"\x01of no form\x02x\x03")) == []
    assert stream.skipped == 11 + 14
    long = b"\x010 1.0 1.0 1.0 0\x02" + b"y" * ((1 << 20) + 1)
    assert list(stream.take(long)) == []
    assert stream.unfinished == 1 << 20
    assert stream.skipped == 25 + len(long) - (1 << 20)
