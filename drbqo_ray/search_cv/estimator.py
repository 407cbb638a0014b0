"""RobustSearchCV: tune a scikit-learn estimator for its worst folds, one fold fit at a time."""

from __future__ import annotations

import math
import numbers
import warnings
from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from pathlib import Path
from time import perf_counter
from typing import Any

from joblib import effective_n_jobs
from sklearn import get_config
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone, is_classifier
from sklearn.exceptions import FitFailedWarning
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv
from sklearn.model_selection._search import BaseSearchCV
from sklearn.utils import Bunch, check_random_state, indexable
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.validation import check_is_fitted

from drbqo_ray.core.sets import UncertaintySet
from drbqo_ray.errors import InvalidInput
from drbqo_ray.optimizer.methods import DEFAULT
from drbqo_ray.optimizer.optimizer import Optimizer
from drbqo_ray.problem import Limits
from drbqo_ray.records import html_card
from drbqo_ray.runtime.executor import check_backend
from drbqo_ray.search_cv.best_estimator import BestEstimatorMixin
from drbqo_ray.search_cv.callbacks import CallbackMixin, FitTasks, ending_callbacks
from drbqo_ray.search_cv.fold_fit import SINGLE, CrossValidation, FoldFit
from drbqo_ray.search_cv.groups import group_names, warn_of_groups
from drbqo_ray.search_cv.results import FoldTable, write_search_report
from drbqo_ray.search_cv.search import SearchPlan, TrainedFold, fingerprint_of, search
from drbqo_ray.search_cv.search_space import SearchSpace
from drbqo_ray.space.space import Space

USUAL_EVALUATIONS = 60


