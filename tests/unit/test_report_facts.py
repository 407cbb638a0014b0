"""Every number of the facts, computed again from the lines of the journal with plain NumPy."""

from __future__ import annotations

import json
import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import kendalltau

from drbqo_ray import (
    Choice,
    CVaR,
    Expectation,
    Float,
    Int,
    KLBall,
    MMDBall,
    Space,
    TotalVariationBall,
    WassersteinBall,
    WorstCase,
)
from drbqo_ray.cli.saved_run import SavedRun
from drbqo_ray.report.facts import Facts
from drbqo_ray.report.panels.parameters import total_effects
from drbqo_ray.report.posterior import read_posterior
from drbqo_ray.runtime.run_report import journal_facts
from tests.support.report_runs import SPACE, two_peaks, write_run
from tests.support.uncertainty_oracles import chi_square_value, unit

BAND = 1.96
RADIUS = 0.7
REFERENCE = [0.1, 0.2, 0.3, 0.4]
SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {"uncertainty": RADIUS},
    "min": {"uncertainty": RADIUS, "mode": "min", "score": lambda c, f: 3 - two_peaks(c, f)},
    "weighted": {"uncertainty": RADIUS, "reference": REFERENCE},
    "failing": {"uncertainty": RADIUS, "fails": lambda c, f, k: "boom" if k % 7 == 3 else None},
}


class Oracle:
    """The run by its journal's text and the model's parameters alone."""

    def __init__(self, directory: Path) -> None:
        text = (directory / "journal.jsonl").read_text(encoding="utf-8")
        lines = [json.loads(line) for line in text.splitlines()]
        problem = lines[0]["data"]["problem"]
        self.sign = -1.0 if problem["mode"] == "min" else 1.0
        self.n = int(problem["contexts"])
        self.q = np.array(problem["reference"] or [1 / self.n] * self.n)
        self.asks = {r["data"]["id"]: r["data"] for r in lines if r["kind"] == "ask"}
        self.told = [r["data"] for r in lines if r["kind"] in ("tell", "fail")]
        saved = SavedRun.read(str(directory)).run.optimizer
        posterior = read_posterior(saved)
        assert posterior is not None
        self.fit, self.posterior = posterior.fit, posterior
        space = Space(problem["space"])
        keys: dict[str, int] = {}
        self.configs: list[dict[str, Any]] = []
        self.number, self.fold, self.score = [], [], []
        for told in self.told:
            config = self.asks[told["id"]]["config"]
            key = json.dumps(config, sort_keys=True)
            if key not in keys:
                keys[key] = len(keys)
                self.configs.append(config)
            self.number.append(keys[key])
            self.fold.append(self.asks[told["id"]]["context"])
            self.score.append(told.get("score", math.nan))
        units = np.array([space.to_unit(config) for config in self.configs])
        self.Z = space.features(units)

    def kernel(self, a: np.ndarray, i: np.ndarray, b: np.ndarray, j: np.ndarray) -> np.ndarray:
        parameters = np.array(self.fit.parameters)
        d = self.Z.shape[1]
        theta, psi, s2 = np.exp(parameters[:d]), np.exp(parameters[d:-2]), np.exp(parameters[-2])
        gap = ((a[:, None] - b[None]) / theta) ** 2
        onehot = np.eye(self.n)
        between = ((onehot[i][:, None] - onehot[j][None]) / psi) ** 2
        return s2 * np.exp(-gap.sum(-1) - between.sum(-1))

    def believe(self, size: int | None = None) -> tuple[np.ndarray, Any]:
        """Means (m, n) on the user's scale, and a function for covariances of weighted sums."""
        size = len(self.told) if size is None else size
        y = self.sign * np.array(self.score[:size])
        y = np.where(np.isnan(y), np.nanmin(y), y)
        rows, folds = np.array(self.number[:size]), np.array(self.fold[:size])
        X = self.Z[rows]
        K = self.kernel(X, folds, X, folds) + np.exp(self.fit.parameters[-1]) * np.eye(size)
        known = rows.max() + 1
        pairs = np.repeat(np.arange(known), self.n), np.tile(np.arange(self.n), known)
        k = self.kernel(self.Z[pairs[0]], pairs[1], X, folds)
        scores = (y - self.fit.center) / self.fit.scale
        means = (k @ np.linalg.solve(K, scores)).reshape(known, self.n)
        means = means - self.posterior.after(size).disputed[:, None]  # see test_committee

        def covariance(one: int, p: np.ndarray, other: int, r: np.ndarray) -> float:
            all_ = np.arange(self.n)
            A = np.repeat(self.Z[[one]], self.n, 0)
            B = np.repeat(self.Z[[other]], self.n, 0)
            kA, kB = self.kernel(A, all_, X, folds), self.kernel(B, all_, X, folds)
            C = self.kernel(A, all_, B, all_) - kA @ np.linalg.solve(K, kB.T)
            return float(p @ C @ r) * self.fit.scale**2

        return self.sign * (self.fit.center + self.fit.scale * means), covariance

    def usable(self, size: int | None = None) -> list[int]:
        size = len(self.told) if size is None else size
        bad = {k for k, s in zip(self.number[:size], self.score[:size], strict=True) if s != s}
        return [k for k in range(max(self.number[:size]) + 1) if k not in bad]

    def robust(self, means: np.ndarray, radius: float) -> float:
        """The robust value of means (n,) on the user's scale, by bisection."""
        gains = self.sign * means
        low, width = gains.min(), np.ptp(gains)
        value = float(chi_square_value(unit(gains), self.q, radius))
        return float(self.sign * (low + width * value))


