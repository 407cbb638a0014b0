"""What to expect in a context that was not seen: the formula, the choice, and where it is shown."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import t

import drbqo_ray as dr
from drbqo_ray.cli.saved_run import SavedRun
from drbqo_ray.errors import InvalidInput, NothingObserved
from drbqo_ray.report.page import render_page
from drbqo_ray.runtime.run_report import journal_facts
from tests.support.fold_objectives import SPACE as RUN_SPACE
from tests.support.fold_objectives import smooth

NAMES = ["Basel", "Bern", "Chur"]
SPACE = {"x": dr.Float(0, 1)}


def told(table: Any, places: Any = None, **settings: Any) -> dr.Optimizer:
    """An optimizer that was told scores (m, n) of m configs, none where they are NaN."""
    table = np.asarray(table, dtype=float)
    given = {"method": "foldwise", "fixed_seed": True, **settings}
    opt = dr.Optimizer(SPACE, table.shape[1], **given)
    for k, row in enumerate(table):
        for fold, score in enumerate(row):
            if np.isfinite(score):
                x = k / max(len(table) - 1, 1) if places is None else places[k]
                opt.observe({"x": x}, fold, score)
    return opt


def plain_interval(row: Any, level: float) -> tuple[float, float, float]:
    n, mean = len(row), np.mean(row)
    half = t.ppf((1 + level) / 2, n - 1) * np.std(row, ddof=1) * np.sqrt(1 + 1 / n)
    return mean, mean - half, mean + half


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.floats(-50, 50), min_size=2, max_size=8),
    st.sampled_from([0.5, 0.9, 0.95]),
    st.sampled_from(["max", "min"]),
)
def test_one_config_with_all_its_scores_has_the_interval_of_textbooks(
    row: list[float], level: float, mode: str
) -> None:
    found = told([row], mode=mode).forecast(level)
    expected = plain_interval(row, level)
    np.testing.assert_allclose((found.expected, *found.interval), expected, rtol=1e-7, atol=1e-7)
    assert (found.level, found.n) == (level, len(row))


def test_losses_are_forecast_as_the_mirror_of_gains() -> None:
    table = np.random.default_rng(1).normal(size=(5, 4))
    table[1, 2] = table[3, 0] = np.nan
    gains, losses = told(table).forecast(), told(-table, mode="min").forecast()
    assert losses.expected == pytest.approx(-gains.expected)
    assert losses.interval == pytest.approx((-gains.interval[1], -gains.interval[0]))


def test_the_choice_is_corrected_by_leaving_contexts_out() -> None:
    table = np.random.default_rng(2).normal(size=(12, 5))
    opt = told(table, uncertainty=0.0)
    best = int(np.argmax(table.mean(axis=1)))
    honest = [
        table[np.argmax(np.delete(table, fold, axis=1).mean(axis=1)), fold] for fold in range(5)
    ]
    assert np.mean(honest) < table[best].mean()
    assert opt.forecast().expected == pytest.approx(np.mean(honest))
    assert opt.forecast(config={"x": best / 11}) == opt.forecast()


def test_a_config_that_never_leads_is_not_corrected() -> None:
    low = np.arange(4.0)
    found = told([low, low + 9]).forecast(config={"x": 0.0})
    assert found.expected == pytest.approx(low.mean())


@pytest.mark.parametrize("method", ["foldwise", "drbqo"])
def test_the_width_is_that_of_rows_drawn_from_the_model(method: str) -> None:
    """Of rows of scores as they may be: their mean variance between contexts, and the variance of
    their means; where the model smooths scores, a new score has its noise on top."""
    rng = np.random.default_rng(3)
    contexts, table = rng.normal(size=6), np.full((8, 6), np.nan)
    for k in range(8):
        chosen = rng.permutation(6)[: 2 if k else 3]
        table[k, chosen] = contexts[chosen] - 0.3 * k + 0.1 * rng.normal(size=len(chosen))
    opt = told(table, method=method)
    scoring, found = opt.scoring(), opt.forecast()
    best = np.array([scoring.number_of(opt.recommend().config)])
    row = scoring.estimates(scoring.expected_rows(best))[0]
    z = scoring.history.config_Z[best]
    C = scoring.gp.covariance(z)
    if method == "foldwise":
        C = scoring.score_draws.covariances(scoring.gp, z, scoring.firmness(best))[0]
    C = scoring.fit.scale**2 * C
    if method == "foldwise":
        trained = np.isfinite(table[best[0]])
        np.testing.assert_allclose(row[trained], table[best[0], trained])
    drawn = rng.multivariate_normal(row, C, size=200_000)
    s2, of_mean = drawn.var(axis=1, ddof=1).mean(), drawn.mean(axis=1).var()
    noise = scoring.noise_std**2 if method == "drbqo" else 0.0
    half = (found.interval[1] - found.interval[0]) / 2 / t.ppf(0.975, 5)
    assert half**2 == pytest.approx(s2 * 7 / 6 + of_mean + noise, rel=0.005)
    assert min(s2 - row.var(ddof=1), of_mean) > 0.01 * half**2  # each of them would be missed


@pytest.mark.parametrize("method", ["foldwise", "drbqo"])
def test_intervals_hold_new_contexts_as_often_as_they_say(method: str) -> None:
    """Contexts shift all configs, and each config a little by itself; two thirds are trained."""
    held, promised = [], []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        shift = rng.normal(size=(1, 7)) + 0.3 * rng.normal(size=(8, 7))
        table = shift - np.linspace(0, 2, 8)[:, None]
        seen = table[:, :6] + np.where(rng.uniform(size=(8, 6)) < 0.67, 0.0, np.nan)
        opt = told(seen, method=method)
        found, best = opt.forecast(0.9), round(7 * opt.recommend().config["x"])
        held.append(found.interval[0] <= table[best, 6] <= found.interval[1])
        promised.append(found.expected - table[best, 6])
    assert 0.8 <= np.mean(held) <= 0.98  # 0.9 within 2.5 standard errors of 60
    assert abs(np.mean(promised)) < 3 * np.std(promised) / np.sqrt(60)


def test_many_contexts_are_left_out_in_parts() -> None:
    table = np.random.default_rng(4).normal(size=(3, 90))
    assert told(table, method="drbqo").forecast().n == 90


def test_looking_changes_nothing_that_is_asked() -> None:
    one, other = (told(np.random.default_rng(5).normal(size=(6, 3)), seed=3) for _ in range(2))
    one.forecast()
    assert one.ask() == other.ask()


@pytest.mark.parametrize("level", [0, 1, 95, -0.5, float("nan"), "0.9", True, None])
def test_a_level_is_a_probability(level: Any) -> None:
    with pytest.raises(InvalidInput, match="probability"):
        told([[1.0, 2.0]]).forecast(level)


def test_one_context_says_nothing_of_others() -> None:
    with pytest.raises(InvalidInput, match="at least 2"):
        told([[1.0]]).forecast()
    with pytest.raises(NothingObserved):
        dr.Optimizer(SPACE, 3).forecast()
    with pytest.raises(InvalidInput, match="evaluated"):
        told([[1.0, 2.0]]).forecast(config={"x": 0.77})


@pytest.mark.parametrize("contexts", [NAMES, 3], ids=["named", "counted"])
def test_a_run_has_it_and_shows_it_where_contexts_have_names(contexts: Any, tmp_path: Any) -> None:
    result = dr.run(
        smooth,
        RUN_SPACE,
        contexts,
        n_evaluations=14,
        backend="inline",
        storage=tmp_path / "a",
        progress=False,
    )
    saved = SavedRun.read(str(tmp_path / "a"))
    assert result.forecast == saved.run.optimizer.forecast() == saved.result().forecast
    assert dr.load(tmp_path / "a").forecast == result.forecast  # made, and then
    assert dr.load(tmp_path / "a").forecast == result.forecast  # as it was kept
    assert dataclasses.is_dataclass(result.forecast)
    facts = journal_facts(tmp_path / "a", "a")
    shown = [
        "In a new environment like these 3, expect" in facts.verdict.sentences[0],
        "in a new environment" in render_page(facts),
        "forecast" in result._repr_html_(),
        "forecast" in saved.run.optimizer._repr_html_(),
        any(line.startswith("forecast   expect") for line in saved.lines()),
    ]
    assert shown == [contexts == NAMES] * 5


def test_a_run_of_one_context_has_none() -> None:
    result = dr.run(smooth, RUN_SPACE, ["alone"], n_evaluations=3, backend="inline", progress=False)
    assert result.forecast is None
    assert "forecast" not in result._repr_html_()
