"""`FoldSampler`: trials of one fold."""

from __future__ import annotations

import threading
from collections import Counter

import numpy as np
import pytest

optuna = pytest.importorskip("optuna", reason="needs the extra: pip install 'drbqo_ray[optuna]'")

from optuna.distributions import FloatDistribution, IntDistribution  # noqa: E402
from optuna.trial import TrialState  # noqa: E402

from drbqo_ray.core.surrogate import Fit  # noqa: E402
from drbqo_ray.errors import InvalidInput, NothingObserved  # noqa: E402
from drbqo_ray.optuna_sampler import FoldSampler, certainty, recommend, report  # noqa: E402
from drbqo_ray.optuna_sampler import sampler as sampler_module  # noqa: E402
from drbqo_ray.optuna_sampler.study import CLAIM, FIT, read  # noqa: E402

N = 4
optuna.logging.set_verbosity(optuna.logging.WARNING)


def value(params, fold, sign=1.0):
    """Best near C = 10 with kernel poly and degree 3; fold 3 is harder for large C."""
    bad = (np.log10(params["C"]) - 1) ** 2 * (1 + (fold == 3))
    bad += abs(params["degree"] - 3) if params["kernel"] == "poly" else 2 - params["gamma"]
    return sign * -float(bad)


def suggest(trial):
    params = {
        "kernel": trial.suggest_categorical("kernel", ["rbf", "poly"]),
        "C": trial.suggest_float("C", 0.1, 1000, log=True),
    }
    if params["kernel"] == "poly":
        return params | {"degree": trial.suggest_int("degree", 1, 5)}
    return params | {"gamma": trial.suggest_float("gamma", 0, 1, step=0.25)}


def objective(trial):
    fold = trial.suggest_int("fold", 0, N - 1)
    return value(suggest(trial), fold)


def study_with(n_trials=0, func=objective, direction="maximize", storage=None, **settings):
    settings = {"seed": 0, "n_initial": 8} | settings
    sampler = FoldSampler(settings.pop("n_folds", N), **settings)
    study = optuna.create_study(direction=direction, sampler=sampler, storage=storage)
    study.optimize(func, n_trials=n_trials)
    return study


def pairs(study):
    return Counter(tuple(sorted(trial.params.items())) for trial in study.trials if trial.params)


@pytest.fixture(scope="module")
def finished():
    return study_with(50)


class TestSearch:
    def test_it_finds_the_best_branch_and_returns_to_configs_it_has_seen(self, finished):
        found = recommend(finished)
        assert (found.config["kernel"], found.config["degree"]) == ("poly", 3)
        assert 3 < found.config["C"] < 30
        assert set(found.config) == {"kernel", "C", "degree"}
        configs = {
            tuple(t.params[name] for name in sorted(t.params) if name != "fold")
            for t in finished.trials
        }
        assert len(configs) < 40

    def test_no_pair_is_asked_twice(self, finished):
        assert max(pairs(finished).values()) == 1

    def test_all_folds_are_trained(self, finished):
        assert {trial.params["fold"] for trial in finished.trials} == set(range(N))

    def test_how_sure_it_is(self, finished):
        sure = certainty(finished)
        assert 0 < sure.probability <= 1
        assert sure.interval[0] <= recommend(finished).robust_value + 1e-9

    def test_a_study_that_minimizes_finds_the_same(self, finished):
        def loss(trial):
            return -objective(trial)

        found = recommend(study_with(50, loss, "minimize"))
        assert found.config == recommend(finished).config
        assert found.robust_value == pytest.approx(-recommend(finished).robust_value)

    def test_the_fold_may_come_last_or_have_a_name(self):
        def named(trial):
            params = suggest(trial)
            fold = trial.suggest_categorical("site", ["a", "b", "c", "d"])
            return value(params, "abcd".index(fold))

        study = study_with(30, named, fold_key="site")
        assert max(pairs(study).values()) == 1
        assert recommend(study).config["kernel"] == "poly"

    def test_threads_ask_no_pair_twice(self):
        def small(trial):
            fold, x = trial.suggest_int("fold", 0, 2), trial.suggest_int("x", 0, 9)
            return -abs(x - 6) - 0.1 * fold

        study = optuna.create_study(direction="maximize", sampler=FoldSampler(3, seed=0))
        study.optimize(small, n_trials=24, n_jobs=4)
        assert len(pairs(study)) == 24
        assert recommend(study).config == {"x": 6}

    def test_the_report_is_a_page(self, finished, tmp_path):
        path = report(finished, tmp_path / "study.html")
        assert "degree" in path.read_text(encoding="utf-8")