class RobustSearchCV(BestEstimatorMixin, MetaEstimatorMixin, CallbackMixin, BaseEstimator):  # type: ignore[misc]
    """Search hyperparameters by cross-validation for the config that does well on bad folds too.

    Where GridSearchCV trains every config on every fold, this trains one fold of one config at a
    time and chooses both by a model of what was seen. The config it settles on is the one with
    the highest robust score: the lowest weighted mean of its fold scores over all weights in an
    uncertainty set. A radius of 0 gives the plain mean, a large one the worst fold.

    Args:
        estimator: the estimator to tune, with a `score` method or with `scoring`.
        space: a Space, or a dict of name -> parameter of ours, list of options, frozen
            distribution of scipy.stats or domain of Ray Tune; or a list of such dicts, of which
            every config fills one. Names of nested parameters are written as in `set_params`,
            such as `svc__C`.
        cv: number of folds, splitter or list of splits, as in GridSearchCV.
        n_evaluations: fold fits in all; None is USUAL_EVALUATIONS, or with a time budget as many as
            there is time for. A finite space is never trained twice, so fewer are made where it has
            fewer pairs of config and fold.
        uncertainty: a set, a chi-square radius >= 0, or "auto".
        method: name of a recipe, see `drbqo_ray.optimizer.methods`; "drbqo" is the paper's.
        time_budget: seconds that the search may take, without training the best config on all data;
            with `storage` all calls of `fit` together. No fold is started that is expected to end
            later, and those that run are finished. None: no limit.
        stop_when: stop early when sure enough: "auto", or e.g. "loss < 0.002".
        scoring: a metric's name, a callable, or a list or dict of several metrics, of which the
            one named by `refit`, else the first, is optimized.
        refit: whether to train the best config on all data; the name of the metric to optimize
            where there are several; or a callable that picks a row of `cv_results_`.
        error_score: "raise", or the number that a failed fold counts as. With NaN a config with a
            failed fold cannot win.
        n_jobs: folds trained at a time. None and 1 train in this process; more, or -1 for as many
            as fit, train on Ray.
        backend: where folds are trained: "inline" in this process, "ray", or "local" in processes
            of this machine without Ray. None is "inline" for one fold at a time, else "ray".
        storage: directory or object store of a run that can be resumed: calling `fit` again with
            the same data goes on where it stopped.
        random_state: seed of the search. None draws one, with `storage` it is 0.
        return_train_score: whether to score the training rows too.
        verbose: whether to show progress.

    Attributes:
        best_index_: row of the best config in `cv_results_`.
        best_params_: the best config.
        best_score_: its robust score; not there when `refit` is a callable.
        best_estimator_: the estimator with that config, trained on all data.
        cv_results_: a row per config, as in GridSearchCV. Scores of folds that were not trained,
            and the mean over folds unless all were, are NaN. Added are `robust_test_score`, which
            `rank_test_score` follows, `n_folds_evaluated`, and for each fold `split0_evaluated`
            and `posterior_split0`, the score the model expects; where the fold was not trained,
            what the method counts it as.
        worst_case_weights_: weights (`n_splits_`,) of the folds under which the best config has its
            robust score.
        robustness_path_: the best config and its robust score at chi-square radii from 0 to
            (`n_splits_` - 1)/2, as a list of dicts.
        n_evaluations_: fold fits made.
        stop_reason_: what the rule `stop_when` said, or that the time was used up; None if neither
            stopped the search.
        optimizer_: the `Optimizer` that was told every score; its `context_names` are the groups
            where every fold is one.
        forecast_: the score to expect of the best config in a fold, such as a group, that is not
            among those seen, with a 95 % interval; None with one fold.

    `n_splits_`, `scorer_`, `multimetric_`, `refit_time_`, `classes_`, `n_features_in_` and
    `feature_names_in_` are those of GridSearchCV.
    """

    def __init__(
        self,
        estimator: Any,
        space: Space | Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        cv: Any = 5,
        n_evaluations: int | None = None,
        uncertainty: UncertaintySet | float | str = 1.0,
        method: str = DEFAULT,
        stop_when: str | None = None,
        time_budget: float | None = None,
        scoring: Any = None,
        refit: bool | str | Callable[[dict[str, Any]], int] = True,
        error_score: str | float = "raise",
        n_jobs: int | None = None,
        backend: str | None = None,
        storage: str | Path | None = None,
        random_state: Any = None,
        return_train_score: bool = False,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.space = space
        self.cv = cv
        self.n_evaluations = n_evaluations
        self.uncertainty = uncertainty
        self.method = method
        self.stop_when = stop_when
        self.time_budget = time_budget
        self.scoring = scoring
        self.refit = refit
        self.error_score = error_score
        self.n_jobs = n_jobs
        self.backend = backend
        self.storage = storage
        self.random_state = random_state
        self.return_train_score = return_train_score
        self.verbose = verbose

    @ending_callbacks
    def fit(self, X: Any, y: Any = None, **params: Any) -> RobustSearchCV:
        """Search, then train the best config on all data.

        Args:
            X: training data (N, d), or a kernel matrix (N, N) for such estimators.
            y: targets (N,) or (N, k), None for unsupervised learning.
            **params: `groups` (N,) for the splitter, whose names folds of a single group have in
                reports, where folds that tear groups apart are warned of; all else for `fit`, and
                `sample_weight` for the scorer too; or as routed by metadata routing.
        """
        backend, slots = self._place()
        scorer, metric = self._scorer(), self._metric()
        X, y = indexable(X, y)
        routed = self._routed(scorer, params)
        splitter = check_cv(self.cv, y, classifier=is_classifier(self.estimator))
        splits = list(splitter.split(X, y, **routed.splitter.split))
        if not splits:
            raise InvalidInput("cv must give at least one split.", self.cv, "Pass e.g. cv=5.")
        space = self._space()
        groups = routed.splitter.split.get("groups")
        names = () if groups is None else group_names(splits, groups)
        plan = self._plan(space.space, len(splits), backend, slots, names)
        if groups is not None:
            warn_of_groups(splits, groups, names, plan.settings["uncertainty"])
        folds = CrossValidation(
            clone(self.estimator),
            X,
            y,
            splits,
            scorer,
            metric,
            routed.estimator.fit,
            routed.scorer.score,
            self.return_train_score,
            space.params,
        )
        tasks = FitTasks(self, X, y, folds)
        with tasks.searching(plan.budget(folds.n_folds)):
            optimizer, trained, stop_reason = search(
                plan, folds, tasks, self._fingerprint(folds, plan)
            )
        self._warn_of_failures(space, trained)
        metrics, metric = self._metrics_of(folds, trained)
        table = FoldTable(optimizer, space, trained, metric, self._missing_score())
        results = table.cv_results(metrics, self.return_train_score)
        chosen = self._chosen(table, results)
        if self.refit:
            self._train_best(table.params[chosen], X, y, routed.estimator.fit, tasks)
        self._keep(table, results, chosen)
        self.multimetric_ = metrics != [SINGLE]
        self.scorer_ = self._scorers_by_name(scorer)
        self.optimizer_ = optimizer
        several = optimizer.n_contexts > 1
        self.forecast_ = optimizer.forecast(config=table.configs[chosen]) if several else None
        self.n_evaluations_ = len(trained)
        self.stop_reason_ = stop_reason
        tasks.end()
        return self

    def score(self, X: Any, y: Any = None, **params: Any) -> float:
        """The optimized metric of the best estimator on X (k, d), y (k,)."""
        check_is_fitted(self)
        if not self.refit:
            raise AttributeError(
                f"{type(self).__name__} was made with refit=False: score needs an estimator"
                " trained on all data. Pass refit=True."
            )
        routed: dict[str, Any] = {}
        if _routing():
            routed = process_routing(self, "score", **params).scorer["score"]
        elif params:
            raise InvalidInput(
                "score takes parameters beside X and y only with metadata routing.",
                sorted(params),
                "Call sklearn.set_config(enable_metadata_routing=True) first.",
            )
        scorer = self.scorer_
        if isinstance(scorer, dict):
            scorer = scorer[self.refit if isinstance(self.refit, str) else next(iter(scorer))]
        value = scorer(self.best_estimator_, X, *(() if y is None else (y,)), **routed)
        return value[self.refit] if isinstance(value, dict) else value

    def report(self, path: str | Path) -> Path:
        """Write one HTML page that shows what the model makes of the search; returns its path."""
        check_is_fitted(self)
        return write_search_report(self, path)

    def get_metadata_routing(self) -> MetadataRouter:
        """Where parameters of `fit` and `score` go under scikit-learn's metadata routing."""
        to_fit = MethodMapping().add(caller="fit", callee="fit")
        to_score = MethodMapping().add(caller="score", callee="score")
        to_score.add(caller="fit", callee="score")
        to_split = MethodMapping().add(caller="fit", callee="split")
        router = MetadataRouter(owner=type(self).__name__)
        router.add(estimator=self.estimator, method_mapping=to_fit)
        router.add(scorer=self._scorer(), method_mapping=to_score)
        router.add(splitter=self.cv, method_mapping=to_split)
        return router

    # what the user asked for

    def _place(self) -> tuple[str, int | None]:
        """The backend, and folds trained at a time, None for as many as fit there."""
        jobs = 1 if self.n_jobs is None else self.n_jobs
        if isinstance(jobs, bool) or not isinstance(jobs, numbers.Integral) or jobs == 0:
            raise InvalidInput("n_jobs is a whole number other than 0.", jobs, "Pass 1, or -1.")
        slots = None if jobs == -1 else int(effective_n_jobs(jobs))
        if self.backend is None:
            return ("inline" if slots == 1 else "ray"), slots
        check_backend(self.backend)
        if self.backend == "inline" and slots != 1:
            raise InvalidInput(
                "One fold at a time is trained in this process.",
                f"n_jobs={jobs}",
                'Pass n_jobs=1, or backend="local".',
            )
        return self.backend, slots

    def _metrics(self) -> list[str] | None:
        """Names of the metrics where `scoring` lists several."""
        if isinstance(self.scoring, set):
            return sorted(self.scoring)
        return list(self.scoring) if isinstance(self.scoring, (list, tuple, dict)) else None

    def _scorer(self) -> Any:
        if self._metrics() is None:
            return check_scoring(self.estimator, scoring=self.scoring)
        several = self.scoring if isinstance(self.scoring, dict) else self._metrics()
        strict = self._error_score() == "raise"
        return check_scoring(self.estimator, scoring=several, raise_exc=strict)

    def _scorers_by_name(self, scorer: Any) -> Any:
        names = self._metrics()
        if names is None:
            return scorer
        given = self.scoring if isinstance(self.scoring, dict) else {name: name for name in names}
        return {name: check_scoring(self.estimator, scoring=given[name]) for name in names}

    def _metric(self) -> str | None:
        """Name of the metric to optimize, None for the only or first one."""
        names = self._metrics()
        if names is not None:
            self._check_refit(names)
        if isinstance(self.refit, str):
            return self.refit
        return names[0] if names else None

    def _check_refit(self, metrics: list[str]) -> None:
        if self.refit is not False and not callable(self.refit) and self.refit not in metrics:
            raise InvalidInput(
                f"With several metrics, refit names one of {metrics}, is a callable or False.",
                self.refit,
                f"Pass e.g. refit={metrics[0]!r}.",
            )

    def _space(self) -> SearchSpace:
        space = SearchSpace(self.space)
        known = self.estimator.get_params()
        names = dict.fromkeys(space.names.values())
        unknown = [name for name in names if name.partition("__")[0] not in known]
        if unknown:
            raise InvalidInput(
                f"The space may only name parameters of {self.estimator!r}.",
                unknown,
                f"Choose from {sorted(known)}.",
            )
        return space

    def _plan(
        self, space: Space, n_folds: int, backend: str, slots: int | None, names: tuple[str, ...]
    ) -> SearchPlan:
        """The checked search; every setting of the optimizer is checked by making one."""
        number, uncertainty = self.n_evaluations, self.uncertainty
        if number is None and self.time_budget is None:
            number = USUAL_EVALUATIONS
        limits = Limits(number, time_budget=self.time_budget)
        if isinstance(uncertainty, numbers.Real) and not isinstance(uncertainty, bool):
            uncertainty = float(uncertainty)
        settings: dict[str, Any] = {"method": self.method, "uncertainty": uncertainty}
        settings |= {"seed": self._seed(), "stop_when": self.stop_when}
        settings["cost_aware"] = limits.time_budget is not None
        settings["fixed_seed"] = True  # a fold counts with its score, as in other searches
        settings["uncertainty"] = Optimizer(space, n_folds, **settings).uncertainty
        return SearchPlan(
            space,
            settings,
            limits.n_evaluations,
            self._error_score(),
            bool(self.verbose),
            backend,
            slots,
            self.storage,
            names,
            limits.time_budget,
        )

    def _fingerprint(self, folds: CrossValidation, plan: SearchPlan) -> str | None:
        """What a search in storage must have been started with."""
        if self.storage is None:
            return None
        return fingerprint_of(
            folds.estimator,
            folds.X,
            folds.y,
            folds.splits,
            self.scoring,
            folds.metric,
            folds.fit_params,
            folds.score_params,
            plan.error_score,
        )

    def _error_score(self) -> str | float:
        """The setting, as "raise" or a plain number."""
        given = self.error_score
        if isinstance(given, str) and given == "raise":
            return "raise"
        if isinstance(given, bool) or not isinstance(given, numbers.Real):
            raise InvalidInput('error_score is "raise" or a number.', given, "Fix it.")
        return float(given)

    def _missing_score(self) -> float:
        """What a score that is not there counts as in `cv_results_`."""
        given = self._error_score()
        return math.nan if isinstance(given, str) else given

    def _seed(self) -> int:
        if self.random_state is None and self.storage is not None:
            return 0
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _routed(self, scorer: Any, params: dict[str, Any]) -> Bunch:
        """Parameters of `fit` by who gets them."""
        if _routing():
            return process_routing(self, "fit", **params)
        fit_params = {name: value for name, value in params.items() if name != "groups"}
        score_params = {}
        if params.get("sample_weight") is not None and self._weighs(scorer):
            score_params["sample_weight"] = params["sample_weight"]
        return Bunch(
            estimator=Bunch(fit=fit_params),
            splitter=Bunch(split={"groups": params.get("groups")}),
            scorer=Bunch(score=score_params),
        )

    def _weighs(self, scorer: Any) -> bool:
        """Whether any metric takes sample weights; those that do not are warned of."""
        scorers = self._scorers_by_name(scorer)
        by_name = scorers if isinstance(scorers, dict) else {SINGLE: scorer}
        taking = {name: _takes_weights(item) for name, item in by_name.items()}
        for name in [name for name, takes in taking.items() if not takes]:
            warnings.warn(
                f"The scoring {name}={by_name[name]} does not take sample_weight: folds are trained"
                " with the weights and scored without them, so the search may choose wrongly."
                " Score with a metric that takes weights, or leave them out.",
                stacklevel=5,
            )
        return any(taking.values())

    # what fit does

    def _warn_of_failures(self, space: SearchSpace, trained: list[TrainedFold]) -> None:
        failed = [item for item in trained if item.fit.error is not None]
        if not failed:
            return
        first = failed[0]
        said = (
            f"The first was fold {first.fold} of {space.params(first.config)}:\n{first.fit.error}"
        )
        if all(item.fit.score is None for item in trained):
            raise ValueError(f"All {len(trained)} fold fits failed. {said}")
        warnings.warn(
            f"{len(failed)} of {len(trained)} fold fits failed and count as {self.error_score}."
            f" {said}",
            FitFailedWarning,
            stacklevel=4,
        )

    def _metrics_of(
        self, folds: CrossValidation, trained: list[TrainedFold]
    ) -> tuple[list[str], str]:
        """Names of the metrics, as far as folds were scored, and of the optimized one."""
        metrics = self._metrics()
        if metrics is None:
            metrics = list(dict.fromkeys(k for item in trained for k in item.fit.test_scores))
        if metrics != [SINGLE]:
            self._check_refit(metrics)
        metric = folds.target(dict.fromkeys(metrics))
        fits = [item.fit for item in trained if item.fit.score is not None]
        named = [fit for fit in fits if SINGLE not in fit.test_scores]
        if any(fit.test_scores.get(metric) != fit.score for fit in named):
            raise InvalidInput(
                "Where refit names no metric, scoring returns the same one first on every fold.",
                metrics,
                f"Pass e.g. refit={metric!r}, or return the metrics in one order.",
            )
        self._warn_of_gaps(metrics, fits)
        return metrics, metric

    def _warn_of_gaps(self, metrics: list[str], fits: list[FoldFit]) -> None:
        """Say which scores beside the optimized ones are missing, if nothing said so before."""
        whole = [fit for fit in fits if fit.error is None]
        tables = {"test": [fit.test_scores for fit in whole]}
        if self.return_train_score:
            tables["train"] = [fit.train_scores for fit in whole]
        for kind, scores in tables.items():
            for name in metrics:
                gaps = sum(not math.isfinite(found.get(name, math.nan)) for found in scores)
                if gaps:
                    warnings.warn(
                        f"The {kind} score {name!r} is missing or not finite in {gaps} of"
                        f" {len(scores)} fold fits.",
                        stacklevel=5,
                    )

    def _chosen(self, table: FoldTable, results: dict[str, Any]) -> int:
        """Row of the config to use."""
        if not callable(self.refit):
            return table.best()
        index = self.refit(results)
        if isinstance(index, bool) or not isinstance(index, numbers.Integral):
            raise TypeError(f"refit must return a row number of cv_results_. Got {index!r}.")
        if not 0 <= index < len(table.params):
            raise IndexError(
                f"refit must return a row number below {len(table.params)}. Got {index}."
            )
        return int(index)

    def _repr_html_inner(self) -> str:
        return str(super()._repr_html_inner()) + self._answer_html()

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        shown: dict[str, Any] = super()._repr_mimebundle_(**kwargs)
        if "text/html" in shown:
            shown["text/html"] += self._answer_html()
        return shown

    def _answer_html(self) -> str:
        """What a notebook shows below the diagram of the estimator, once it is fitted."""
        if not hasattr(self, "best_params_"):
            return ""
        rows: list[tuple[str, object]] = [("folds trained", self.n_evaluations_)]
        if self.optimizer_.context_names and self.forecast_ is not None:
            rows.append(("forecast", str(self.forecast_)))
        if hasattr(self, "best_score_"):
            rows.append(("best robust score", self.best_score_))
        return html_card("Search", [*rows, *self.best_params_.items()])

    def _keep(self, table: FoldTable, results: dict[str, Any], chosen: int) -> None:
        self.cv_results_ = results
        self.n_splits_ = table.n
        self.best_index_ = chosen
        self.best_params_ = table.params[chosen]
        if not callable(self.refit):
            self.best_score_ = float(table.judged.values[chosen])
        self.worst_case_weights_ = table.judged.robust()[1][chosen]
        self.robustness_path_ = table.robustness_path()

    def _train_best(
        self, config: dict[str, Any], X: Any, y: Any, params: dict[str, Any], tasks: FitTasks
    ) -> None:
        best = clone(self.estimator).set_params(**clone(config, safe=False))
        with tasks.refitting(best):
            start = perf_counter()
            best.fit(X, *(() if y is None else (y,)), **params)
            self.refit_time_ = perf_counter() - start
        self.best_estimator_ = best
        if hasattr(best, "feature_names_in_"):
            self.feature_names_in_ = best.feature_names_in_


# Tools recognize a search by this class. Its fit hands over whole configs: it is no parent of ours.
BaseSearchCV.register(RobustSearchCV)


def _routing() -> bool:
    return bool(get_config()["enable_metadata_routing"])


def _takes_weights(scorer: Any) -> bool:
    """Whether a scorer takes sample weights; scorers before scikit-learn 1.7 do not say."""
    if hasattr(scorer, "_accept_sample_weight"):
        return bool(scorer._accept_sample_weight())
    return "sample_weight" in signature(getattr(scorer, "_score_func", scorer)).parameters
