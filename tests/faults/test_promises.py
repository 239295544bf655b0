"""What `make torture` holds against a run after a fault: lost samples are found."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.store.conftest import Journals, a_channel, a_planned_read
from tests.torture.promises import SAMPLED, UnexplainedError, look

from wattstep.schema.journal import Mark
from wattstep.store.convert import convert

BEGIN_NS = 10**12


@pytest.mark.parametrize("last_s", [None, 0.4, 8.5])
def test_lost_samples_of_a_run(tmp_path: Path, last_s: float | None) -> None:
    """Steps of ten seconds, of which samples were lost: all of them (None), or those after `last_s`."""
    journals = Journals(tmp_path / "run", [a_planned_read(0, a_channel(SAMPLED))])
    for index in range(10):
        begin_ns = BEGIN_NS + index * 1_000_000_000
        journals.marks.add(Mark.STEP_START, value=4.0, index=index, t_ns=begin_ns)
        journals.marks.add(Mark.STEP_END, value=1.0, index=index, t_ns=begin_ns + 999_000_000)
    journals.marks.close()
    rows = [(BEGIN_NS + at * 10_000_000, 0, 5) for at in range(round((last_s or 0) * 100) + 1)]
    journals.integers("samples-00.bin", rows if last_s is not None else [])
    convert(journals.path)
    told = (9, BEGIN_NS + 9_999_000_000)
    with pytest.raises(UnexplainedError, match="are lost"):
        look(journals.path, told)
    lost_s = look(journals.path, told, samples=False).lost_s
    assert lost_s == pytest.approx(9.999 - (last_s or 0.0))
    assert (
        look(journals.path, (9, BEGIN_NS + round((last_s or 0.0) * 1e9) + 900_000_000)).lost_s < 1
    )