class TestStateIsTheStudy:
    def ask(self, study, sampler):
        study.sampler = sampler
        trial = study.ask()
        objective(trial)
        study.tell(trial, state=TrialState.FAIL)
        return trial.params

    @pytest.mark.parametrize("n_trials", [1, 5, 25])
    def test_a_fresh_sampler_suggests_what_the_old_one_would(self, n_trials):
        study, twin = study_with(n_trials), study_with(n_trials)
        old = self.ask(study, study.sampler)
        assert self.ask(twin, FoldSampler(N, seed=0, n_initial=8)) == old

    def test_another_seed_suggests_something_else(self):
        study, twin = study_with(5), study_with(5)
        fresh = FoldSampler(N, seed=1, n_initial=8)
        assert self.ask(study, study.sampler) != self.ask(twin, fresh)

    @pytest.mark.parametrize("kind", ["sqlite", "journal"])
    def test_a_study_goes_on_from_its_storage(self, kind, tmp_path):
        def storage():
            if kind == "sqlite":
                return f"sqlite:///{tmp_path}/study.db"
            backend = optuna.storages.journal.JournalFileBackend(str(tmp_path / "study.log"))
            return optuna.storages.JournalStorage(backend)

        whole = study_with(20)
        first = study_with(12, storage=storage())
        again = optuna.load_study(
            study_name=first.study_name,
            storage=storage(),
            sampler=FoldSampler(N, seed=0, n_initial=8),
        )
        again.optimize(objective, n_trials=8)
        assert [t.params for t in again.trials] == [t.params for t in whole.trials]
        assert recommend(again) == recommend(whole)

    def test_fits_of_the_model_are_left_in_the_study_and_used(self):
        study = study_with(25)
        kept = [t.system_attrs[FIT]["fit"] for t in study.trials if FIT in t.system_attrs]
        assert len({fit["size"] for fit in kept}) == len(kept) > 3
        assert read(study, study.sampler.folds).optimizer.last_fit == Fit.from_dict(kept[-1])

    def test_a_fit_is_not_used_in_another_space(self):
        study = study_with(20)
        params = {"fold": 0, "kernel": "rbf", "C": 1.0, "gamma": 0.5, "new": 1.0}
        kinds = {name: d for t in study.trials for name, d in t.distributions.items()}
        kinds = {name: kinds.get(name, FloatDistribution(0, 1)) for name in params}
        study.add_trial(optuna.create_trial(params=params, distributions=kinds, value=0.0))
        assert read(study, study.sampler.folds).optimizer.last_fit is None


class TestPending:
    def test_what_other_trials_were_given_counts_as_pending(self):
        study = study_with(20)
        held = [study.ask() for _ in range(6)]
        for trial in held:
            objective(trial)
        asked = [tuple(sorted(trial.params.items())) for trial in held]
        assert len({*asked, *pairs(study)}) == 26

    def test_a_claim_counts_before_its_trial_has_suggested_anything(self):
        study = study_with(20)
        one, other = study.ask(), study.ask()
        first = one.relative_params
        second = other.relative_params
        assert first != second
        assert study.trials[20].system_attrs[CLAIM]["fold"] == first["fold"]

    def test_whoever_meets_a_rival_picks_again(self, monkeypatch):
        """The rival claims the same pair after we looked at the study and before we claim ours."""
        study, real, met = study_with(20), sampler_module.read, []
        ours, rival = study.ask(), study.ask()

        def read_and_meet(study_, folds, asking=None):
            state = real(study_, folds, asking)
            if asking is not None and asking.number == ours.number and not met:
                met.append(state.optimizer.ask())
                claim = {"params": state.space.params(met[0].config), "fold": met[0].context}
                study_._storage.set_trial_system_attr(rival._trial_id, CLAIM, claim)
                state = real_without_rival
            return state

        real_without_rival = real(study, study.sampler.folds, study.trials[ours.number])
        monkeypatch.setattr(sampler_module, "read", read_and_meet)
        params = ours.relative_params
        (asked,) = met
        assert (params["fold"], params["C"]) != (asked.context, asked.config["C"])

    def test_a_rival_that_is_done_already_is_one_too(self, monkeypatch):
        study, real, done = study_with(20), sampler_module.read, []
        ours = study.ask()

        def read_and_meet(study_, folds, asking=None):
            state = real(study_, folds, asking)
            if not done:
                twin = real(study_, folds, asking).optimizer.ask()
                done.append({**state.space.params(twin.config), "fold": twin.context})
                kinds = {name: d for t in study.trials for name, d in t.distributions.items()}
                kinds = {name: kinds[name] for name in done[0]}
                study.add_trial(
                    optuna.create_trial(params=done[0], distributions=kinds, value=-1.0)
                )
            return state

        monkeypatch.setattr(sampler_module, "read", read_and_meet)
        params = ours.relative_params
        assert params != done[0]
        assert len(study.trials) == 22

    def test_an_enqueued_trial_is_pending(self):
        study = study_with(20)
        study.enqueue_trial({"kernel": "rbf", "C": 1.0, "gamma": 0.5, "fold": 1})
        study.optimize(objective, n_trials=1)
        assert study.trials[-1].params == {"kernel": "rbf", "C": 1.0, "gamma": 0.5, "fold": 1}

    def test_an_enqueued_config_gets_a_fold_that_is_open(self):
        study = study_with(20)
        for _ in range(N):
            study.enqueue_trial({"kernel": "poly", "C": 10.0, "degree": 3})
        study.optimize(objective, n_trials=N)
        assert {trial.params["fold"] for trial in study.trials[-N:]} == set(range(N))


