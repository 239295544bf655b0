"""A saved labeler goes on exactly as the other would have; its file is data."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from tests.labeling.made import blobs
from tests.refusals import refused

from wattstep.labeling import AutoLabeler


def made() -> AutoLabeler:
    x, y = blobs(45, (0, 1, 2), seed=1)
    labeler = AutoLabeler(candidates=12).fit(x, np.array(["a", "b", "c"])[y])
    for number in range(3):
        labeler.partial_label(blobs(80, (0, 1, 2, 3), seed=number)[0])
    return labeler


def test_it_goes_on_exactly_as_it_would_have(tmp_path: Path) -> None:
    one = made()
    one.save(tmp_path / "state.npz")
    other = AutoLabeler.load(tmp_path / "state.npz")
    for number in range(2):
        x, y = blobs(150, (0, 1, 2, 3), seed=50 + number)
        first, second = one.partial_label(x), other.partial_label(x)
        np.testing.assert_array_equal(first.labels, second.labels)
        np.testing.assert_array_equal(first.class_probabilities, second.class_probabilities)
        np.testing.assert_array_equal(first.p_value, second.p_value)
        np.testing.assert_array_equal(first.cluster, second.cluster)
        assert first.clusters == second.clusters
        known = y < 3
        labels = np.array(["a", "b", "c", "d"])[y]
        one.partial_fit(x[known][:5], labels[known][:5])
        other.partial_fit(x[known][:5], labels[known][:5])
    assert one.get_params() == other.get_params()


def test_a_path_as_text_as_the_docs_write_it(tmp_path: Path) -> None:
    one = made()
    one.save(f"{tmp_path}/state.npz")
    other = AutoLabeler.load(f"{tmp_path}/state.npz")
    x, _ = blobs(20, (0, 1, 2), seed=9)
    np.testing.assert_array_equal(one.label(x).p_value, other.label(x).p_value)


def test_a_file_with_an_object_in_it_is_refused_and_not_run(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return Path.touch, (tmp_path / "run",)  # type: ignore[return-value]

    path = tmp_path / "state.npz"
    np.savez(path, tree=np.array([Trap()], dtype=object), allow_pickle=True)
    with refused("not-a-state", "state.npz"):
        AutoLabeler.load(path)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("content", [b"", b"PK", pickle.dumps({"a": 1}), json.dumps({}).encode()])
def test_another_file_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "state.npz"
    path.write_bytes(content)
    with refused("not-a-state"):
        AutoLabeler.load(path)


def test_a_file_that_is_cut_off_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "state.npz"
    made().save(path)
    path.write_bytes(path.read_bytes()[:5000])
    with refused("not-a-state"):
        AutoLabeler.load(path)


def test_a_labeler_with_learned_features_asks_for_its_extractor(tmp_path: Path) -> None:
    x, y = blobs(30, (0, 1), seed=1)
    AutoLabeler(candidates=8, extractor=lambda each: each[:, :1]).fit(x, y).save(tmp_path / "s.npz")
    with refused("other-extractor"):
        AutoLabeler.load(tmp_path / "s.npz")
