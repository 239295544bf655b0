import numpy as np
import pytest
from tests.refusals import refused
from tests.wording import assert_says

from wattstep.schema.figure import Status
from wattstep.stats.statistics import NOT_BELOW, mean_figure, median_figure, ratio_figure

ALL = [mean_figure, median_figure]


def figure(of, values, **options):
    return of(values, "s", "clock", Status.MEASURED, **options)


def autoregressive(phi, n, series, seed):
    """`series` independent AR(1) series around 0, in columns, after a run-in."""
    random = np.random.default_rng(seed)
    noise = random.standard_normal((n + 100, series))
    values = noise.copy()
    for step in range(1, n + 100):
        values[step] += phi * values[step - 1]
    return values[100:]


def test_a_mean_says_what_it_rests_on():
    result = figure(mean_figure, [1.0, 2.0, 3.0, 2.0, 1.0, 3.0, 2.0, 2.0, 1.0, 3.0])
    assert result.value == pytest.approx(2.0)
    assert result.low < 2.0 < result.high
    assert (result.unit, result.status, result.source) == ("s", Status.MEASURED, "clock")
    assert (result.n, result.confidence) == (10, 0.95)
    assert "Student's t over steps" in result.method
    assert_says(result.method, "one step in 3")
    many = figure(mean_figure, np.random.default_rng(0).normal(2, 1, 400))
    assert "bootstrap over steps" in many.method


def test_a_ratio_is_sum_by_sum_and_not_the_mean_of_ratios():
    result = ratio_figure([10, 10], [1, 4], "samples/s", "clock", Status.MEASURED)
    assert result.value == pytest.approx(4.0)


def test_a_ratio_that_is_the_same_in_each_step_has_no_spread():
    seconds = np.random.default_rng(0).uniform(1, 2, 50)
    result = ratio_figure(8 * seconds, seconds, "samples/s", "clock", Status.MEASURED)
    assert (result.value, result.low, result.high) == pytest.approx((8.0, 8.0, 8.0))


def test_the_median_does_not_care_for_one_disturbed_step():
    result = figure(median_figure, [1.0, 3.0, 2.0, 3.0, 1.0, 2.0, 1000.0, 1.0, 2.0, 3.0] * 4)
    assert result.value == 2.0
    assert 1.0 <= result.low <= result.high <= 3.0


@pytest.mark.parametrize("of", ALL)
def test_one_value_has_no_interval_and_none_no_value(of):
    one = figure(of, [4.0])
    assert (one.value, one.low, one.high, one.n) == (4.0, None, None, 1)
    assert_says(one.reason, "one value")
    none = figure(of, [])
    assert none.missing
    assert (none.reason, none.n) == ("no values", 0)


@pytest.mark.parametrize("of", ALL)
def test_less_than_two_blocks_have_no_interval(of):
    result = figure(of, [1.0, 2.0, 4.0], block=2)
    assert (result.low, result.high) == (None, None)
    assert_says(result.reason, "two blocks of 2")


@pytest.mark.parametrize("of", ALL)
def test_constant_values_have_an_interval_of_no_width(of):
    result = figure(of, [2.5] * 30)
    assert (result.value, result.low, result.high) == pytest.approx((2.5, 2.5, 2.5), rel=1e-12)


@pytest.mark.parametrize("of", ALL)
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_values_that_are_no_numbers_are_refused(of, bad):
    with refused("not-finite"):
        figure(of, [1.0, bad])


def test_ratios_that_cannot_be_formed_say_so():
    assert ratio_figure([], [], "J", "x", Status.MEASURED).reason == "no values"
    zero = ratio_figure([1, 2], [0, 0], "J", "x", Status.MEASURED)
    assert zero.missing
    assert_says(zero.reason, "denominators", 0)
    with refused("unequal-lengths", "2 numerators", "1 denominators"):
        ratio_figure([1, 2], [1], "J", "x", Status.MEASURED)
    with refused("out-of-range", "denominators"):
        ratio_figure([1, 2], [1, -1], "J", "x", Status.MEASURED)


def test_a_block_of_no_steps_is_refused():
    with refused("out-of-range", "block", "0"):
        figure(mean_figure, [1.0, 2.0], block=0)


def test_the_same_seed_gives_the_same_interval():
    values = np.random.default_rng(3).normal(5, 1, 300)
    assert figure(mean_figure, values, seed=7) == figure(mean_figure, values, seed=7)
    assert figure(mean_figure, values, seed=7) != figure(mean_figure, values, seed=8)


def test_two_independent_values_give_the_interval_of_students_t():
    # Values 1 and 3: standard error 1, t for one degree of freedom 12.706.
    result = figure(mean_figure, [101.0, 103.0], block=1)
    assert result.low == pytest.approx(102 - 12.706, rel=0.005)
    assert result.high == pytest.approx(102 + 12.706, rel=0.005)
    assert "cut" not in result.method


def test_what_cannot_be_below_0_has_no_interval_that_says_so():
    # Values 1 and 3 as above: 2 - 12.7 is no time.
    result = figure(mean_figure, [1.0, 3.0], block=1)
    assert result.low == 0
    assert result.high == pytest.approx(2 + 12.706, rel=0.05)
    assert result.method.endswith(f"; {NOT_BELOW}")
    assert result.half_width == pytest.approx(12.706, rel=0.05)  # its upper half, not 14.7 / 2
    rate = ratio_figure([1.0, 9.0], [1.0, 1.0], "W", "rail", Status.MEASURED)
    assert rate.low == 0


