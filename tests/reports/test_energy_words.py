"""How reports speak of energy: above idle or with it, of the total and its parts, how sure the sensor is."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from tests.reports import synthetic
from tests.reports.terminal.test_run import printed

from wattstep.report import wording
from wattstep.report.html.report import render_report
from wattstep.report.values import show
from wattstep.schema.figure import Figure, Status


def above_idle() -> dict[str, Any]:
    """A run of which idle power was taken off."""
    base = synthetic.document()
    whole = {
        f"{name}_with_idle": synthetic.figure(joules, "J")
        for name, joules in (("energy_per_step", 39.2e-3), ("energy_per_sample", 9.8e-3))
    }
    return {**base, "metrics": {**base["metrics"], **whole}}


def test_figures_above_idle_say_so_on_the_card_in_the_summary_and_on_the_terminal() -> None:
    page, text = (
        render_report([synthetic.reported(document=above_idle())]),
        printed(above_idle(), width=120),
    )
    assert "<h3>Energy per step above idle</h3>" in page
    assert "<h3>Energy per sample above idle</h3>" in page
    assert "above that of" in page
    assert "step above idle" in text
    assert "above idle" not in render_report([synthetic.reported(document=synthetic.document())])


def test_what_operations_make_together_is_the_step_with_idle() -> None:
    words = "Together they make the step with idle power, 39.2 mJ."
    assert words in render_report([synthetic.reported(document=above_idle())])
    assert words in printed(above_idle(), width=120)
    assert "make the step.</p>" in render_report(
        [synthetic.reported(document=synthetic.document())]
    )


def test_a_run_above_idle_is_compared_with_idle_beside_one_that_is_not() -> None:
    gross = synthetic.document()
    one, other = synthetic.report(above_idle()), synthetic.report(gross)
    first, second = wording.side_by_side([one, other])
    assert first.value("energy_per_step") == 39.2e-3
    assert dict(second) == dict(other.metrics)
    both = wording.side_by_side([one, one])
    assert both[0]["energy_per_step"] == other.metrics["energy_per_step"]
    assert wording.among(both[0], "energy_per_step").label.endswith("above idle")
    assert wording.among(first, "energy_per_step").label == "Energy per step"


def channel(name: str, role: str, domain: str) -> dict[str, Any]:
    return {**synthetic.document()["channels"][0], "name": name, "role": role, "domain": domain}


@pytest.mark.parametrize(
    ("domain", "said"), [("system", "total, contains the others"), ("cpu", "total")]
)
def test_the_total_is_no_bar_beside_the_rails_it_contains(domain: str, said: str) -> None:
    """A package of a processor holds its own parts, and no graphics card."""
    base = synthetic.document()
    page = render_report([synthetic.reported(document={
        **base,
        "channels": [channel("VDD_IN", "power_total", domain), channel("CPU", "power_part", "cpu")],
        "energy_by_rail": {
            "CPU": synthetic.figure(3e-3, "J"), "VDD_IN": synthetic.figure(9e-3, "J")
        },
    })])  # fmt: skip
    section = page.partition("<h3>Energy by rail</h3>")[2].partition("</section>")[0]
    assert f"VDD_IN ({said})" in section
    assert f"VDD_IN ({said})" not in page.replace(section, "")  # no chart has it


def test_an_interval_that_is_surer_than_the_sensor_has_the_sensor_beside_it() -> None:
    """1.838 W on a sensor in steps of 38.3 mW."""
    figure = Figure(
        value=1.838, unit="W", low=1.8379, high=1.8381, systematic=0.0104, status=Status.MEASURED
    )
    assert show(figure).interval == "1.8379 to 1.8381; sensor ± 1 %"
    assert show(replace(figure, low=None, high=None)).interval == "sensor ± 1 %"
    assert show(replace(figure, low=1.8, high=1.9)).interval == "1.80 to 1.90"
    assert show(replace(figure, systematic=0.253)).interval.endswith("; sensor ± 25 %")


def test_the_load_of_an_emulated_board_is_told_from_that_of_the_machine_that_trained() -> None:
    base = synthetic.document()
    emulated = {
        **base,
        "device": {"model": "NVIDIA Jetson TX2", "cores": 6, "emulated_on": base["device"]},
        "metrics": {
            **base["metrics"],
            "cpu_utilization": {**base["metrics"]["cpu_utilization"], "status": "modelled"},
        },
    }
    page = render_report([synthetic.reported(document=emulated)])
    assert re.search("<h3>CPU utilization[^<]*an emulated NVIDIA Jetson TX2</h3>", page)
    assert "Jetson TX2 was busy" in page
    assert "the training machine" in page
    assert "the training machine" not in render_report([synthetic.reported(document=base)])
