"""AutoLabeler: labels, unknown classes, what a person decides, drift, bad input."""

from __future__ import annotations

import numpy as np
import pytest
from tests.labeling.made import CENTERS, blobs
from tests.refusals import refused

from wattstep.errors import InvalidValueError
from wattstep.labeling import AutoLabeler
from wattstep.labeling.outcome import ABSTAINED, LABELED, UNKNOWN, UNREADABLE


@pytest.fixture(scope="module")
def fitted() -> AutoLabeler:
    x, y = blobs(45, (0, 1, 2), seed=1)
    return AutoLabeler(candidates=16).fit(x, np.array(["a", "b", "c"])[y])


@pytest.fixture
def labeler() -> AutoLabeler:
    x, y = blobs(45, (0, 1, 2), seed=1)
    return AutoLabeler(candidates=16).fit(x, np.array(["a", "b", "c"])[y])


def streamed(labeler: AutoLabeler, classes: tuple[int, ...], batches: int = 4) -> AutoLabeler:
    for number in range(batches):
        labeler.partial_label(blobs(100, classes, seed=10 + number)[0])
    return labeler


def test_clouds_that_are_apart_get_their_labels(fitted: AutoLabeler) -> None:
    x, y = blobs(300, (0, 1, 2), seed=2)
    told = fitted.label(x)
    right = told.labels == np.array(["a", "b", "c"])[y]
    assert right.mean() > 0.98
    assert told.probability[right].mean() > 0.8


def test_known_samples_are_called_unknown_about_as_often_as_stated() -> None:
    rates = []
    for seed in range(8):
        x, y = blobs(60, (0, 1, 2), seed=seed)
        labeler = AutoLabeler(candidates=8, false_alarm=0.1).fit(x, y)
        for number in range(2):
            labeler.partial_label(blobs(100, (0, 1, 2), seed=100 + 10 * seed + number)[0])
        told = labeler.label(blobs(300, (0, 1, 2), seed=1000 + seed)[0])
        rates.append((told.p_value <= 0.1).mean())
    assert 0.05 < np.mean(rates) < 0.15


def test_a_cloud_that_nobody_labeled_becomes_a_new_class(labeler: AutoLabeler) -> None:
    streamed(labeler, (0, 1, 2, 3), batches=6)
    told = labeler.label(blobs(100, (3,), seed=3)[0])
    assert (told.status == UNKNOWN).mean() > 0.95
    assert labeler.clusters_ == ("unknown-1",)
    assert (told.cluster == 0).mean() > 0.9


def test_new_classes_and_labels_whatever_the_batch_size() -> None:
    x, y = blobs(45, (0, 1, 2), seed=1)
    arrived, more = blobs(150, (0, 1, 2, 3), seed=10)[0], blobs(60, (0, 1, 2, 3), seed=3)[0]
    told = []
    for size in (150, 11):
        labeler = AutoLabeler(candidates=16).fit(x, y)
        for begin in range(0, len(arrived), size):
            labeler.partial_label(arrived[begin : begin + size])
        assert labeler.clusters_ == ("unknown-1",)
        told.append(labeler.label(more))
    np.testing.assert_array_equal(told[0].probability, told[1].probability)
    np.testing.assert_array_equal(told[0].cluster, told[1].cluster)


def test_a_new_class_that_is_named_is_known_from_then_on(labeler: AutoLabeler) -> None:
    streamed(labeler, (0, 1, 2, 3), batches=6)
    labeler.name("unknown-1", "d")
    assert labeler.clusters_ == ()
    assert list(labeler.classes_) == ["a", "b", "c", "d"]
    x, _ = blobs(100, (3,), seed=3)
    assert (labeler.predict(x) == "d").mean() > 0.95
    assert labeler.predict_proba(x).shape == (100, 4)


def test_names_of_new_classes_are_reserved(labeler: AutoLabeler) -> None:
    streamed(labeler, (0, 1, 2, 3), batches=6)
    for name in ("unknown-2", "unknown"):
        with refused("reserved-name", "unknown-1", name, "another name"):
            labeler.name("unknown-1", name)
    with refused("reserved-name", "merge"):
        labeler.name("unknown-1", "unknown-1")
    assert labeler.clusters_ == ("unknown-1",)


def test_a_new_class_with_the_name_of_a_known_one_becomes_part_of_it(labeler: AutoLabeler) -> None:
    streamed(labeler, (0, 1, 2, 3), batches=6).name("unknown-1", "a")
    assert list(labeler.classes_) == ["a", "b", "c"]
    assert (labeler.predict(blobs(100, (3,), seed=3)[0]) == "a").mean() > 0.9


