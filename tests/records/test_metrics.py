"""The registry of metrics: what another package adds badly costs its metric alone."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from wattstep.schema import metrics

ENTRIES = """[wattstep.metrics]
no_metric = bad_metrics:TEXT
not_there = bad_metrics:NOTHING
"""


def test_an_added_metric_that_is_none_is_left_out_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    about = tmp_path / "bad-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: bad\nVersion: 1\n")
    (about / "entry_points.txt").write_text(ENTRIES)
    (tmp_path / "bad_metrics.py").write_text("TEXT = 'watts'\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    with pytest.warns(UserWarning, match="left out") as said:
        found = metrics._with_added()
    assert set(found) == set(metrics._METRICS)
    texts = sorted(str(one.message).partition(":")[0] for one in said)
    assert [text.split()[2] for text in texts] == ["no_metric", "not_there"]


def test_what_is_compared_has_a_unit() -> None:
    assert all(metrics.METRICS[name].unit for name in metrics.COMPARED)