@pytest.fixture(scope="module", params=list(SETTINGS))
def run(request, tmp_path_factory) -> tuple[Facts, Oracle]:
    directory = tmp_path_factory.mktemp(request.param) / "run"
    write_run(directory, evaluations=26, **SETTINGS[request.param])
    return journal_facts(directory, request.param), Oracle(directory)


def test_rows_hold_what_the_model_believes(run):
    facts, oracle = run
    means, covariance = oracle.believe()
    assert facts.ranking is not None
    assert facts.ranking.total == len(oracle.configs) == len(facts.ranking.rows)
    for row in facts.ranking.rows:
        np.testing.assert_allclose(row.fold_means, means[row.number], atol=1e-7)
        assert row.config == oracle.configs[row.number]
        assert row.mean == pytest.approx(means[row.number] @ oracle.q, abs=1e-7)
        assert row.robust == pytest.approx(oracle.robust(means[row.number], RADIUS), abs=1e-7)
        worst = oracle.sign * (oracle.sign * means[row.number]).min()
        assert row.worst == pytest.approx(worst, abs=1e-7)
        p = np.array(row.weights)
        assert row.std == pytest.approx(
            math.sqrt(max(covariance(row.number, p, row.number, p), 0)), abs=1e-5
        )
        spread = np.sqrt(oracle.q @ (means[row.number] - means[row.number] @ oracle.q) ** 2)
        assert row.spread == pytest.approx(spread, abs=1e-7)


def test_weights_lie_in_the_ball_and_give_the_robust_value(run):
    facts, oracle = run
    assert facts.ranking is not None
    for row in facts.ranking.rows:
        p = np.array(row.weights)
        assert p.min() >= 0
        assert p.sum() == pytest.approx(1, abs=1e-9)
        assert 0.5 * np.sum((p - oracle.q) ** 2 / oracle.q) <= RADIUS + 1e-9
        assert p @ np.array(row.fold_means) == pytest.approx(row.robust, abs=1e-9)
    shown = facts.weights
    assert shown is not None
    p = np.array(shown.weights)
    assert shown.distance == pytest.approx(0.5 * np.sum((p - oracle.q) ** 2 / oracle.q))
    assert shown.limit == RADIUS
    assert shown.config == facts.ranking.chosen


def test_counts_of_a_config_are_those_of_the_journal(run):
    facts, oracle = run
    assert facts.ranking is not None
    for row in facts.ranking.rows:
        own = [k for k, number in enumerate(oracle.number) if number == row.number]
        good = [k for k in own if not math.isnan(oracle.score[k])]
        assert row.folds_seen == len({oracle.fold[k] for k in good})


