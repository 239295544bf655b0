"""Goals of a training: how they are written, and when they are reached."""

import math

import pytest
from tests.refusals import refused

from wattstep.schema.goal import Goal


@pytest.mark.parametrize(
    ("text", "reaches", "fails"),
    [("accuracy=0.6", 0.6, 0.599), ("loss=1.2", 1.2, 1.201), (" loss = 2e-3 ", 0.001, 0.01)],
)
def test_a_goal_is_reached_from_the_side_that_is_worse(text, reaches, fails):
    goal = Goal.parse(text)
    assert goal.reached(reaches)
    assert not goal.reached(fails)
    assert goal.better(reaches, fails) == reaches


@pytest.mark.parametrize(
    "text", ["", "accuracy", "accuracy=", "accuracy=60%", "speed=3", "loss=-1"]
)
def test_what_is_no_goal_is_refused_with_an_example(text):
    with refused("malformed-goal", "accuracy=0.6", "loss=1.2"):
        Goal.parse(text)


@pytest.mark.parametrize("text", ["accuracy=0", "accuracy=60", "accuracy=1.01"])
def test_an_accuracy_that_cannot_be_is_refused(text):
    with refused("out-of-range", "accuracy"):
        Goal.parse(text)


def test_a_goal_is_written_as_it_is_read():
    assert str(Goal.parse("accuracy=0.60")) == "accuracy=0.6"


def test_what_is_no_number_is_never_the_better_one_and_reaches_nothing():
    loss, accuracy = Goal.parse("loss=1"), Goal.parse("accuracy=0.5")
    assert loss.better(2.0, math.nan) == loss.better(math.nan, 2.0) == 2.0
    assert accuracy.better(math.nan, 0.2) == 0.2
    assert not loss.reached_by({"loss": math.nan})
    assert not accuracy.reached_by({"accuracy": 0.6, "loss": math.nan})
    assert accuracy.reached_by({"accuracy": 0.6, "loss": 3.0})
    assert accuracy.reached_by({"accuracy": 0.6})