def test_what_was_rejected_is_not_proposed_again(labeler: AutoLabeler) -> None:
    streamed(labeler, (0, 1, 2, 3), batches=6).reject("unknown-1")
    streamed(labeler, (0, 1, 2, 3), batches=8)
    assert labeler.clusters_ == ()


def test_the_samples_that_are_asked_for_are_among_the_doubtful_ones(labeler: AutoLabeler) -> None:
    streamed(labeler, (0, 1, 2, 3), batches=2)
    questions = labeler.ask(3)
    assert len(questions.x) == 3
    assert len(set(questions.numbers)) == 3
    # Whoever is of the class without labels, or between classes, is worth a question.
    to_known = np.linalg.norm(questions.x[:, None] - CENTERS[:3], axis=2).min(axis=1)
    assert to_known.max() > 3


def test_labels_of_a_class_that_was_not_there_add_it(labeler: AutoLabeler) -> None:
    x, _ = blobs(12, (3,), seed=5)
    labeler.partial_fit(x, ["d"] * 12)
    assert (labeler.predict(blobs(50, (3,), seed=6)[0]) == "d").mean() > 0.9


def test_after_classes_were_swapped_further_labels_bring_the_accuracy_back() -> None:
    x, y = blobs(60, (0, 1, 2), seed=1)
    labeler = AutoLabeler(candidates=8, memory=300).fit(x, y)
    swapped = np.array([1, 2, 0])
    for number in range(10):
        x, y = blobs(100, (0, 1, 2), seed=20 + number)
        labeler.partial_label(x)
        labeler.partial_fit(x[:6], swapped[y[:6]])
    x, y = blobs(200, (0, 1, 2), seed=90)
    assert (labeler.predict(x) == swapped[y]).mean() > 0.95
    assert labeler.engine_.drifts


def test_what_is_no_number_gets_no_label_and_teaches_nothing(labeler: AutoLabeler) -> None:
    x, _ = blobs(50, (0, 1, 2), seed=4)
    x[7, 2], x[8, 0] = np.nan, np.inf
    told = labeler.partial_label(x)
    assert list(np.flatnonzero(told.status == UNREADABLE)) == [7, 8]
    assert told.probability[7] == 0
    assert np.isnan(told.p_value[7])
    assert labeler.engine_.seen == 48


def test_values_whose_squares_are_past_the_range_of_numbers(labeler: AutoLabeler) -> None:
    x, _ = blobs(60, (0, 1, 2), seed=3)
    x[3, 1], x[4, 1] = 1e200, -1.7e308
    labeler.partial_label(x)
    more, y = blobs(40, (0, 1, 2), seed=4)
    labeler.partial_fit(
        more, np.array(["a", "b", "c"])[y]
    )  # rules anew; a warning would be an error
    assert np.isfinite(labeler.label(x).probability).all()


def test_a_batch_of_nothing_but_unreadable_samples_is_one(labeler: AutoLabeler) -> None:
    told = labeler.partial_label(np.full((3, 4), np.nan))
    assert (told.status == UNREADABLE).all()
    assert labeler.engine_.seen == 0


def test_an_empty_batch_gives_no_labels(labeler: AutoLabeler) -> None:
    assert len(labeler.partial_label(np.empty((0, 4)))) == 0


def test_batches_of_one_get_their_labels(labeler: AutoLabeler) -> None:
    x, y = blobs(40, (0, 1, 2), seed=7)
    labels = [labeler.partial_label(x[n : n + 1]).labels[0] for n in range(40)]
    assert (np.array(labels) == np.array(["a", "b", "c"])[y]).mean() > 0.95


def test_another_number_of_features_is_refused(fitted: AutoLabeler) -> None:
    with pytest.raises(ValueError, match="features"):
        fitted.label(np.zeros((2, 5)))


def test_one_class_alone_tells_what_is_not_of_it() -> None:
    x, _ = blobs(40, (0,), seed=1)
    labeler = AutoLabeler(candidates=8).fit(x, ["a"] * 40)
    assert (labeler.label(blobs(100, (1,), seed=2)[0]).status == UNKNOWN).mean() > 0.9
    assert (labeler.label(blobs(200, (0,), seed=3)[0]).status == LABELED).mean() > 0.8


def test_one_sample_alone_is_enough_to_begin() -> None:
    labeler = AutoLabeler(candidates=8).fit([[1.0, 2.0]], ["a"])
    assert labeler.predict([[1.0, 2.0]]) == ["a"]