def test_ranks_are_those_of_the_values(run):
    facts, oracle = run
    means, _ = oracle.believe()
    usable = oracle.usable()
    robust = {k: oracle.sign * oracle.robust(means[k], RADIUS) for k in usable}
    mean = {k: oracle.sign * float(means[k] @ oracle.q) for k in usable}
    assert facts.ranking is not None
    assert facts.ranking.ranked == len(usable)
    for row in facts.ranking.rows:
        if row.number not in robust:
            assert row.robust_rank is row.mean_rank is None
            continue
        assert row.robust_rank == 1 + sum(v > robust[row.number] + 1e-9 for v in robust.values())
        assert row.mean_rank == 1 + sum(v > mean[row.number] + 1e-9 for v in mean.values())
    assert facts.ranking.chosen == max(robust, key=robust.__getitem__)
    assert facts.ranking.mean_choice == max(mean, key=mean.__getitem__)
    tau = kendalltau([mean[k] for k in usable], [robust[k] for k in usable]).statistic
    assert facts.ranking.agreement == pytest.approx(tau)


def test_the_recommendation_is_that_of_the_optimizer(tmp_path):
    write_run(tmp_path / "run", evaluations=20)
    facts = journal_facts(tmp_path / "run", "run")
    found = SavedRun.read(str(tmp_path / "run")).run.optimizer.recommend()
    assert facts.ranking is not None
    row = facts.ranking.row(facts.ranking.chosen)
    assert row is not None
    assert row.config == found.config
    assert row.robust == found.robust_value
    assert row.std == pytest.approx(found.std, rel=1e-6)
    assert list(row.weights) == found.weights


def test_heat_map_cells_are_scores_of_the_journal_or_the_models_guess(run):
    facts, oracle = run
    heat = facts.parts["heat_map"]
    means, _ = oracle.believe()
    assert heat is not None
    for row in heat.cells:
        for cell in row:
            own = [
                oracle.score[k]
                for k in range(len(oracle.told))
                if (oracle.number[k], oracle.fold[k]) == (cell.config, cell.fold)
            ]
            good = [score for score in own if not math.isnan(score)]
            assert (cell.observed, cell.failed) == (len(good), len(own) - len(good))
            value = np.mean(good) if good else means[cell.config, cell.fold]
            assert cell.value == pytest.approx(value, abs=1e-7)
    average = means[oracle.usable()].mean(0)
    assert heat.hardest == np.argmin(oracle.sign * average)


def test_radius_path_falls_and_names_the_winner_at_every_size(run):
    facts, oracle = run
    path = facts.radius_path
    means, _ = oracle.believe()
    usable = oracle.usable()
    assert path is not None
    assert path.own == RADIUS
    assert path.sizes[0] == 0
    assert path.sizes[-1] == pytest.approx((1 / oracle.q.min() - 1) / 2)
    for curve in (path.best, *path.curves.values()):
        assert (np.diff(oracle.sign * np.array(curve)) <= 1e-9).all()
    for k in range(0, len(path.sizes), 8):
        size, value, winner = path.sizes[k], path.best[k], path.winners[k]
        values = [oracle.sign * oracle.robust(means[k], size) for k in usable]
        assert oracle.sign * value == pytest.approx(max(values), abs=1e-7)
        assert values[usable.index(winner)] == pytest.approx(max(values), abs=1e-7)


def test_winner_changes_where_two_configs_are_equal(run):
    facts, oracle = run
    path = facts.radius_path
    means, _ = oracle.believe()
    assert path is not None
    numbers = sum(a != b for a, b in pairwise(path.winners))
    assert len(path.changes) == numbers
    for change in path.changes:
        before = oracle.robust(means[change.before], change.size)
        after = oracle.robust(means[change.after], change.size)
        if {change.before, change.after} <= set(path.winners):
            assert oracle.sign * after >= oracle.sign * before - 1e-6


def test_no_point_of_the_front_is_beaten(run):
    facts, oracle = run
    assert facts.parts["pareto"] is not None
    points = [(oracle.sign * p.mean, -p.spread, p.on_front) for p in facts.parts["pareto"].points]
    for gain, calm, on_front in points:
        beaten = any(a >= gain and b >= calm and (a > gain or b > calm) for a, b, _ in points)
        assert on_front is not beaten


