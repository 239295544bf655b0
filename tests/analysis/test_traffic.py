"""Bytes that operations move at least, against trees counted by hand."""

from __future__ import annotations

import numpy as np
import pytest

from wattstep.attribution.traffic import is_choice, is_node, is_view, moved_bytes

NAN = float("nan")


def moved(
    names: list[str], parent: list[int], given: list[float], made: list[float]
) -> list[float]:
    told = np.where(is_node(names), NAN, np.array(given))
    found = moved_bytes(
        np.array(parent), told, np.array(made, float), is_view(names), is_choice(names)
    )
    return found.tolist()


def test_an_operation_reads_what_it_is_given_and_writes_what_it_makes() -> None:
    # c = a + b of 1000 floats each: 8000 bytes read, 4000 made.
    assert moved(["aten::add"], [-1], [8000], [4000]) == [12000]


def test_an_update_in_place_makes_nothing() -> None:
    assert moved(["aten::add_"], [-1], [8000], [0]) == [8000]


def test_rows_that_hand_the_same_tensors_on_count_once() -> None:
    # conv2d > convolution > mkldnn_convolution > empty (makes the result), as_strided_ (a view)
    names = ["aten::conv2d", "aten::convolution", "aten::mkldnn_convolution", "aten::empty"]
    found = moved([*names, "aten::as_strided_"], [-1, 0, 1, 2, 2], [500, 500, 500, 0, 900],
                  [0, 0, 0, 300, 0])  # fmt: skip
    assert found[:3] == [800, 800, 800]
    assert found[3:] == [0, 0]


def test_a_node_of_the_backward_pass_moves_what_its_operations_do() -> None:
    # Given the gradient alone (40 B); two products read and make 2000 B and 1500 B together.
    names = ["AddmmBackward0", "aten::t", "aten::mm", "aten::mm"]
    found = moved(names, [-1, 0, 0, 0], [40, 700, 1200, 1000], [0, 0, 800, 500])
    assert found[0] == 3500
    assert found[1] == 0


def test_a_choice_reads_only_what_it_makes() -> None:
    # Four rows of a large table: 48 B made, whatever the table's size.
    assert moved(["aten::index_select"], [-1], [1_000_000], [48]) == [96]


def test_views_move_nothing_but_the_copies_inside_them_do() -> None:
    found = moved(["aten::reshape", "aten::clone"], [-1, 0], [400, 400], [0, 400])
    assert found == [800, 800]


def test_what_nothing_is_known_of_stays_unknown() -> None:
    found = moved(["custom::op", "aten::relu"], [-1, -1], [NAN, 100], [0, 0])
    assert np.isnan(found[0])
    assert found[1] == 100


@pytest.mark.parametrize("name", ["aten::view", "aten::t", "aten::detach", "detach", "aten::slice"])
def test_names_of_views_are_known(name: str) -> None:
    assert is_view([name]).all()


@pytest.mark.parametrize("name", ["aten::tanh", "aten::to_dense", "aten::copy_", "aten::cat"])
def test_what_touches_elements_is_no_view(name: str) -> None:
    assert not is_view([name]).any()
