"""What a command does without while it reads runs, and that all is as before afterwards."""

from __future__ import annotations

import gc
import subprocess
import sys

import pytest

from wattstep.cli.lean import lean

# In a process of its own: pyarrow looks for pandas once.
LOOKED = """
import sys
from wattstep.store.without_pandas import without_pandas
without_pandas()
import pyarrow
assert pyarrow.array(["a", None]).to_numpy(zero_copy_only=False).tolist() == ["a", None]
assert pyarrow.table({"a": [1.5]})["a"].to_numpy().tolist() == [1.5]
assert "pandas" not in sys.modules
frame = pyarrow.table({"a": [1.5]}).to_pandas()
import pandas
assert isinstance(frame, pandas.DataFrame)
assert pyarrow.array(frame["a"]).to_pylist() == [1.5]
"""


def test_nothing_is_collected_inside_and_again_afterwards() -> None:
    assert gc.isenabled()
    seen = []

    def fail() -> None:
        with lean():
            seen.append(gc.isenabled())
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert seen == [False]
    assert gc.isenabled()


def test_who_collects_nothing_anyway_goes_on_so() -> None:
    gc.disable()
    try:
        with lean():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_pyarrow_does_not_load_pandas_before_somebody_asks_for_a_table_of_it() -> None:
    pytest.importorskip("pandas")
    subprocess.run([sys.executable, "-c", LOOKED], check=True)