def test_what_may_be_below_0_keeps_the_whole_interval():
    differences = figure(mean_figure, [1.0, 3.0], signed=True, block=1)
    assert differences.low == pytest.approx(2 - 12.706, rel=0.05)
    assert differences.half_width == pytest.approx(12.706, rel=0.05)
    assert figure(mean_figure, [-1.0, 3.0], block=1).low < 0  # a value shows it


@pytest.mark.parametrize("n", [2, 3, 5])
def test_cutting_at_0_takes_no_truth_away(n):
    # Exponential times of mean 1: where the cut interval misses, the whole one does as well.
    times = np.random.default_rng(22).exponential(1, (200, n))
    cut = [figure(mean_figure, row, block=1) for row in times]
    whole = [figure(mean_figure, row, block=1, signed=True) for row in times]
    assert sum(result.low == 0 for result in cut) > 20
    assert [f.low <= 1 <= f.high for f in cut] == [f.low <= 1 <= f.high for f in whole]


def test_independent_values_give_the_textbook_interval():
    values = np.random.default_rng(5).normal(10, 2, 4000)
    result = figure(mean_figure, values)
    error = values.std(ddof=1) / np.sqrt(4000)
    assert result.high - result.low == pytest.approx(2 * 1.96 * error, rel=0.08)


def test_correlated_values_have_longer_blocks_and_a_wider_interval():
    values = autoregressive(0.8, 1000, 1, seed=6)[:, 0]
    shuffled = np.random.default_rng(6).permutation(values)

    def width_and_block(series):
        result = figure(mean_figure, series)
        return result.high - result.low, int(result.method.split("blocks of ")[1].split(",")[0])

    width, block = width_and_block(values)
    plain_width, plain_block = width_and_block(shuffled)
    # In theory 3 times as wide: the root of (1 + 0.8) / (1 - 0.8).
    assert 2.0 < width / plain_width < 4.0
    assert block > 10 > plain_block


def test_of_few_steps_the_median_states_a_lower_confidence():
    # All five fall on the same side of the true median in 2 of 32 cases.
    assert figure(median_figure, [1.0, 5.0, 2.0, 4.0, 3.0]).confidence == pytest.approx(15 / 16)


@pytest.mark.parametrize("of", ALL)
def test_many_steps_are_summed_first_and_say_the_same(of):
    values = autoregressive(0.5, 50_000, 1, seed=8)[:, 0] + 3
    result = figure(of, values)
    error = 2 / np.sqrt(50_000)  # long-run deviation of an AR(1) with 0.5: 1 / (1 - 0.5)
    assert result.low < 3.0 < result.high
    if of is mean_figure:
        assert result.value == pytest.approx(values.mean())
        assert result.high - result.low == pytest.approx(2 * 1.96 * error, rel=0.15)


@pytest.mark.parametrize("phi", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("n", [5, 10, 30, 60])
def test_the_mean_of_a_short_run_is_within_its_interval_however_alike_neighbours_are(n, phi):
    # 700 series: a share of 0.93 varies by 0.0096.
    random = np.random.default_rng(n)
    values = np.zeros((700, n + 100))
    for step in range(1, n + 100):  # of deviation 1
        fresh = random.standard_normal(700) * np.sqrt(1 - phi**2)
        values[:, step] = phi * values[:, step - 1] + fresh
    found = [figure(mean_figure, row, signed=True) for row in values[:, 100:]]
    held = np.mean([f.low <= 0 <= f.high for f in found])
    assert held >= 0.93 - 2 * 0.0096
    # Student's t of a process whose correlation is known to be 0 is the best there could be; an
    # interval that is a multiple of it would say nothing.
    if n >= 30 and phi == 0:
        textbook = [2 * 2.0 * row.std(ddof=1) / np.sqrt(n) for row in values[:, 100:]]
        assert np.mean([f.high - f.low for f in found]) < 1.5 * np.mean(textbook)


def test_the_interval_of_a_short_run_is_that_of_the_process_where_it_shows_its_correlation():
    """200 values of an AR(1) process with 0.8: the long-run deviation is 3 times that of a value."""
    values = autoregressive(0.8, 200, 300, seed=9)
    widths = [f.high - f.low for f in (figure(mean_figure, row, signed=True) for row in values.T)]
    expected = 2 * 1.97 * (1 / (1 - 0.8)) / np.sqrt(200)
    assert np.median(widths) == pytest.approx(expected, rel=0.2)


@pytest.mark.parametrize(
    ("of", "phi", "n", "least"),
    [
        (mean_figure, 0.0, 200, 0.95),
        (mean_figure, 0.5, 50, 0.92),
        (mean_figure, 0.5, 300, 0.94),
        (mean_figure, 0.8, 300, 0.93),
        (median_figure, 0.0, 300, 0.95),
        (median_figure, 0.5, 300, 0.93),
    ],
)
def test_intervals_hold_the_truth_as_often_as_stated(of, phi, n, least):
    # Over 400 series a share p varies by sqrt(p (1 - p) / 400) = 0.011; three of that either way.
    # `least` is what is promised: short correlated series hold the truth a little less often.
    series = autoregressive(phi, n, 400, seed=20)
    held = [
        result.low <= 0 <= result.high
        for result in (figure(of, column, seed=i) for i, column in enumerate(series.T))
    ]
    assert least - 0.033 <= np.mean(held) <= 0.95 + 0.033


def test_the_interval_of_a_ratio_holds_the_truth_as_often_as_stated():
    random = np.random.default_rng(21)
    held = []
    for seed in range(400):
        seconds = random.gamma(20, 0.05, 40)
        joules = 6 * seconds + random.normal(0, 0.5, 40)
        result = ratio_figure(joules, seconds, "W", "rail", Status.MEASURED, seed=seed)
        held.append(result.low <= 6 <= result.high)
    assert abs(np.mean(held) - 0.95) <= 0.033
