"""Names of millions of rows as numbers: combinations are those that plain tuples make."""

from __future__ import annotations

from itertools import product
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wattstep.attribution import codes
from wattstep.attribution.tables import naming
from wattstep.attribution.tables.naming import combined, names_of

texts = st.lists(st.sampled_from(["", "a", "b", "conv", "ä", "a" * 300]), min_size=1, max_size=30)


def column(values: list[str | None], chunks: int = 1) -> pa.ChunkedArray:
    parts = [values[n::chunks] for n in range(chunks)]
    return pa.chunked_array([pa.array(part, pa.string()).dictionary_encode() for part in parts])


def test_names_of_several_dictionaries_are_one_and_none_is_no_name() -> None:
    found = names_of(column(["b", None, "a", "b", "c", None], chunks=2))
    assert found.rows.tolist() == ["b", "a", "c", "", "b", ""]
    assert names_of(pa.chunked_array([["x", None, "x"]])).rows.tolist() == ["x", "", "x"]
    assert names_of(column([])).rows.tolist() == []


def test_a_renamed_name_is_the_same_rows() -> None:
    found = names_of(column(["", "x", ""])).renamed("", "cpu")
    assert found.rows.tolist() == ["cpu", "x", "cpu"]
    assert found.at(np.array([1, 0])).rows.tolist() == ["x", "cpu"]


@pytest.mark.parametrize("most", [codes.MOST_FLAGS, 1])
@given(first=texts, seed=st.integers(0, 100))
def test_combinations_are_those_of_tuples_in_their_order(
    most: int, first: list[str], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    second = [str(rng.choice(["x", "y", ""])) for _ in first]
    chosen = rng.random(len(first)) < 0.7
    columns = {"one": names_of(column([*first])), "two": names_of(column([*second]))}
    with (
        patch.object(naming, "MOST_FLAGS", most),
        patch.object(codes, "MOST_FLAGS", most),
    ):
        found = combined(columns, {}, chosen)
    rows = list(zip(first, second, strict=True))
    for n, m in product(range(len(rows)), repeat=2):
        assert (found.key[n] < found.key[m]) == (rows[n] < rows[m])
    for n in np.flatnonzero(chosen):
        assert found.shown[int(found.key[n])] == {"one": rows[n][0], "two": rows[n][1]}


def test_what_goes_with_a_combination_is_that_of_its_first_chosen_row() -> None:
    columns = {"name": names_of(column(["a", "a", "a", "b"]))}
    extra = {"kind": names_of(column(["w", "x", "y", "z"]))}
    found = combined(columns, extra, np.array([False, True, True, True]))
    assert [found.shown[int(key)]["kind"] for key in found.key[1:]] == ["x", "x", "z"]
