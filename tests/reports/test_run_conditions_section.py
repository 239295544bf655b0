"""Conditions in the reports: throttled stretches with their evidence, idle watts, what sensors carry."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console
from tests.reports import synthetic
from tests.wording import assert_says, saying

from wattstep.report import wording
from wattstep.report.conditions import counted_twice, power_channels, rails, sentences, stretches
from wattstep.report.divisions import divisions
from wattstep.report.html.report import render_report
from wattstep.report.tables import costs
from wattstep.report.terminal.run import print_run
from wattstep.report.terminal.summary import print_summary
from wattstep.report.wording import cautions
from wattstep.schema.figure import counted, missing

UNRESOLVED = "not resolvable: VDD_IN gave a new value every 422 ms, this lasts {} ms"


def stretch(start: float, **more: Any) -> dict[str, Any]:
    return {
        "start": start,
        "end": start + 2.5,
        "uncertain": 0.1,
        "kind": "throttled",
        "cause": "temperature",
        "evidence": "CPU-therm reached 97.5 °C; throttling begins at 97 °C",
        **more,
    }


def channel(name: str, role: str, **more: Any) -> dict[str, Any]:
    return {
        "name": name, "unit": "W", "kind": "gauge", "domain": "soc", "role": role,
        "source": "ina3221", "status": "replayed", "window": 0.422, "observed_share": None,
        "note": "", "samples": 900, "update_interval": 0.422, "resolution_seen": 0.0385,
        "repeated_share": 0.976, "read_cost": 62e-6,
        "refresh": synthetic.figure(0.422, "s", "replayed", 0.4215, 0.4224), **more,
    }  # fmt: skip


def document(**conditions: Any) -> dict[str, Any]:
    """A TX2 that was played back, throttled for a while."""
    base = synthetic.document()
    metrics = {
        **base["metrics"],
        "idle_power": {
            "before": synthetic.figure(2.5, "W", "replayed", 2.4, 2.6),
            "after": synthetic.missing("W", "no idle stretch was recorded after the steps"),
        },
        "energy_per_step_above_idle": {"before": synthetic.figure(0.005, "J", "replayed")},
    }
    return {
        **base,
        "metrics": metrics,
        "channels": [
            *base["channels"],
            channel("VDD_IN", "power_total", note="leaves out the carrier board: 6-8 W"),
            channel("MUX", "power_outside", refresh=synthetic.figure(0.02, "s", low=0, high=0.02)),
            channel("never", "power_part", samples=0),
        ],
        "left_out": ["leaves out the carrier board: 6-8 W"],
        "energy_outside": {"MUX": synthetic.figure(0.02, "J", "replayed")},
        "conditions": {
            "throttled_steps": 15,
            "disturbed_steps": 0,
            "of_steps": 100,
            "excluded": [],
            "watched": ["CPU-therm"],
            "stretches": [stretch(10.0), stretch(70.0, evidence=synthetic.HOSTILE)],
            "more_stretches": 0,
            "notes": ["cpu0.cap allowed at most 1.2 GHz of 2 GHz all the time"],
            **conditions,
        },
    }


def printed(shown: dict[str, Any], width: int = 80) -> str:
    stream = io.StringIO()
    print_run(synthetic.report(shown), Console(file=stream, width=width, no_color=True))
    return stream.getvalue()


def test_sentences_say_what_was_throttled_what_idle_took_and_what_the_total_leaves_out() -> None:
    found = sentences(synthetic.report(document()))
    assert saying(found, "15 of 100 clean steps", "include them")
    assert saying(found, "Cpu0.cap", "1.2 GHz of 2 GHz")
    assert saying(found, "before the first", "2.50 W (2.40 to 2.60; replayed).")
    assert not saying(found, "after the last")  # among what was not measured
    assert saying(found, "what leaks", "taken off")
    assert saying(found, "The total", "carrier board: 6-8 W.")
    assert saying(found, "Not in", "MUX", "20.0 mJ (replayed).")


def test_a_run_that_was_not_throttled_says_by_which_sensors() -> None:
    names = [f"zone{n}" for n in range(6)]
    found = sentences(synthetic.report(document(throttled_steps=0, stretches=[], watched=names)))
    assert saying(found, "No clean step", "6 sensors", "zone0, zone1, zone2, zone3 and 2 more.")
    found = sentences(synthetic.report(document(throttled_steps=0, stretches=[], watched=["zone"])))
    assert saying(found, "No clean step", "1 sensor", ": zone.")


def test_disturbances_that_could_not_be_seen_are_not_said_to_be_none() -> None:
    shown = document(disturbed_steps=None)
    shown["steps"] = {"recorded": 130, "clean": 100}
    assert "disturbed" not in wording.steps(synthetic.report(shown))
    assert not any("disturbed" in one for one in sentences(synthetic.report(shown)))


def test_steps_that_were_left_out_are_said_to_be() -> None:
    shown = document(excluded=["throttled"])
    shown["steps"] = {"recorded": 130, "clean": 85, "throttled": 15, "left out": 15, "traced": 30}
    words = "15 steps were throttled and left out of the figures: those are of 85 clean steps."
    assert words in sentences(synthetic.report(shown))
    texts = [caution.text for caution in cautions(synthetic.report(shown))]
    assert f"Throttling: {words}" in texts
    stream = io.StringIO()
    print_summary(synthetic.report(shown), Console(file=stream, width=200))
    # 85 + 15 + 30 = 130: one number of clean steps throughout.
    assert_says(stream.getvalue(), "85 clean, 30 traced", "15 left out (15 throttled)")
    assert any(
        "--exclude throttled" in caution.text for caution in cautions(synthetic.report(document()))
    )


def test_stretches_stand_with_time_uncertainty_and_evidence() -> None:
    found = stretches(synthetic.report(document(more_stretches=7)))
    assert found is not None
    assert found.rows[0][:3] == ("10.00 s", "12.50 s ± 100 ms", "throttled")
    assert_says(found.rows[0][3], "CPU-therm", "97.5 °C", "97 °C")
    assert found.rows[-1][-1] == "and 7 more stretches"


def test_power_sensors_stand_with_what_they_can_carry() -> None:
    found = power_channels(synthetic.report(document()))
    assert found is not None
    assert [row[0] for row in found.rows] == ["VDD_IN", "MUX"]
    name, interval, step, repeats, facts = found.rows[0]
    assert (name, interval) == ("VDD_IN", "422.0 ms (421.5 to 422.4)")
    assert (step, repeats) == ("38.5 mW", "97.6 %")
    # What the total leaves out stands above the table.
    assert_says(facts, "total", "replayed", "422 ms", "62.0 µs")
    assert found.rows[1][1] == "20.0 ms at most"
    assert found.rows[1][4].startswith("not in")


@pytest.mark.parametrize("width", [80, 120])
def test_the_terminal_shows_them_within_its_width(width: int) -> None:
    text = printed(document(stretches=[stretch(float(n)) for n in range(40)]), width)
    assert max(map(len, text.splitlines())) <= width
    assert "CPU-therm reached 97.5 °C" in text
    assert "and 28 more" in text
    assert "38.5 mW" in text


def test_the_page_shows_them_and_hostile_evidence_is_text() -> None:
    page = render_report([synthetic.reported(document=document())])
    assert "<h3>Conditions</h3>" in page
    assert_says(page, "CPU-therm reached 97.5 °C", "at 97 °C")
    assert synthetic.HOSTILE not in page
    assert "MUX (not in" in page
    assert "<h3>Conditions</h3>" not in render_report(
        [synthetic.reported(document=synthetic.document())]
    )


def test_many_operations_too_short_for_the_sensor_make_one_note() -> None:
    rows: list[dict[str, Any]] = [
        {"name": f"op{n}", "energy": missing("J", UNRESOLVED.format(n))} for n in range(1, 40)
    ]
    rows.append({"name": "long", "energy": counted(1.0, "J", "a sensor")})
    (note,) = costs(rows).notes
    assert_says(note, "39 of 40 rows", "VDD_IN", "422 ms")


def test_beside_phases_the_rest_holds_what_phases_leave_out() -> None:
    """Operations are too short for 9 J of 10, phases for 2 J."""
    shown = document()
    none = synthetic.figure(0.0, "s", "attributed")
    shown["rests"]["not_resolved"] = {
        "time": none, "share": {**none, "unit": "ratio"}, "energy": synthetic.figure(9.0, "J"),
    }  # fmt: skip
    shown["not_resolved"] = {"phases": {"energy": synthetic.figure(2.0, "J")}}
    page = render_report([synthetic.reported(document=shown)])
    part = page[page.index("all figures of its parts") :]
    row = part[part.index("too short for the sensor") :]
    assert "2.00 J" in row[: row.index("</tr>")]
    assert "too short for" in printed(shown)
    assert "9.00 J" in printed(shown)
    # In the bar, too: what phases leave out are no 9 J.
    found = {each.title: each for each in divisions(synthetic.report(shown))}
    (short,) = [p for p in found["energy by phase"].parts if p.name == "too short for the sensor"]
    assert short.figure is not None
    assert short.figure.value == 2.0


GROUP = {
    "name": "conv2d in layer2", "level": "kind in layer", "resolved": True,
    "members": [f"aten::conv2d of layer2.{n} in forward" for n in range(5)],
    "time": synthetic.figure(0.01, "s", "attributed"),
    "energy": synthetic.figure(0.41, "J", "attributed"),
    "power": synthetic.figure(41.0, "W", "attributed"),
}  # fmt: skip


def test_what_is_known_together_only_is_listed_on_terminal_and_page() -> None:
    shown = {**document(), "energy_groups": [GROUP]}
    on_terminal = printed(shown)
    assert "together only, 1 of 1" in on_terminal
    assert "conv2d in layer2" in on_terminal
    assert "410 mJ" in on_terminal
    page = render_report([synthetic.reported(document=shown)])
    part = page[page.index("Energy known together only") :]
    assert_says(part, "aten::conv2d of layer2.2 in forward", "2 more")
    assert "known together only" not in render_report(
        [synthetic.reported(document=synthetic.document())]
    )


def test_operations_in_groups_make_one_note_and_missing_power_none() -> None:
    reason = "not resolvable: cannot be distinguished from 3 others of conv2d; together 1 J"
    rows = [
        {
            "name": f"op{n}", "energy": missing("J", f"{reason} ({n} to 2)"),
            "power": missing("W", f"{reason} ({n} to 2)"),
        }
        for n in range(4)
    ]  # fmt: skip
    (note,) = costs(rows).notes
    assert_says(note, "Energy is missing", "in groups")


def test_beside_phases_stands_what_they_leave_out_though_operations_leave_nothing() -> None:
    shown = document()
    shown["rests"].pop("not_resolved", None)
    shown["not_resolved"] = {"operations": {}, "phases": {"energy": synthetic.figure(2.0, "J")}}
    page = render_report([synthetic.reported(document=shown)])
    part = page[page.index("all figures of its parts") :]
    row = part[part.index("too short for the sensor") :]
    assert "2.00 J" in row[: row.index("</tr>")]


def test_the_sum_of_all_rails_is_said_to_be_off_where_one_feeds_another() -> None:
    """The rails of a Jetson AGX Orin: the two that make the total are 3 J, the third is within."""
    shown = document()
    roles = {"gpu": "power_total", "system": "power_total", "ddr": "power_part"}
    notes = {
        "gpu": "feeds gpu and soc together: the share of one cannot be read",
        "system": shown["left_out"][0],
        "ddr": "feeds memory: read; fed by VIN_SYS_5V0, which contains it",
    }
    shown["channels"] = [
        {**shown["channels"][0], "name": n, "role": r, "note": notes[n]} for n, r in roles.items()
    ]
    shown["energy_by_rail"] = {
        name: synthetic.figure(joules, "J")
        for name, joules in {"gpu": 1.0, "system": 2.0, "ddr": 0.45}.items()
    }
    expected = (
        "The sum of all rails says 15 % too much, 3.45 J a step in place of 3.00 J: ddr is fed by a "
        "rail that counts already."
    )
    report = synthetic.report(shown)
    assert list(counted_twice(report)) == [expected]
    known = rails(report)
    assert known is not None
    assert known.sum == expected
    roles = {name: role for name, _, role in known.roles}
    assert list(roles) == ["gpu", "system", "ddr"]
    assert_says(roles["gpu"], "gpu and soc")
    assert roles["system"] == ""
    assert_says(roles["ddr"], "not added", "VIN_SYS_5V0")
    assert "before the first" in known.idle


def test_of_a_log_without_steps_the_sum_of_all_rails_is_of_the_whole_recording() -> None:
    shown = document()
    shown["figures_of"] = "recording"
    shown["channels"] = [
        {**shown["channels"][0], "name": name, "role": f"power_{role}", "note": None}
        for name, role in (("gpu", "total"), ("system", "total"), ("ddr", "part"))
    ]
    shown["energy_by_rail"] = {
        name: synthetic.figure(joules, "J")
        for name, joules in {"gpu": 1.0, "system": 2.0, "ddr": 0.45}.items()
    }
    (sentence,) = counted_twice(synthetic.report(shown))
    assert_says(sentence, "3.45 J", "3.00 J")
    assert "a step" not in sentence
    shown["channels"][1]["role"] = "power_part"
    assert rails(synthetic.report(shown)) is None
