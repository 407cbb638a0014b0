"""The verdict and the health checks, word for word."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from drbqo_ray import ChiSquareBall, Choice, Float, Int
from drbqo_ray.report.facts import Facts
from drbqo_ray.runtime.run_report import journal_facts
from tests.support.report_runs import write_run

CONFIGS = [{"x": x / 10, "kind": "a"} for x in range(1, 10)]
SPACE = {"x": Float(0.0, 1.0), "kind": Choice(["a", "b"])}


def tempting(config: dict[str, Any], fold: int) -> float:
    """The best mean lies at 0.2, where fold 0 is bad; at 0.8 every fold is fair."""
    x = config["x"]
    if x < 0.5:
        return (0.3 if fold == 0 else 0.95) - 2 * (x - 0.2) ** 2
    return 0.70 + 0.02 * fold - 2 * (x - 0.8) ** 2


def smooth(config: dict[str, Any], fold: int) -> float:
    wiggle = 0.01 * math.sin(40 * config["x"] + 3 * fold)
    return 0.9 - 4 * (config["x"] - 0.6) ** 2 - 0.05 * fold + wiggle


def facts_of(tmp_path: Path, *given: Any, **settings: Any) -> Facts:
    write_run(tmp_path / "run", *given, **settings)
    return journal_facts(tmp_path / "run", "run")


GOLDEN: dict[str, tuple[dict[str, Any], list[str]]] = {
    "robust and mean differ": (
        {"score": tempting, "space": SPACE, "configs": CONFIGS, "uncertainty": 1.0},
        [
            "Use config 7 (x = 0.8, kind = a): its robust score is the best of 9 configs, 0.703 ±"
            " 0.0034 in the worst case and 0.730 on average.",
            "Ranking by the plain mean would choose config 1 instead, which is 0.058 better on"
            " average but 0.313 worse in the worst case.",
            "The choice is not settled: best of those seen with probability 1.00, but expected loss"
            " of stopping 0.1, so train more.",
        ],
    ),
    "smaller is better": (
        {
            "score": lambda c, f: 1 - smooth(c, f),
            "space": SPACE,
            "configs": CONFIGS,
            "uncertainty": 0.5,
            "mode": "min",
        },
        [
            "Use config 5 (x = 0.6, kind = a): its robust score is the best of 9 configs, 0.23 ±"
            " 0.0081 in the worst case and 0.18 on average.",
            "Ranking by the plain mean chooses the same config, so caution costs nothing here.",
            "The choice is not settled: best of those seen with probability 1.00, but expected loss"
            " of stopping 0.2, so train more.",
        ],
    ),
    "a method that recommends by mean": (
        {"score": tempting, "space": SPACE, "configs": CONFIGS, "method": "bqo-ei"},
        [
            "Use config 1 (x = 0.2, kind = a): its mean score is the best of 9 configs, 0.389 ±"
            " 0.0034 in the worst case and 0.787 on average.",
            "Ranking by the worst case would choose config 7 instead, which is 0.313 better in the"
            " worst case but 0.058 worse on average.",
            "The choice is not settled: best of those seen with probability 1.00, but expected loss"
            " of stopping 0.1, so train more.",
        ],
    ),
    "only failures": (
        {"evaluations": 3, "fails": lambda c, f, k: "ValueError: boom"},
        [
            "No config can be recommended yet.",
            "All 3 evaluations failed.",
            "See the failures below, fix the objective, and resume.",
        ],
    ),
    "one config": (
        {"score": smooth, "space": SPACE, "configs": CONFIGS[:1], "folds": 1},
        [
            "Use config 0 (x = 0.1, kind = a): its robust score is the only one of 1 config, -0.108"
            " ± 0.061 in the worst case and -0.108 on average.",
            "Ranking by the plain mean chooses the same config, so caution costs nothing here.",
            "The choice is not settled: best of those seen with probability 1.00, but expected loss"
            " of stopping 0.6, so train more.",
        ],
    ),
}


@pytest.mark.parametrize("case", list(GOLDEN))
def test_the_verdict_word_for_word(case, tmp_path):
    settings, sentences = GOLDEN[case]
    assert list(facts_of(tmp_path, **settings).verdict.sentences) == sentences


def found(facts: Facts) -> dict[str, str]:
    return {check.key: f"{check.finding} {check.advice}" for check in facts.checks if not check.ok}


def test_a_sound_run_has_no_warning(tmp_path):
    facts = facts_of(
        tmp_path, smooth, SPACE, configs=CONFIGS, uncertainty=0.2, folds=4, n_initial=8
    )
    assert found(facts) == {}
    assert all(check.finding and not check.advice for check in facts.checks)


def test_an_optimum_at_a_bound_is_named(tmp_path):
    space = {"x": Float(0.0, 1.0), "depth": Int(1, 9)}
    configs = [{"x": x / 4, "depth": 1 + 2 * x} for x in range(5)]
    words = found(facts_of(tmp_path, lambda c, f: c["x"] + 0.01 * f, space, configs=configs))[
        "bounds"
    ]
    assert "x = 1 at its high end; depth = 9 at its high end" in words
    assert "Widen the range" in words


IDLE_SPACE = {"x": Float(0.0, 1.0), "idle": Float(0.0, 1.0), "depth": Int(1, 9)}
SPREAD_OUT = [
    {"x": x, "idle": 1.0 if x == best else (37 * k % 9) / 9, "depth": 1 + (5 * k) % 9}
    for best in (0.6, 1.0)
    for k, x in enumerate([0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0])
]


def test_a_parameter_without_importance_at_a_bound_is_no_reason_to_widen_it(tmp_path):
    facts = facts_of(
        tmp_path,
        lambda c, f: 1 - (c["x"] - 0.6) ** 2 - 0.01 * f,
        IDLE_SPACE,
        configs=SPREAD_OUT[:11],
    )
    assert facts.importance is not None
    assert dict(facts.importance.effects)["idle"] < 0.01
    assert "bounds" not in found(facts)
    (check,) = (check for check in facts.checks if check.key == "bounds")
    assert check.finding == (
        "At a bound, but the model sees nothing to gain there: idle = 1 at its high end."
    )


def test_beside_an_idle_parameter_the_one_that_acts_is_named_alone(tmp_path):
    words = found(
        facts_of(tmp_path, lambda c, f: c["x"] ** 2 - 0.01 * f, IDLE_SPACE, configs=SPREAD_OUT[11:])
    )["bounds"]
    assert "at a bound: x = 1 at its high end. Widen the range" in words


def test_a_bound_towards_which_the_model_falls_is_no_reason_to_widen_it(tmp_path):
    """The peak lies between the best two configs, the better one of which is at the end."""
    facts = facts_of(
        tmp_path,
        lambda c, f: 1 - (c["x"] - 0.85) ** 2 - 0.01 * f,
        SPACE,
        configs=[{"x": x, "kind": "a"} for x in (0.0, 0.15, 0.3, 0.45, 0.6, 1.0)],
    )
    assert facts.ranking is not None
    assert facts.ranking.chosen == 5
    assert facts.importance is not None
    assert dict(facts.importance.effects)["x"] > 0.5
    assert "bounds" not in found(facts)


def test_noise_above_the_spread_is_named(tmp_path):
    signs = iter([1, -1] * 100)
    words = found(
        facts_of(
            tmp_path,
            lambda c, f: 0.5 + 0.3 * next(signs) * (1 + 0.1 * f),
            SPACE,
            folds=3,
            configs=[c for c in CONFIGS for _ in range(2)],
        )
    )["noise"]
    assert words.startswith("Noise is larger than the spread")
    assert "more folds" in words


def test_a_fold_that_dominates_is_named(tmp_path):
    words = found(
        facts_of(
            tmp_path, lambda c, f: smooth(c, 0) - (0.5 if f == 2 else 0), SPACE, configs=CONFIGS
        )
    )["dominance"]
    assert "fold 2 carries" in words
    assert "Look at the data of fold 2" in words


def test_too_few_evaluations_are_named(tmp_path):
    words = found(facts_of(tmp_path, evaluations=3))["evaluations"]
    assert words.startswith("Too few evaluations: 3 evaluations with a score; at least 12")
    assert "9 more evaluations at least" in words


@pytest.mark.parametrize(("radius", "beyond"), [(1.49, False), (1.5, True), (9.0, True)])
def test_a_radius_beyond_the_simplex_is_named(radius, beyond, tmp_path):
    facts = facts_of(tmp_path, smooth, SPACE, configs=CONFIGS, uncertainty=ChiSquareBall(radius))
    assert ("radius" in found(facts)) is beyond
    if beyond:
        assert "beyond the simplex" in found(facts)["radius"]


def test_one_fold_is_named(tmp_path):
    facts = facts_of(tmp_path, smooth, SPACE, configs=CONFIGS, folds=1)
    assert "There is one fold" in found(facts)["radius"]
    assert facts.radius_path is None


def test_failures_are_named(tmp_path):
    facts = facts_of(
        tmp_path,
        smooth,
        SPACE,
        configs=CONFIGS,
        fails=lambda c, f, k: "boom" if f == 3 and k < 8 else None,
    )
    assert "2 of 36 evaluations failed, most of them on fold 3" in found(facts)["failures"]
    assert facts.ranking is not None
    assert facts.ranking.chosen not in (0, 1)
    assert facts.ranking.ranked == 7
