"""`FoldPruner`: trials that loop over the folds."""

from __future__ import annotations

import numpy as np
import pytest

optuna = pytest.importorskip("optuna", reason="needs the extra: pip install 'drbqo_ray[optuna]'")

from optuna.trial import TrialState  # noqa: E402

import drbqo_ray as dr  # noqa: E402
from drbqo_ray.errors import InvalidInput, NothingObserved  # noqa: E402
from drbqo_ray.optuna_sampler import FoldPruner, certainty, recommend, report  # noqa: E402
from drbqo_ray.optuna_sampler.study import FIT, read  # noqa: E402

N = 5
BALL = dr.ChiSquareBall(1.0)
optuna.logging.set_verbosity(optuna.logging.WARNING)


def score(x, y, fold):
    """Best at x = 0.7, y = 0.3; folds differ in level and a little in what they like."""
    return -((x - 0.7) ** 2) - (y - 0.3) ** 2 - 0.05 * fold + 0.02 * np.sin(7 * fold + 5 * x)


def robust(scores, sign=1.0):
    return sign * float(BALL.worst_case(sign * np.array(scores))[0])


def looping(sign=1.0, folds=range(N), returns=True, trained=None):
    """An objective that loops over the folds and leaves when it is told to."""

    def objective(trial):
        x, y = trial.suggest_float("x", 0, 1), trial.suggest_float("y", 0, 1)
        scores = []
        for fold in folds:
            scores.append(sign * score(x, y, fold))
            if trained is not None:
                trained.append(fold)
            trial.report(scores[-1], step=fold)
            if len(scores) < N and trial.should_prune():
                if returns:
                    return trial.study.pruner.expected_value(trial)
                raise optuna.TrialPruned
        return robust(scores, sign)

    return objective


def study_with(func, n_trials=40, direction="maximize", sampler=None, **settings):
    study = optuna.create_study(
        direction=direction,
        sampler=sampler or optuna.samplers.TPESampler(seed=0),
        pruner=FoldPruner(N, **settings),
    )
    study.optimize(func, n_trials=n_trials)
    return study


def whole(study):
    return [t for t in study.trials if len(t.intermediate_values) == N]


# sampler -> share of the folds that is trained at most; what TPE suggests after a while is good,
# so there is less to drop
SAMPLERS = {
    optuna.samplers.RandomSampler: 0.5,
    optuna.samplers.QMCSampler: 0.5,
    optuna.samplers.TPESampler: 0.75,
}


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("returns", [True, False], ids=["returning", "raising"])
def test_it_saves_folds_with_any_sampler(sampler, returns):
    trained: list[int] = []
    study = study_with(looping(returns=returns, trained=trained), sampler=sampler(seed=1))
    assert len(trained) < SAMPLERS[sampler] * 40 * N
    assert len(whole(study)) >= 4


def test_it_does_not_drop_the_best_config():
    """The sampler does not look at scores, so we know what was dropped."""
    for seed in range(4):
        study = study_with(looping(), sampler=optuna.samplers.RandomSampler(seed=seed))
        truth = [robust([score(**t.params, fold=k) for k in range(N)]) for t in study.trials]
        best = int(np.argmax(truth))
        assert len(study.trials[best].intermediate_values) == N
        assert recommend(study).config == study.trials[best].params
        assert study.best_trial.number == best


def test_a_study_that_minimizes_drops_the_same_trials():
    up = study_with(looping(), sampler=optuna.samplers.RandomSampler(seed=0))
    down = study_with(
        looping(-1.0), direction="minimize", sampler=optuna.samplers.RandomSampler(seed=0)
    )
    lengths = [[len(t.intermediate_values) for t in study.trials] for study in (up, down)]
    assert lengths[0] == lengths[1]
    assert recommend(down).config == recommend(up).config
    assert recommend(down).robust_value == pytest.approx(-recommend(up).robust_value)


def test_the_first_trials_train_all_folds():
    study = study_with(looping(), 8, n_startup_trials=6)
    assert [len(t.intermediate_values) for t in study.trials[:6]] == [N] * 6


def test_no_chance_is_small_enough_for_a_limit_of_zero():
    trained: list[int] = []
    study_with(looping(trained=trained), 15, chance=0.0)
    assert len(trained) == 15 * N


def test_a_larger_limit_drops_more():
    used = []
    for chance in (0.001, 0.5):
        trained: list[int] = []
        sampler = optuna.samplers.RandomSampler(seed=2)
        study_with(looping(trained=trained), sampler=sampler, chance=chance)
        used.append(len(trained))
    assert used[1] < used[0]