class TestExhausted:
    def small(self, trial):
        fold = trial.suggest_int("fold", 0, 1)
        return trial.suggest_int("x", 0, 2) + fold

    def test_a_study_that_asked_all_pairs_stops(self):
        study = study_with(0, n_folds=2, n_initial=2)
        study.optimize(self.small, n_trials=50)
        assert len(study.trials) == len(pairs(study)) == 6

    def test_by_hand_it_says_that_there_is_nothing_left(self):
        study = study_with(0, n_folds=2, n_initial=2)
        study.optimize(self.small, n_trials=6)
        with pytest.raises(optuna.TrialPruned, match="nothing left to train"):
            self.small(study.ask())

    def test_before_the_space_is_known_the_last_value_makes_a_new_pair(self):
        """All trials begin before the first one has a score, so chance is all there is."""
        study = optuna.create_study(sampler=FoldSampler(2, seed=0))
        trials = [study.ask() for _ in range(6)]
        for trial in trials:
            trial.suggest_int("x", 0, 2)
            trial.suggest_int("fold", 0, 1)
        counts = Counter(trial.params["x"] for trial in trials)
        for trial in trials:
            if counts[trial.params["x"]] <= 2:
                twins = [t for t in trials if t.params == trial.params]
                assert len(twins) == 1


class TestFailures:
    def broken(self, how):
        def func(trial):
            score = objective(trial)
            if trial.params["kernel"] == "poly" and trial.params["C"] > 5:
                return how(trial)
            return score

        return func

    def fail(self, trial):
        raise RuntimeError("no memory")

    def prune(self, trial):
        raise optuna.TrialPruned

    @pytest.mark.parametrize("how", ["fail", "prune", "nan", "inf"])
    def test_a_config_with_a_failed_fold_is_never_recommended(self, how):
        ways = {"nan": lambda _: float("nan"), "inf": lambda _: float("inf")}
        func = self.broken(ways.get(how) or getattr(self, how))
        study = study_with(0)
        study.optimize(func, n_trials=40, catch=(RuntimeError,))
        assert any(t.params["kernel"] == "poly" and t.params["C"] > 5 for t in study.trials)
        config = recommend(study).config
        assert not (config["kernel"] == "poly" and config["C"] > 5)

    def test_a_failed_fold_that_was_trained_again_is_forgiven(self):
        study = optuna.create_study(direction="maximize", sampler=FoldSampler(2, seed=0))
        x, fold = FloatDistribution(0, 1), IntDistribution(0, 1)
        made = [(0.5, 0, 1.0), (0.2, 0, 0.0), (0.2, 1, 0.0), (0.5, 1, None)]
        for at, k, score in made:
            trial = optuna.create_trial(
                params={"x": at, "fold": k},
                distributions={"x": x, "fold": fold},
                value=score,
                state=TrialState.FAIL if score is None else TrialState.COMPLETE,
            )
            study.add_trial(trial)
        assert recommend(study).config == {"x": 0.2}
        again = {"x": 0.5, "fold": 1}
        study.add_trial(
            optuna.create_trial(params=again, distributions={"x": x, "fold": fold}, value=1.0)
        )
        assert recommend(study).config == {"x": 0.5}

    @pytest.mark.skipif(
        not hasattr(optuna.trial.Trial, "set_constraint"), reason="Optuna has it from version 5"
    )
    def test_a_config_that_breaks_a_constraint_is_never_recommended(self):
        def func(trial):
            score = objective(trial)
            trial.set_constraint("size", 1.0 if trial.params["kernel"] == "poly" else -1.0)
            return score

        assert recommend(study_with(30, func)).config["kernel"] == "rbf"

    def test_a_trial_that_failed_before_its_values_were_known_changes_nothing(self):
        def late(trial):
            if trial.number in (3, 12):
                trial.suggest_int("fold", 0, N - 1)
                raise RuntimeError("no data")
            return objective(trial)

        study = study_with(0)
        study.optimize(late, n_trials=30, catch=(RuntimeError,))
        assert recommend(study).config["kernel"] == "poly"