def test_labels_of_several_types_are_refused() -> None:
    x, _ = blobs(4, (0, 1), seed=1)
    with refused("mixed-labels", "str", "number"):
        AutoLabeler().fit(x, ["a", 1, "a", 1])


def test_a_further_label_of_another_type_is_refused(labeler: AutoLabeler) -> None:
    with refused("mixed-labels"):
        labeler.partial_fit([[0.0, 0.0, 0.0, 0.0]], [3])


def test_samples_without_a_label_cannot_be_fitted_from() -> None:
    with pytest.raises(ValueError, match="0 sample"):
        AutoLabeler().fit(np.empty((0, 4)), np.empty(0))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("false_alarm", 0.0),
        ("false_alarm", 1.0),
        ("confidence", 1.1),
        ("memory", 3),
        ("candidates", 0),
    ],
)
def test_settings_that_cannot_be_are_refused(name: str, value: float) -> None:
    x, y = blobs(6, (0, 1), seed=1)
    with refused("out-of-range", name):
        AutoLabeler(**{name: value}).fit(x, y)


def test_a_label_that_is_too_unsure_is_withheld() -> None:
    x, y = blobs(45, (0, 1, 2), seed=1)
    labeler = AutoLabeler(candidates=8, confidence=1.0).fit(x, y)
    assert (labeler.label(blobs(30, (0, 1, 2), seed=2)[0]).status == ABSTAINED).any()


def test_memory_stays_the_same_however_much_comes() -> None:
    x, y = blobs(45, (0, 1, 2), seed=1)
    labeler = AutoLabeler(candidates=8, memory=100, labeled_memory=60).fit(x, y)
    for number in range(4):
        x, y = blobs(500, (0, 1, 2), seed=number)
        labeler.partial_label(x)
        labeler.partial_fit(x[:30], y[:30])
    engine = labeler.engine_
    assert len(engine.recent.x) == 100
    assert len(engine.labeled.x) == 60
    assert len(engine.graph.nodes) == 160


def test_learned_features_take_part() -> None:
    # The class is the distance from the middle, which the extractor tells and no raw feature does.
    random = np.random.default_rng(0)
    x = random.normal(size=(80, 6))
    y = (np.linalg.norm(x, axis=1) > 2.3).astype(int)

    def radius(samples: np.ndarray) -> np.ndarray:
        return np.linalg.norm(samples, axis=1, keepdims=True)

    more = random.normal(size=(300, 6))
    truth = (np.linalg.norm(more, axis=1) > 2.3).astype(int)
    learned = AutoLabeler(candidates=12, extractor=radius).fit(x, y)
    assert (learned.predict(more) == truth).mean() > 0.9


def test_an_extractor_that_gives_too_few_rows_is_refused() -> None:
    x, y = blobs(6, (0, 1), seed=1)
    with refused("extractor-shape"):
        AutoLabeler(extractor=lambda samples: samples[:1]).fit(x, y)


def test_asking_for_nothing_is_refused(fitted: AutoLabeler) -> None:
    with pytest.raises(InvalidValueError):
        fitted.ask(0)


def test_labels_that_follow_nothing_are_not_called_sure() -> None:
    sure = []
    for seed in range(3):
        random = np.random.default_rng(seed)
        labels = random.integers(0, 2, 60)
        labeler = AutoLabeler(candidates=6).fit(random.normal(size=(60, 6)), labels)
        labeler.partial_label(random.normal(size=(200, 6)))
        told = labeler.label(random.normal(size=(300, 6)))
        sure.append(told.class_probabilities.max(axis=1).mean())
    # A coin is right half of the time.
    assert np.mean(sure) < 0.65


def test_a_feature_that_few_labels_have_one_value_of_makes_no_class_unknown() -> None:
    x, y = blobs(24, (0, 1), seed=1)
    more, truth = blobs(300, (0, 1), seed=2)
    random = np.random.default_rng(0)
    flag = (random.random(300) < 0.15).astype(float)
    labeler = AutoLabeler(candidates=8).fit(np.column_stack([x, np.zeros(24)]), y)
    told = labeler.partial_label(np.column_stack([more, flag]))
    assert (told.status == UNKNOWN).mean() < 0.05
    assert (told.labels == truth).mean() > 0.95


def test_where_nothing_is_unknown_hardly_anything_is_called_so() -> None:
    x, y = blobs(60, (0, 1, 2), seed=1)
    labeler = AutoLabeler(candidates=8, false_alarm=0.1).fit(x, y)
    told = labeler.partial_label(blobs(400, (0, 1, 2), seed=2)[0])
    assert (told.status == UNKNOWN).mean() <= 0.1 / 8
