"""What a library makes while it is loaded stays: no garbage is looked for in it, neither then nor soon after."""

from __future__ import annotations

import gc
import sys
from pathlib import Path

import pytest

from wattstep.schema.extras import require

LOADED = "import gc\nCOLLECTED = gc.isenabled()\nMADE = [[] for _ in range(10)]\n"


@pytest.mark.parametrize("set_aside", [False, True])
def test_what_is_loaded_counts_as_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, set_aside: bool
) -> None:
    name = f"loaded_part_{set_aside}".lower()
    (tmp_path / f"{name}.py").write_text(LOADED, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    if set_aside:  # by somebody who will take it back
        gc.freeze()
    before = gc.get_freeze_count()
    try:
        part = require(name)
        assert part.COLLECTED is False
        assert gc.isenabled()
        assert (gc.get_freeze_count() > 0) is (before > 0) is set_aside
        if not set_aside:
            assert any(each is part.MADE for each in gc.get_objects(generation=2))
        assert require(name) is part
    finally:
        gc.unfreeze()
        sys.modules.pop(name, None)
