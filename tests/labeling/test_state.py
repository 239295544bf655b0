"""A saved labeler goes on exactly as the other would have; its file is data."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from tests.labeling.altered import altered
from tests.labeling.made import blobs
from tests.refusals import refused

from wattstep.errors import InvalidValueError
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


@pytest.fixture(scope="module")
def rich(tmp_path_factory: pytest.TempPathFactory) -> dict[str, np.ndarray]:
    """The arrays of a state that has all there is: new classes, an earlier concept, answered questions."""
    path = tmp_path_factory.mktemp("rich") / "state.npz"
    x, y = blobs(30, (0, 1, 2), seed=1)
    labeler = AutoLabeler(candidates=6, max_heuristics=4, memory=100).fit(x, y)
    for number in range(6):
        x, y = blobs(60, (0, 1, 2, 3), seed=20 + number)
        labeler.partial_label(x)
        known = np.flatnonzero(y < 3)[:8]
        labeler.partial_fit(x[known], np.array([1, 2, 0])[y[known]])
    labeler.ask(3)
    engine = labeler.engine_
    assert engine.concepts
    assert engine.archive
    assert labeler.clusters_
    labeler.save(path)
    with np.load(path) as archive:
        return {name: archive[name] for name in archive.files}


@pytest.mark.parametrize(
    "part", [0, *(pytest.param(part, marks=pytest.mark.system) for part in range(1, 8))]
)
def test_of_an_altered_state_comes_a_refusal_or_a_labeler_that_works(
    tmp_path: Path, rich: dict[str, np.ndarray], part: int
) -> None:
    x, y = blobs(24, (0, 1, 2), seed=60)
    path, refusals = tmp_path / "state.npz", []
    for seed in range(25 * part, 25 * (part + 1)):
        arrays, what = altered(rich, np.random.default_rng(seed))
        np.savez(path, **arrays)  # type: ignore[arg-type]
        try:
            labeler = AutoLabeler.load(path)
        except InvalidValueError as error:
            refusals.append(error.id)
            continue
        told = labeler.partial_label(x)
        assert np.isfinite(told.probability).all(), what
        assert np.allclose(told.class_probabilities.sum(axis=1), 1), what
        labeler.ask(2)
        assert len(labeler.partial_fit(x[:3], labeler.classes_[y[:3]]).predict(x)) == len(x), what
        labeler.save(path)
    assert len(refusals) > 10
    assert set(refusals) <= {"not-a-state", "other-state"}
