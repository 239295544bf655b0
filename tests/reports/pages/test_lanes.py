"""The whole run in the page: what is written can be read again, within the budget, and is inert."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reports import synthetic
from tests.reports.pages.made_lanes import BASE, MS, STEP, lanes
from tests.wording import assert_says, saying

from wattstep.report.html import report
from wattstep.report.html.lanes import (
    MOST_LABELS,
    MOST_ROWS,
    MOST_STEPS,
    MOST_TEXT,
    Columns,
    Encoded,
    encode,
    lanes_section,
    thinned,
)
from wattstep.report.html.report import render_report
from wattstep.run.lanes import Lane


def inflated(text: str) -> bytes:
    return zlib.decompress(base64.b64decode(text))


def decode(spec: Mapping[str, Any], data: bytes) -> np.ndarray:
    """A column as it was; what the script of the page does.

    Args:
        spec: Description that `Columns.add` returned.
        data: All columns, inflated.
    """
    count, differences = spec["count"], spec["differences"]
    stored = count - 1 if differences and count else count
    at, planes = spec["at"], spec["planes"]
    folded = np.zeros((stored, 8), np.uint8)
    folded[:, :planes] = (
        np.frombuffer(data, np.uint8, stored * planes, at).reshape(planes, stored).T
    )
    number = folded.view("<u8").ravel().astype(np.int64)
    values = ((number >> 1) ^ -(number & 1)) + spec["middle"]
    if differences and count:
        values = np.cumsum(np.append(spec["first"], values))
    return values


def read(found: Encoded, part: str, spec: Mapping[str, Any]) -> np.ndarray:
    return decode(spec, inflated(found.blobs[part]))


def values(found: Encoded, number: int) -> np.ndarray:
    channel = found.document["channels"][number]
    value = read(found, "channels", channel["value"]) * channel["times"] * 10.0 ** channel["power"]
    value[read(found, "channels", channel["gaps"])] = np.nan
    return value


@given(
    st.lists(st.integers(-(2**52), 2**52), max_size=40),
    st.lists(st.integers(-300, 300), max_size=40),
    st.booleans(),
)
def test_columns_are_read_as_they_were_written(
    first: list[int], second: list[int], differences: bool
) -> None:
    columns = Columns()
    specs = [
        columns.add(np.array(each, np.int64), differences=differences) for each in (first, second)
    ]
    data = inflated(columns.text())
    specs = json.loads(json.dumps(specs))
    assert [decode(spec, data).tolist() for spec in specs] == [first, second]


def test_steps_come_back_to_the_nanosecond() -> None:
    given = lanes()
    found = encode(given)
    told = found.document["steps"]
    start = read(found, "steps", told["start"])
    assert (start + BASE).tolist() == given.steps.start_ns.tolist()
    assert set(read(found, "steps", told["length"]).tolist()) == {STEP - MS}
    flags = read(found, "steps", told["flag"])
    for bit, name in enumerate(told["flags"]):
        assert ((flags >> bit) & 1 == getattr(given.steps, name)).all(), name
    assert set(read(found, "steps", told["phases"]).tolist()) == {2}
    assert read(found, "steps", told["phase_start"])[:2].tolist() == [0, 20 * MS]


def test_samples_come_back_to_five_digits_and_gaps_stay_gaps() -> None:
    given = lanes(samples=1000)
    value = 1e9 * np.random.default_rng(0).random(1000)
    value[[3, 999]] = np.nan
    channels = [replace(given.channels[0], value=value), given.channels[1]]
    found = encode(replace(given, channels=channels))
    back = values(found, 0)
    assert np.flatnonzero(np.isnan(back)).tolist() == [3, 999]
    assert np.nanmax(np.abs(back - value)) <= 0.5e4  # half of the fifth digit of 1e9
    assert values(found, 1) == pytest.approx(given.channels[1].value, abs=1e-9)
    spec = found.document["channels"][0]["t"]
    t_ns = read(found, "channels", spec) * 1000 + BASE
    assert np.abs(t_ns - given.channels[0].t_ns).max() <= 500


def test_operations_come_back_with_their_names() -> None:
    given = lanes(steps=100)
    found = encode(given)
    told = found.document["operations"]
    gap, length = (read(found, "operations", told[key]) for key in ("gap", "length"))
    end = np.cumsum(gap + length)
    assert told["every_ns"] == 1
    assert (end + BASE).tolist() == given.operations.end_ns.tolist()
    assert set(length.tolist()) == {9 * MS}
    assert told["counts"] == [len(end)]
    names = [told["texts"][n] for n in told["labels"][0]]
    assert names == ["aten::mm", "fc1", "forward"]


def test_what_does_not_fit_is_thinned_and_said() -> None:
    random = np.random.default_rng(0)
    given = lanes(samples=50_000)
    noise = [replace(each, value=random.random(50_000)) for each in given.channels]
    lengths = random.integers(1, 9 * MS, len(given.operations.start_ns))
    operations = replace(given.operations, end_ns=given.operations.start_ns + lengths)
    whole = replace(given, channels=noise, operations=operations)
    assert not [note for note in encode(whole).notes if "drawn" in note]
    found = encode(whole, budget=60_000)
    assert sum(map(len, found.blobs.values())) < 60_000
    samples = sum(each["t"]["count"] for each in found.document["channels"])
    kept = found.document["operations"]["counts"][0]
    assert 0 < samples < 150_000
    assert 0 < kept < 4000
    told = " ".join(found.notes)
    assert_says(told, f"{samples:,} of 150,000 samples")
    assert_says(told, f"{kept:,} of 4,000 operations")
    # The longest are kept.
    shortest = read(found, "operations", found.document["operations"]["length"]).min()
    assert shortest == np.sort(lengths)[4000 - kept]


def test_thinning_keeps_the_extremes_where_they_were() -> None:
    value = np.sin(np.arange(10_000) / 50)
    value[[1234, 5678]] = [7.0, -7.0]
    value[2000:2400] = np.nan
    given = Lane(
        name="a", group="Power", unit="W", status="measured", source="made", held=False,
        t_ns=np.arange(10_000) * 1000, value=value,
    )  # fmt: skip
    found = thinned(given, 100)
    assert len(found.t_ns) <= 100
    assert found.t_ns[found.value == 7.0].tolist() == [1234 * 1000]
    assert found.t_ns[found.value == -7.0].tolist() == [5678 * 1000]
    assert np.isnan(found.value).any()  # the gap is seen
    assert (np.diff(found.t_ns) > 0).all()


def test_millions_of_steps_are_merged_and_said() -> None:
    given = lanes(steps=10)
    count = 2 * MOST_STEPS + 1
    index = np.arange(count)
    steps = replace(
        given.steps, index=index, start_ns=BASE + index * 1000, end_ns=BASE + index * 1000 + 900,
        **dict.fromkeys(("traced", "warmup", "clean", "throttled", "disturbed"), index == 4),
    )  # fmt: skip
    found = encode(replace(given, steps=steps))
    told = found.document["steps"]
    assert told["each"] == 3
    assert read(found, "steps", told["index"])[:3].tolist() == [0, 3, 6]
    assert np.flatnonzero(read(found, "steps", told["flag"])).tolist() == [1]
    assert saying(found.notes, "3 of them")


def test_more_names_and_threads_than_a_page_has_room_for_are_said() -> None:
    given = lanes(steps=10)
    count = MOST_LABELS + 500
    operations = replace(
        given.operations, start_ns=BASE + np.arange(count), end_ns=BASE + np.arange(count) + 1,
        row=np.sort(np.arange(count) % (MOST_ROWS + 1)),
        rows=[(f"thread {n}", 0) for n in range(MOST_ROWS + 1)],
        label=np.arange(count), labels=[(f"name {n}", "", "forward") for n in range(count)],
    )  # fmt: skip
    found = encode(replace(given, operations=operations))
    told = found.document["operations"]
    assert len(told["rows"]) == MOST_ROWS
    assert len(told["labels"]) == MOST_LABELS + 1
    text = " ".join(found.notes)
    assert_says(text, "500 rarer names")
    assert_says(text, f"operations beyond {MOST_ROWS} threads")


def test_names_are_short_and_steer_nothing() -> None:
    name = "\u202e\x1b[31m" + 10_000 * "a"
    found = encode(lanes(steps=20, name=name))
    text = found.document["operations"]["texts"][0]
    assert len(text) == MOST_TEXT
    assert not {"\u202e", "\x1b"} & set(text)


def test_hostile_names_stay_data_in_the_page() -> None:
    page = render_report(
        [synthetic.reported(document=synthetic.document(), timeline=lanes(steps=100))]
    )
    assert "<script>window.hacked" not in page
    assert "</script><img" not in page
    assert "The whole run" in page
    assert "100 steps, 40 operations" in page
    assert "A note of" in page


def test_without_anything_recorded_there_is_no_section() -> None:
    given = lanes(steps=10)
    empty = np.zeros(0, np.int64)
    steps = replace(given.steps, index=empty, phase_step=empty, phase_ns=empty)
    assert lanes_section("run-1", None) is None
    assert lanes_section("run-1", replace(given, steps=steps, channels=[])) is None
    page = render_report([synthetic.reported(document=synthetic.document())])
    assert "lanesData" not in page


def test_a_page_stays_within_its_size(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    given = lanes(samples=200_000)
    noise = [replace(each, value=random.random(200_000)) for each in given.channels]
    run = synthetic.reported(document=synthetic.document(), timeline=replace(given, channels=noise))
    whole = len(render_report([run]))
    monkeypatch.setattr(report, "MOST_CHARACTERS", whole - 500_000)
    page = render_report([run])
    assert len(page) <= whole - 500_000
    assert "of 600,000 samples" in page
