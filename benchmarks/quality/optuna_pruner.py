"""What a pruner saves in an Optuna study that loops over the folds.

    OMP_NUM_THREADS=1 python -m benchmarks.quality.optuna_pruner [--seeds 5] [--trials 50]

Every study has the TPE sampler as it comes and maximizes the robust value of a config's folds. The
one without a pruner trains all folds of so many trials. Those with one may train as many folds, and
we look when their answer, the best robust value of a config with all its folds, is as good as that
of the first one at its end; answers are averaged over the seeds. Seeds cut the data and are those
of the sampler.

A dropped trial returns the value to expect of it, as docs/optuna.md says, or raises `TrialPruned`.
`WilcoxonPruner` has the settings its documentation recommends: folds in shuffled order, and a
dropped trial returns the value of the folds it has; it is run with `TrialPruned` raised, too.

What to return and the chance below which a config is dropped were chosen on other problems: four of
the development set of `benchmarks.problems`.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import optuna

import drbqo_ray as dr
from benchmarks.quality.problems import FoldProblem, open_problem
from benchmarks.table import Line, add_save_option, publish
from drbqo_ray.optuna_sampler import FoldPruner
from drbqo_ray.threads import one_thread

PROBLEMS = (
    "svm-breast-cancer",
    "svr-diabetes",
    "boosting-diabetes",
    "neighbors-glass",
    "extra-trees-diabetes",
    "kernel-ridge-diabetes",
)
RADIUS = 1.0
MOST_FOLDS = 60.0
NONE, OURS, WILCOXON = "no pruner", "FoldPruner", "WilcoxonPruner"
RAISING = " raising"
ARMS = (NONE, OURS, OURS + RAISING, WILCOXON, WILCOXON + RAISING)


@dataclass
class Spent:
    """The folds that a study trained, and its answer after each of them.

    Attributes:
        answers: best robust value of a config with all folds, after each fold.
        at_trial: folds trained after each trial.
        dropped: for each dropped config by how much it would have beaten the answer of that time,
            had all its folds been trained; 0 if it would not have.
    """

    answers: list[float] = field(default_factory=list)
    at_trial: list[int] = field(default_factory=list)
    dropped: list[float] = field(default_factory=list)


def value_of(scores: Sequence[float]) -> float:
    return float(dr.ChiSquareBall(RADIUS).worst_case(np.array(scores))[0])


def suggest(trial: optuna.Trial, problem: FoldProblem) -> dict[str, object]:
    config: dict[str, object] = {}
    for name, item in problem.parameters.items():
        if isinstance(item, dr.Choice):
            config[name] = trial.suggest_categorical(name, list(item.options))
        elif isinstance(item, dr.Int):
            step = {} if item.log else {"step": item.step}
            config[name] = trial.suggest_int(name, item.low, item.high, log=item.log, **step)
        else:
            config[name] = trial.suggest_float(
                name, item.low, item.high, log=item.log, step=item.step
            )
    return config


def pruner_of(arm: str, n_folds: int) -> optuna.pruners.BasePruner:
    if arm.startswith(OURS):
        return FoldPruner(n_folds, uncertainty=RADIUS)
    if arm.startswith(WILCOXON):
        return optuna.pruners.WilcoxonPruner(p_threshold=0.1)
    return optuna.pruners.NopPruner()


@one_thread
def run(name: str, arm: str, seed: int, budget: int) -> Spent:
    """A study that trains so many folds."""
    problem, spent = open_problem(name, seed), Spent()
    rng, n = np.random.default_rng(seed), problem.n_folds
    score = cache(lambda items, fold: problem.score(dict(items), fold, 0))

    def objective(trial: optuna.Trial) -> float:
        config = tuple(suggest(trial, problem).items())
        order = rng.permutation(n) if arm.startswith(WILCOXON) else np.arange(n)
        scores: list[float] = []
        for fold in map(int, order):
            scores.append(score(config, fold))
            trial.report(scores[-1], step=fold)
            best = spent.answers[-1] if spent.answers else -np.inf
            spent.answers.append(max(best, value_of(scores)) if len(scores) == n else best)
            if len(spent.answers) >= budget:
                trial.study.stop()
            if len(scores) < n and trial.should_prune():
                spent.at_trial.append(len(spent.answers))
                truth = value_of([score(config, each) for each in range(n)])
                spent.dropped.append(max(truth - best, 0.0))
                if arm.endswith(RAISING):
                    raise optuna.TrialPruned
                pruner = trial.study.pruner
                if isinstance(pruner, FoldPruner):
                    return pruner.expected_value(trial)
                return value_of(scores)
        spent.at_trial.append(len(spent.answers))
        return value_of(scores)

    study = optuna.create_study(
        direction="maximize",
        sampler=optuna.samplers.TPESampler(seed=seed),
        pruner=pruner_of(arm, n),
    )
    study.optimize(objective)
    return spent


def reached(runs: Sequence[Spent], target: float, budget: int) -> float:
    """Per cent of the budget after which the mean answer of some runs is the target."""
    answers = np.mean([spent.answers[:budget] for spent in runs], axis=0)
    there = np.flatnonzero(answers >= target - 1e-12)
    return 100 * (there[0] + 1) / budget if len(there) else np.inf


def compare(name: str, n_seeds: int, n_trials: int) -> Iterator[Line]:
    budget = n_trials * open_problem(name, 0).n_folds
    runs = {arm: [run(name, arm, seed, budget) for seed in range(n_seeds)] for arm in ARMS}
    target = float(np.mean([spent.answers[budget - 1] for spent in runs[NONE]]))
    rival = min(reached(runs[WILCOXON + end], target, budget) for end in ("", RAISING))
    for arm in ARMS:
        percent = reached(runs[arm], target, budget)
        end = float(np.mean([spent.answers[budget - 1] for spent in runs[arm]]))
        used = [spent.at_trial[min(n_trials, len(spent.at_trial)) - 1] for spent in runs[arm]]
        at_end = [spent.answers[folds - 1] for spent, folds in zip(runs[arm], used, strict=True)]
        lost = [gain for spent in runs[arm] for gain in spent.dropped]
        note = (
            f"{n_trials} trials train {100 * statistics.mean(used) / budget:.0f} % for "
            f"{statistics.mean(at_end) - target:+.4f}; all folds: {end - target:+.4f}; "
            f"{np.count_nonzero(lost)} of {len(lost)} dropped would have won"
        )
        most = min(MOST_FOLDS, rival) if arm == OURS else None
        yield Line("optuna_pruner", f"folds, {arm}", name, percent, "%", most=most, note=note)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--trials", type=int, default=50)
    parser.add_argument("--problems", nargs="+", default=list(PROBLEMS))
    add_save_option(parser)
    args = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.simplefilter("ignore")
    lines = (line for name in args.problems for line in compare(name, args.seeds, args.trials))
    return publish(lines, args.save)


if __name__ == "__main__":
    sys.exit(main())
