"""Small parts of the report under any input: axes, digits, lanes, fronts, ranks."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.stats import kendalltau

from drbqo_ray.records import Observation
from drbqo_ray.report.draw import Scale, element, nice_step, tick_text, word_lines
from drbqo_ray.report.panels.incumbent import Checkpoint, limits
from drbqo_ray.report.panels.pareto import front_of
from drbqo_ray.report.panels.ranking import _agreement
from drbqo_ray.report.panels.timeline import draw_up
from drbqo_ray.report.wording import Decimals, config_text, count, seconds, value_text

numbers = st.floats(-1e12, 1e12)


@example([5e-324])
@example([0.0, 1e-311])
@example([-1e-300, 1e-300])
@given(st.lists(numbers, min_size=1, max_size=20))
def test_a_scale_holds_its_values_and_has_ticks_within(values):
    scale = Scale.around(values, 100.0, 10.0)
    assert all(10 - 1e-6 <= scale(value) <= 100 + 1e-6 for value in values)
    ticks = scale.ticks()
    assert 1 <= len(ticks) <= 12
    assert all(10 - 1e-3 <= scale(tick) <= 100 + 1e-3 for tick in ticks)


@given(st.lists(numbers, min_size=1, max_size=20), st.floats(0, 1e12), st.floats(0, 1e12))
def test_a_scale_has_no_room_beyond_what_can_be(values, below, above):
    least, most = min(values) - below, max(values) + above
    scale = Scale.around(values, 100.0, 10.0, least, most)
    assert least <= scale.low < scale.high <= most or min(values) == max(values) in (least, most)


@pytest.mark.parametrize(("value", "ends"), [(1.0, (0.0, 1.0)), (0.0, (0.0, math.inf))])
def test_a_scale_around_an_end_lies_on_one_side_of_it(value, ends):
    scale = Scale.around([value], 100.0, 10.0, *ends)
    assert ends[0] <= scale.low < scale.high <= ends[1]


@example([1.107e8, 1.1071e8])
@given(st.lists(numbers, min_size=2, max_size=5))
def test_no_two_ticks_read_the_same(values):
    scale = Scale.around(values, 100.0, 10.0)
    if scale.high - scale.low > 1e-9 * max(abs(scale.low), abs(scale.high)):
        ticks = scale.ticks()
        step = ticks[1] - ticks[0] if len(ticks) > 1 else 1.0
        words = [tick_text(tick, nice_step(step)) for tick in ticks]
        assert len(set(words)) == len(words)
        for tick, word in zip(ticks, words, strict=True):
            assert float(word.replace(",", "")) == pytest.approx(tick, abs=0.3 * step)


@given(
    st.lists(st.tuples(st.floats(0, 500), st.text(max_size=16)), min_size=1, max_size=14),
    st.integers(1, 3),
)
def test_words_on_a_line_do_not_touch_and_the_first_is_never_left_out(ticks, lines):
    ticks.sort()
    places, words = zip(*ticks, strict=True)
    rows = word_lines(places, words, lines)
    assert rows[0] == 0
    for line in range(lines):
        kept = [
            (place, len(word))
            for place, word, row in zip(places, words, rows, strict=True)
            if row == line
        ]
        for (a, one), (b, other) in pairwise(sorted(kept)):
            assert b - a >= 7 * (one + other) / 2


def test_the_end_of_an_axis_keeps_its_word_before_the_tick_beside_it():
    assert word_lines([0, 100, 108], ["0", "4", "4.5 (worst fold)"], 1) == [0, None, 0]
    assert word_lines([0, 100, 108], ["0", "4", "4.5 (worst fold)"], 2) == [0, 1, 0]


@given(st.floats(1e-300, 1e300))
def test_a_step_is_round_and_not_too_small(least):
    step = nice_step(least)
    assert least * (1 - 1e-9) <= step <= 10.0001 * least
    digit = step / 10.0 ** math.floor(math.log10(step * 1.0000001))
    assert min(abs(digit - each) for each in (1, 2, 5, 10)) < 1e-6


@given(st.lists(numbers, min_size=1, max_size=20))
def test_digits_tell_values_apart(values):
    digits = Decimals.of(values)
    spread = max(values) - min(values)
    if digits.places is not None and spread > 1e-6:
        shown = [float(digits.text(value)) for value in values]
        assert all(abs(a - b) <= spread / 100 for a, b in zip(values, shown, strict=True))


def test_nothing_is_written_as_minus_zero():
    assert Decimals(3).text(-1e-9) == "0.000"
    assert Decimals(3).text(-0.001) == "-0.001"


def test_what_is_no_number_is_a_dash():
    assert Decimals.of([]).text(None) == "–"
    assert Decimals.of([math.nan]).text(math.nan) == "–"


outcomes = st.builds(
    Observation,
    id=st.integers(0, 10**6),
    config=st.just({}),
    context=st.integers(0, 3),
    status=st.sampled_from(["ok", "failed"]),
    seconds=st.floats(0, 100),
    node=st.sampled_from([None, "a", "b"]),
)
times = st.none() | st.floats(0, 1000)


@given(st.lists(st.tuples(outcomes, times), max_size=40, unique_by=lambda pair: pair[0].id))
def test_bars_of_a_lane_never_overlap_and_utilization_is_a_share(given_outcomes):
    told_at = {seen.id: at for seen, at in given_outcomes if at is not None}
    timeline = draw_up([seen for seen, _ in given_outcomes], told_at)
    if timeline is None:
        assert not told_at
        return
    assert len(timeline.bars) == len(told_at)
    assert timeline.untimed == len(given_outcomes) - len(told_at)
    assert 0 <= timeline.utilization <= 1 + 1e-6
    for lane in range(len(timeline.lanes)):
        bars = sorted((b.start, b.end) for b in timeline.bars if b.lane == lane)
        assert bars
        assert all(a[1] <= b[0] for a, b in pairwise(bars))


values = st.integers(-3, 3).map(float)


@given(st.lists(st.tuples(values, values), min_size=1, max_size=15))
def test_the_front_holds_exactly_what_nothing_beats(points):
    gain, width = np.array(points).T
    expected = [
        not any(a >= g and b <= w and (a > g or b < w) for a, b in points) for g, w in points
    ]
    assert front_of(gain, width).tolist() == expected


@given(st.lists(st.tuples(values, values), min_size=2, max_size=15))
def test_agreement_is_kendalls_tau(points):
    one, other = np.array(points).T
    expected = kendalltau(one, other).statistic
    found = _agreement(one, other)
    if math.isnan(expected):
        assert found is None
    else:
        assert found == pytest.approx(expected)


@given(st.text(), st.text())
def test_an_element_escapes_all_it_is_given(words, value):
    text = str(element("text", words, data_x=value))
    inside = text[len("<text data-x=") :]
    assert inside.count("<") == (1 if words else 0)
    assert "'" not in inside.replace("&#39;", "")
    assert inside.count('"') == 2


def test_words():
    assert count(1, "fold") == "1 fold"
    assert count(2000, "fold") == "2,000 folds"
    assert seconds(3.14159) == "3.14 s"
    assert seconds(600) == "10 min"
    assert seconds(36000) == "10 h"
    assert value_text(0.1 + 0.2) == "0.3"
    assert value_text("a\nb") == "a\\nb"
    assert (
        config_text({f"p{k}": k for k in range(6)}) == "p0 = 0, p1 = 1, p2 = 2, p3 = 3 and 2 more"
    )


def checkpoints(*values: float, band: float = 0.0) -> list[Checkpoint]:
    return [Checkpoint(k + 1, None, 0, v, v - band, v + band) for k, v in enumerate(values)]


def test_a_first_value_far_off_does_not_flatten_the_others():
    low, high = limits(checkpoints(-100.0, 0.5, 0.70, 0.72, 0.71, 0.73, band=0.01))
    assert low > -13  # an eighth of the whole height at most
    assert high == pytest.approx(0.74)
    later = 0.74 - 0.70
    low, high = limits(checkpoints(0.0, 0.66, 0.68, 0.72, 0.71, 0.73, band=0.01))
    assert (high - low) <= 0.1 + 2 * later
    assert low > 0.5


def test_nothing_is_cut_off_where_all_values_are_close():
    values = (0.68, 0.69, 0.70, 0.72, 0.71, 0.73)
    low, high = limits(checkpoints(*values, band=0.02))
    assert (low, high) == (0.68, pytest.approx(0.75))
    assert limits(checkpoints(0.5)) == (0.5, 0.5)
    assert limits(checkpoints(0.5, 0.5, 0.5)) == (0.5, 0.5)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=40), st.floats(0, 1e3))
def test_the_later_half_and_its_bands_are_always_in_view(values, band):
    points = checkpoints(*values, band=band)
    low, high = limits(points)
    for point in points[len(points) // 2 :]:
        assert low <= point.low <= point.high <= high