class TestDefinedWhileItRuns:
    def test_a_parameter_that_appears_late_is_drawn_and_then_modeled(self):
        def late(trial):
            score = objective(trial)
            return score + (3 * trial.suggest_float("new", 0, 1) if trial.number >= 10 else 0.0)

        study = study_with(40, late)
        assert recommend(study).config["new"] > 0.8
        assert max(pairs(study).values()) == 1

    def test_a_range_that_is_narrowed_is_kept(self):
        def narrowing(trial):
            fold = trial.suggest_int("fold", 0, N - 1)
            x = trial.suggest_float("x", 0, 10 if trial.number < 10 else 4)
            return -abs(x - 8) - 0.1 * fold

        study = study_with(25, narrowing)
        assert all(trial.params["x"] <= 4 for trial in study.trials[10:])
        assert max(trial.params["x"] for trial in study.trials[10:]) == 4

    def test_branches_without_a_reason_are_modeled_as_shapes(self):
        def odd(trial):
            fold = trial.suggest_int("fold", 0, N - 1)
            x = trial.suggest_float("x", 0, 1)
            extra = trial.suggest_float("y", 0, 1) if x > 0.5 else 0.0
            return x - extra - 0.01 * fold

        study = study_with(40, odd)
        found = recommend(study)
        assert set(found.config) == {"x", "y"}
        assert found.robust_value > 0.7


class TestInput:
    @pytest.mark.parametrize(
        "arguments",
        [
            {"n_folds": 0},
            {"n_folds": 3, "uncertainty": -1.0},
            {"n_folds": 3, "method": "none"},
            {"n_folds": 3, "seed": -1},
            {"n_folds": 3, "fold_key": ""},
            {"n_folds": 3, "mode": "min"},
            {"n_folds": 3, "stop_when": "loss < 1"},
        ],
    )
    def test_a_bad_argument_is_an_error(self, arguments):
        with pytest.raises(InvalidInput):
            FoldSampler(**arguments)

    def test_a_trial_without_a_fold_is_an_error(self):
        study = optuna.create_study(sampler=FoldSampler(3, seed=0))
        with pytest.raises(InvalidInput, match="must suggest the fold"):
            study.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=3)
        assert [trial.state for trial in study.trials] == [TrialState.COMPLETE]

    def test_folds_of_another_number_are_an_error(self):
        study = optuna.create_study(sampler=FoldSampler(3, seed=0))
        with pytest.raises(InvalidInput, match="one of the 3"):
            study.optimize(objective, n_trials=1)

    def test_an_answer_needs_a_score_and_to_know_the_folds(self):
        with pytest.raises(NothingObserved):
            recommend(optuna.create_study(sampler=FoldSampler(3)))
        with pytest.raises(InvalidInput, match="Pass the sampler or pruner"):
            recommend(optuna.create_study())

    def test_without_a_seed_two_samplers_differ(self):
        seeds = {FoldSampler(3).folds.settings["seed"] for _ in range(4)}
        assert len(seeds) == 4


def test_a_sampler_serves_threads_at_once():
    study = study_with(12)
    found, barrier = [], threading.Barrier(4)

    def ask():
        barrier.wait()
        trial = study.ask()
        objective(trial)
        found.append(tuple(sorted(trial.params.items())))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 4
