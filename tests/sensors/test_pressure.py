from __future__ import annotations

import pytest

from wattstep.record.sensors.pressure import Pressure
from wattstep.schema.channel import Absent, Present

SOME = "some avg10=7.37 avg60=2.99 avg300=0.83 total=7589662\n"
FULL = "full avg10=0.00 avg60=0.00 avg300=0.00 total=125\n"


def test_totals_are_seconds_by_resource_and_line(tree, measure):
    root = tree({"proc/pressure/cpu": SOME + FULL, "proc/pressure/io": SOME + FULL})
    assert measure(Pressure().probe(root, 1)) == pytest.approx(
        {
            "pressure.cpu.some": 7.589662,
            "pressure.cpu.full": 0.000125,
            "pressure.io.some": 7.589662,
            "pressure.io.full": 0.000125,
        }
    )


def test_an_old_kernel_has_no_full_line_for_the_cpu(tree, measure):
    assert set(measure(Pressure().probe(tree({"proc/pressure/cpu": SOME}), 1))) == {
        "pressure.cpu.some"
    }


def test_each_resource_has_its_domain(tree):
    root = tree({f"proc/pressure/{name}": SOME for name in ("cpu", "memory", "io")})
    found = Pressure().probe(root, 1)
    assert isinstance(found, Present)
    assert [read.channels[0].domain for read in found.reads] == ["cpu", "memory", "system"]


def test_a_kernel_without_pressure_is_a_reason(tmp_path):
    found = Pressure().probe(tmp_path, 1)
    assert isinstance(found, Absent)
    assert "psi=1" in found.reason