class TestExpectedValue:
    def test_it_is_the_robust_value_once_all_folds_are_there(self):
        study = study_with(looping(), 6)
        trial = study.ask()
        x, y = trial.suggest_float("x", 0, 1), trial.suggest_float("y", 0, 1)
        scores = [score(x, y, fold) for fold in range(N)]
        for fold, value in enumerate(scores):
            trial.report(value, step=fold)
        assert study.pruner.expected_value(trial) == pytest.approx(robust(scores))

    def test_before_that_it_is_near_and_below_the_best(self):
        study = study_with(looping(), sampler=optuna.samplers.RandomSampler(seed=0))
        dropped = [t for t in study.trials if len(t.intermediate_values) < N]
        truth = [robust([score(**t.params, fold=k) for k in range(N)]) for t in dropped]
        values = np.array([t.value for t in dropped])
        assert len(dropped) > 10
        assert np.corrcoef(values, truth)[0, 1] > 0.9
        assert values.max() < study.best_value

    def test_it_needs_a_score(self):
        study = optuna.create_study(pruner=FoldPruner(N))
        with pytest.raises(InvalidInput, match="a config with a score"):
            study.pruner.expected_value(study.ask())


@pytest.fixture(scope="module")
def study():
    return study_with(looping())


class TestAnswers:
    def test_the_recommendation_is_the_best_config_with_all_folds(self, study):
        best = max(whole(study), key=lambda t: t.value)
        found = recommend(study)
        assert found.config == best.params
        assert found.robust_value == pytest.approx(best.value)

    def test_how_sure_it_is(self, study):
        assert certainty(study).probability > 0.5

    def test_the_report_is_a_page(self, study, tmp_path):
        path = report(study, tmp_path / "study.html")
        assert path.stat().st_size > 10_000

    def test_another_process_gives_its_own_pruner(self, study):
        again = optuna.create_study(direction="maximize")
        again.add_trials(study.trials)
        assert recommend(again, by=FoldPruner(N)).config == recommend(study).config

    def test_a_config_that_failed_is_neither_recommended_nor_the_one_to_beat(self):
        study = study_with(looping(), 6)
        values = {"x": 0.7, "y": 0.3}
        study.enqueue_trial(values)
        trial = study.ask()
        x, y = trial.suggest_float("x", 0, 1), trial.suggest_float("y", 0, 1)
        for fold in range(N):
            trial.report(100 + score(x, y, fold), step=fold)
        study.tell(trial, state=TrialState.FAIL)
        assert recommend(study).config != values
        assert recommend(study).robust_value < 50
        ahead = study.ask()
        ahead.suggest_float("x", 0, 1), ahead.suggest_float("y", 0, 1)
        ahead.report(1.0, step=0)
        assert not ahead.should_prune()

    def test_a_config_that_failed_and_was_run_again_is_forgiven(self):
        study = study_with(looping(), 6)
        for state in (TrialState.FAIL, None):
            study.enqueue_trial({"x": 0.7, "y": 0.3})
            trial = study.ask()
            x, y = trial.suggest_float("x", 0, 1), trial.suggest_float("y", 0, 1)
            for fold in range(N if state is None else 2):
                trial.report(score(x, y, fold), step=fold)
            study.tell(trial, None if state else 0.0, state=state)
        assert recommend(study).config == {"x": 0.7, "y": 0.3}

    def test_without_a_report_there_is_no_answer(self):
        with pytest.raises(NothingObserved):
            recommend(optuna.create_study(pruner=FoldPruner(N)))


def test_conditional_spaces_are_read_off_the_trials():
    def objective(trial):
        kind = trial.suggest_categorical("kind", ["a", "b"])
        x = trial.suggest_float("x" if kind == "a" else "z", 0, 1)
        scores = []
        for fold in range(N):
            scores.append(score(x, 0.3 if kind == "a" else 0.9, fold))
            trial.report(scores[-1], step=fold)
            if trial.should_prune():
                raise optuna.TrialPruned
        return robust(scores)

    study = study_with(objective)
    space = read(study, study.pruner.folds).space.space
    assert space.parameters["x"].when == {"kind": ["a"]}
    assert recommend(study).config["kind"] == "a"
    assert sum(len(t.intermediate_values) for t in study.trials) < 0.75 * 40 * N


def test_fits_of_the_model_are_left_in_the_study():
    study = study_with(looping(), 20)
    assert any(FIT in trial.system_attrs for trial in study.trials)


@pytest.mark.parametrize("step", [N, 100])
def test_a_step_that_is_no_fold_is_an_error(step):
    study = study_with(looping(), 5)
    trial = study.ask()
    trial.suggest_float("x", 0, 1), trial.suggest_float("y", 0, 1)
    trial.report(0.0, step=step)
    with pytest.raises(InvalidInput, match=r"a fold in 0\.\.4"):
        trial.should_prune()


@pytest.mark.parametrize(
    "arguments",
    [
        {"n_folds": 0},
        {"n_folds": 3, "uncertainty": -1},
        {"n_folds": 3, "chance": 1.0},
        {"n_folds": 3, "chance": "small"},
        {"n_folds": 3, "n_startup_trials": 0},
        {"n_folds": 3, "kernel": "none"},
    ],
)
def test_a_bad_argument_is_an_error(arguments):
    with pytest.raises(InvalidInput):
        FoldPruner(**arguments)