def test_incumbent_curve_is_the_recommendation_of_every_prefix(run):
    facts, oracle = run
    incumbent = facts.parts["incumbent"]
    assert incumbent is not None
    for point in incumbent.checkpoints:
        means, _ = oracle.believe(point.evaluations)
        usable = oracle.usable(point.evaluations)
        values = {k: oracle.sign * oracle.robust(means[k], RADIUS) for k in usable}
        assert values[point.config] == pytest.approx(max(values.values()), abs=1e-6)
        assert oracle.sign * point.value == pytest.approx(values[point.config], abs=1e-6)
        assert point.seconds == oracle.told[point.evaluations - 1]["at"]
        assert point.high - point.value == pytest.approx(point.value - point.low)
    last = incumbent.checkpoints[-1]
    assert facts.ranking is not None
    row = facts.ranking.row(last.config)
    assert row is not None
    assert (last.high - last.low) / 2 == pytest.approx(BAND * row.std, abs=1e-9)


def test_timeline_has_a_bar_for_every_outcome_and_adds_up(run):
    facts, oracle = run
    timeline = facts.parts["timeline"]
    assert timeline is not None
    bars = {bar.id: bar for bar in timeline.bars}
    for told in oracle.told:
        bar = bars[told["id"]]
        assert bar.end == told["at"]
        assert bar.end - bar.start == pytest.approx(told["seconds"])
        assert timeline.lanes[bar.lane].node == told["node"]
        assert bar.ok is ("score" in told)
    wall = max(t["at"] for t in oracle.told) - min(t["at"] - t["seconds"] for t in oracle.told)
    busy = sum(t["seconds"] for t in oracle.told)
    assert timeline.utilization == pytest.approx(busy / (wall * len(timeline.lanes)))
    for lane in range(len(timeline.lanes)):
        own = sorted((b.start, b.end) for b in timeline.bars if b.lane == lane)
        assert all(a[1] <= b[0] + 1e-6 for a, b in pairwise(own))


def test_failures_are_those_of_the_journal(run):
    facts, oracle = run
    failed = [told for told in oracle.told if "score" not in told]
    assert [f.id for f in facts.failures.shown] == [told["id"] for told in failed]
    assert all(f.cause == "error" for f in facts.failures.shown)
    assert all(f.summary == "boom" for f in facts.failures.shown)
    assert (facts.failures.total, facts.failures.evaluations) == (len(failed), len(oracle.told))


def test_only_the_parameters_that_act_are_important(tmp_path):
    space = {"x": SPACE["x"], "idle": SPACE["x"]}
    write_run(
        tmp_path / "run", lambda c, f: math.sin(5 * c["x"]) + 0.1 * f, space, 3, 40, method="random"
    )
    facts = journal_facts(tmp_path / "run", "run")
    importance = facts.importance
    assert importance is not None
    assert [name for name, _ in importance.effects] == ["x", "idle"]
    effects = dict(importance.effects)
    assert effects["x"] == pytest.approx(1, abs=0.25)
    assert effects["idle"] < 0.02
    points = {p.value: p.robust for p in facts.parts["slices"][0].points}
    assert max(points, key=points.__getitem__) == pytest.approx(math.pi / 10, abs=0.05)


def only_x(config: dict[str, Any], fold: int) -> float:
    return math.sin(5 * config["x"]) + 0.1 * fold


def in_turn(config: dict[str, Any], fold: int) -> float:
    """Which of two parameters acts depends on a third."""
    return config["x"] if config["kind"] == "a" else config["y"] ** 2 + 0.1 * fold


@pytest.mark.parametrize("score", [only_x, in_turn])
def test_no_parameter_has_a_hand_in_more_than_all_of_the_variation(score, tmp_path):
    space = {"x": Float(0, 1), "y": Float(0, 1), "n": Int(1, 7), "kind": Choice(["a", "b", "c"])}
    write_run(tmp_path / "run", score, space, 3, 30, method="random")
    posterior = read_posterior(SavedRun.read(str(tmp_path / "run")).run.optimizer)
    assert posterior is not None
    effects = np.array([total_effects(posterior, seed) for seed in range(10)])
    assert (effects >= 0).all()
    assert (effects <= 1).all()
    assert effects.std(axis=0).max() < 0.06
    assert (effects.sum(axis=1) > 0.97).all()


