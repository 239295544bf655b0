from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from wattstep.formats.gpu_load import parse_ged, parse_gpubusy, parse_percent
from wattstep.formats.recording import FormatError

EXAMPLES = 100_000 if settings.default.max_examples > 1000 else 200


def test_adrenos_busy_time_is_a_share_of_its_window():
    found = parse_gpubusy(" 131072  1048576\n")
    assert (found.busy_us, found.total_us) == (131072, 1048576)
    assert found.share == 0.125


def test_a_gpu_that_is_powered_down_has_no_share():
    assert parse_gpubusy("      0       0").share is None  # as an idle Adreno prints it


@pytest.mark.parametrize("text", ["13 %", "13%\n", b"13", " 13 % "])
def test_percents_of_exynos_mali_and_adreno_are_ratios(text):
    assert parse_percent(text) == 0.13


def test_mediateks_first_number_is_the_load():
    assert parse_ged("37 5 58\n") == 0.37
    assert parse_ged("37") == 0.37


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (parse_gpubusy, "5 4"),
        (parse_gpubusy, "5"),
        (parse_gpubusy, "cat: gpubusy: Permission denied"),
        (parse_percent, "101 %"),
        (parse_percent, "-1"),
        (parse_percent, ""),
        (parse_percent, "١٣ %"),
        (parse_ged, "37 101 0"),
        (parse_ged, "37 5"),
    ],
)
def test_what_is_no_load_is_an_error(parse, text):
    with pytest.raises(FormatError) as caught:
        parse(text)
    assert caught.value.line == 1


@pytest.mark.parametrize("parse", [parse_gpubusy, parse_percent, parse_ged])
@settings(max_examples=EXAMPLES)
@given(data=st.binary(max_size=60) | st.text("0123456789 %\n", max_size=20).map(str.encode))
@example(data=b"9" * 5000 + b" " + b"9" * 5000)
def test_any_bytes_give_a_load_up_to_one_or_a_clear_error(parse, data):
    try:
        found = parse(data)
    except FormatError:
        return
    share = found.share if parse is parse_gpubusy else found
    assert share is None or 0 <= share <= 1
