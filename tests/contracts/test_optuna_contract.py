"""Optuna's own suite for samplers, and for pruners, which have none, rules of the same kind.

The objectives of the suite suggest no fold. That is what `FoldSampler` expects with one fold, so
all of the suite runs with one. With three folds a trial without a fold is an error, so only those
cases run that finish no trial.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable

import pytest

optuna = pytest.importorskip("optuna", reason="needs the extra: pip install 'drbqo_ray[optuna]'")
suite = pytest.importorskip("optuna.testing.pytest_samplers", reason="needs Optuna 4.9 or newer")

from drbqo_ray.optuna_sampler import FoldPruner, FoldSampler  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")

NEVER_TWICE = "asks for more configs than the space has: a pair is never asked twice"
NOT_APPLICABLE = {  # case -> how it ends
    "test_single_parameter_objective[<lambda>2]": AssertionError,  # 3 configs: the study stops
    "test_sample_relative_categorical": optuna.TrialPruned,  # 9 configs, asked for without a study
}


class TestSamplerWithOneFold(
    suite.BasicSamplerTestCase, suite.RelativeSamplerTestCase, suite.SingleOnlySamplerTestCase
):
    @pytest.fixture
    def sampler(self) -> Callable[[], FoldSampler]:
        return lambda: FoldSampler(1, seed=0, n_initial=3)

    @pytest.fixture(autouse=True)
    def not_applicable(self, request):
        ending = NOT_APPLICABLE.get(request.node.name)
        if ending is not None:
            mark = pytest.mark.xfail(reason=NEVER_TWICE, raises=ending, strict=True)
            request.applymarker(mark)


class TestSamplerWithThreeFolds(suite.SingleOnlySamplerTestCase):
    test_float = suite.BasicSamplerTestCase.test_float
    test_int = suite.BasicSamplerTestCase.test_int
    test_categorical = suite.BasicSamplerTestCase.test_categorical
    test_conditional = suite.BasicSamplerTestCase.test_conditional_sample_independent

    @pytest.fixture
    def sampler(self) -> Callable[[], FoldSampler]:
        return lambda: FoldSampler(3, seed=0)


PRUNERS = {
    "mean": lambda: FoldPruner(4, uncertainty=0.0, n_startup_trials=1),
    "robust": lambda: FoldPruner(4, n_startup_trials=1),
    "eager": lambda: FoldPruner(4, n_startup_trials=1, chance=0.9),
}


@pytest.mark.parametrize("make", PRUNERS.values(), ids=PRUNERS)
@pytest.mark.parametrize("direction", ["maximize", "minimize"])
class TestPruner:
    """What every pruner of Optuna has to do."""

    def complete(self, study, scores, x=0.5):
        trial = study.ask({"x": optuna.distributions.FloatDistribution(0, 1)})
        for fold, score in enumerate(scores):
            trial.report(score, step=fold)
        study.tell(trial, sum(scores) / len(scores))

    def begin(self, study, *reports):
        trial = study.ask({"x": optuna.distributions.FloatDistribution(0, 1)})
        for fold, score in reports:
            trial.report(score, step=fold)
        return trial

    @pytest.fixture
    def study(self, make, direction):
        sampler = optuna.samplers.RandomSampler(seed=0)
        return optuna.create_study(direction=direction, sampler=sampler, pruner=make())

    def test_nothing_is_dropped_before_a_report(self, study):
        self.complete(study, [1.0, 2.0, 3.0, 2.0])
        assert self.begin(study).should_prune() is False

    def test_nothing_is_dropped_without_a_complete_trial(self, study):
        trial = self.begin(study, (0, -1e6), (1, -1e6))
        assert trial.should_prune() is False

    def test_a_pruned_or_failed_trial_is_not_the_one_to_beat(self, study):
        for state in (optuna.trial.TrialState.PRUNED, optuna.trial.TrialState.FAIL):
            study.tell(self.begin(study, (0, 1.0), (1, 1.0)), state=state)
        assert self.begin(study, (0, -1e6)).should_prune() is False

    def test_the_best_one_is_kept(self, study, direction):
        sign = 1 if direction == "maximize" else -1
        for level in range(4):
            self.complete(study, [sign * (level + fold) for fold in range(4)])
        assert self.begin(study, (0, sign * 9.0)).should_prune() is False

    def test_a_hopeless_one_is_dropped(self, study, direction):
        sign = 1 if direction == "maximize" else -1
        for level in range(8):
            self.complete(study, [sign * (10 + 0.1 * level + fold) for fold in range(4)])
        trial = self.begin(study, *[(fold, sign * -50.0) for fold in range(3)])
        assert trial.should_prune() is True

    def test_a_trial_with_all_folds_is_kept(self, study):
        for _ in range(3):
            self.complete(study, [5.0, 5.0, 5.0, 5.1])
        assert self.begin(study, *enumerate([0.0] * 4)).should_prune() is False

    @pytest.mark.parametrize("score", [math.nan, math.inf, -math.inf])
    def test_a_fold_without_a_finite_score_drops_its_config(self, study, score):
        self.complete(study, [1.0, 2.0, 3.0, 2.0])
        assert self.begin(study, (0, 1.0), (1, score)).should_prune() is True

    def test_it_works_with_folds_in_any_order(self, study, direction):
        sign = 1 if direction == "maximize" else -1
        for level in range(8):
            self.complete(study, [sign * (10 + 0.1 * level + fold) for fold in range(4)])
        trial = self.begin(study, (3, sign * -50.0), (1, sign * -50.0), (0, sign * -50.0))
        assert trial.should_prune() is True

    def test_asking_twice_changes_nothing(self, study):
        for level in range(4):
            self.complete(study, [1.0 * level, 2.0, 3.0, 2.0])
        trial = self.begin(study, (0, 1.0), (1, 1.5))
        assert len({trial.should_prune() for _ in range(3)}) == 1

    def test_it_can_be_pickled(self, study, make):
        assert pickle.loads(pickle.dumps(make())).folds.n == 4