def test_the_importance_of_parameters_that_act_apart_sums_to_one(tmp_path):
    space = {name: Float(0, 1) for name in "wxyz"}
    write_run(
        tmp_path / "run",
        lambda c, f: c["w"] + 2 * c["x"] + 3 * c["y"] - 0.1 * f,
        space,
        2,
        60,
        method="random",
    )
    posterior = read_posterior(SavedRun.read(str(tmp_path / "run")).run.optimizer)
    assert posterior is not None
    for seed in range(5):
        effects = total_effects(posterior, seed)
        assert effects == pytest.approx([1 / 14, 4 / 14, 9 / 14, 0], abs=0.03)
        assert effects.sum() == pytest.approx(1, abs=0.06)


def test_the_importance_of_a_product_is_that_of_its_formula(tmp_path):
    """For x * y of independent parts, 3/7 + 1/7 of the variation has to do with each."""
    space = {"x": Float(0, 1), "y": Float(0, 1)}
    grid = [k / 4 for k in range(5)]
    write_run(
        tmp_path / "run",
        lambda c, f: c["x"] * c["y"],
        space,
        2,
        method="random",
        configs=[{"x": x, "y": y} for x in grid for y in grid],
    )
    importance = journal_facts(tmp_path / "run", "run").importance
    assert importance is not None
    for _, effect in importance.effects:
        assert effect == pytest.approx(4 / 7, abs=0.05)


def test_a_parameter_of_one_value_has_no_importance(tmp_path):
    write_run(tmp_path / "run", only_x, {"x": Float(0, 1), "kind": Choice(["a"])}, 3, 12)
    importance = journal_facts(tmp_path / "run", "run").importance
    assert importance is not None
    assert dict(importance.effects)["kind"] == 0


OTHER_SETS = [
    Expectation(),
    WorstCase(),
    KLBall(0.4),
    TotalVariationBall(0.3),
    CVaR(0.4),
    WassersteinBall(0.4, [[abs(i - j) for j in range(4)] for i in range(4)]),
    MMDBall(0.3, np.eye(4)),
]


@pytest.mark.parametrize("uncertainty", OTHER_SETS, ids=lambda each: each.kind)
@pytest.mark.parametrize("mode", ["max", "min"])
def test_every_kind_of_set_has_a_falling_path_from_the_mean_to_the_worst_fold(
    uncertainty, mode, tmp_path
):
    sign = 1 if mode == "max" else -1
    write_run(
        tmp_path / "run",
        lambda c, f: sign * two_peaks(c, f),
        evaluations=12,
        method="random",
        uncertainty=uncertainty,
        mode=mode,
    )
    facts = journal_facts(tmp_path / "run", "run")
    path, ranking = facts.radius_path, facts.ranking
    assert path is not None and ranking is not None  # noqa: PT018
    for number, curve in path.curves.items():
        row = ranking.row(number)
        assert row is not None
        assert (np.diff(sign * np.array(curve)) <= 1e-8).all()
        assert curve[0] == pytest.approx(row.mean, abs=1e-8)
        assert curve[-1] == pytest.approx(row.worst, abs=1e-6)
        assert curve[path.sizes.index(path.own)] == pytest.approx(row.robust, abs=1e-8)
    weights = facts.weights
    assert weights is not None
    if weights.distance is not None and weights.limit is not None:
        assert weights.distance <= weights.limit + 1e-9


def test_a_condensed_model_gives_sound_facts(tmp_path, monkeypatch):
    monkeypatch.setattr("drbqo_ray.core.surrogate.EXACT_LIMIT", 60)
    write_run(tmp_path / "run", evaluations=120, method="random")
    facts = journal_facts(tmp_path / "run", "run")
    found = SavedRun.read(str(tmp_path / "run")).run.optimizer.recommend()
    assert facts.ranking is not None
    row = facts.ranking.row(facts.ranking.chosen)
    assert row is not None
    assert row.robust == found.robust_value
    assert row.std == pytest.approx(found.std, rel=1e-6)
    assert facts.parts["incumbent"] is not None
    last = facts.parts["incumbent"].checkpoints[-1]
    assert last.config == row.number
    assert last.value == pytest.approx(row.robust, abs=0.02)
