"""The sampler's journals, read while they are written."""

from __future__ import annotations

import struct
from pathlib import Path

from tests.conditions.made import Made, frequency, planned, temperature
from tests.wording import assert_says

from wattstep.schema.channel import Channel
from wattstep.schema.journal import JOURNAL
from wattstep.train.environment import surroundings
from wattstep.train.environment.watch import RoleSamples


def test_each_look_gives_what_is_new_and_leaves_failed_reads_out(tmp_path: Path) -> None:
    made = Made(
        tmp_path,
        {frequency(0): lambda t_s: 7, temperature(): lambda t_s: None if t_s == 2 else 40500},
    )
    follower = RoleSamples(tmp_path / JOURNAL, made.info.reads, "temperature")
    assert follower.new_samples() == {}
    for _ in range(3):
        made.sleep(1)
    assert follower.new_samples() == {"thermal.soc": [(1001.0, 40.5), (1003.0, 40.5)]}
    assert follower.new_samples() == {}
    made.sleep(1)
    assert follower.new_samples() == {"thermal.soc": [(1004.0, 40.5)]}


def test_a_row_that_is_half_written_comes_next_time(tmp_path: Path) -> None:
    made = Made(tmp_path, {temperature(): lambda t_s: 40500})
    follower = RoleSamples(tmp_path / JOURNAL, made.info.reads, "temperature")
    row = struct.pack("<qqq", 5 * 10**9, 0, 41000)
    path = tmp_path / JOURNAL / "samples-00.bin"
    path.write_bytes(row[:10])
    assert follower.new_samples() == {}
    path.write_bytes(row)
    assert follower.new_samples() == {"thermal.soc": [(5.0, 41.0)]}


def test_surroundings_say_where_the_ambient_temperature_comes_from() -> None:
    room = Channel(
        name="room", unit="°C", kind="gauge", domain="thermal", role="ambient_temperature",
        source="made",
    )  # fmt: skip
    fan = Channel(
        name="fan", unit="ratio", kind="gauge", domain="system", role="fan_duty", source="made"
    )
    assert surroundings(planned(temperature()), None) == {}
    assert surroundings(planned(room, fan), None) == {
        "ambient": {"channels": ["room"], "source": "sampled"},
        "fan": {"channels": ["fan"]},
    }
    (ambient,) = surroundings(planned(room), 21.5).items()
    assert ambient[0] == "ambient"
    assert (ambient[1]["value"], ambient[1]["unit"]) == (21.5, "°C")
    assert_says(ambient[1]["source"], "the user")
