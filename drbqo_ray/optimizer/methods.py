"""The paper's methods as recipes: how x is picked, how w is picked, what is reported.

Read the table beside the paper's list of baselines (section 5): a row per method, a column
per choice. `context_rule="random"` turns any of them into the paper's RandW variant.

| method         | pick x: maximize             | pick w          | report best    | contexts  |
|----------------|------------------------------|-----------------|----------------|-----------|
| drbqo          | robust value of a draw       | highest variance | robust mean   | embedded  |
| emp-drbqo      | robust value of a draw       | highest variance | plain mean    | embedded  |
| bqo-ts         | plain mean of a draw         | highest variance | plain mean    | embedded  |
| maximin-bqo-ts | plain mean of a draw         | highest variance | robust mean   | embedded  |
| bqo-ei         | expected improvement of mean | highest variance | plain mean    | embedded  |
| maximin-bqo-ei | expected improvement of mean | highest variance | robust mean   | embedded  |
| mtbo           | expected improvement of mean | highest task EI  | plain mean    | free-form |
| random         | nothing: uniform             | uniform          | robust mean   | embedded  |
| foldwise       | expected gain for each fold  | highest variance | completed     | embedded  |

The last one is not the paper's. It tries the paper's next config, or trains another fold of a seen
one where more is to be gained for each fold (`core/missing_scores.py`); and it judges a config by
the scores it has, and by the model in the folds that are missing. Its model expects noise.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

from drbqo_ray.errors import InvalidInput

Propose = Literal["robust-draw", "gain-per-fold", "mean-draw", "mean-ei", "uniform"]
ContextRule = Literal["variance", "task-ei", "random"]
Report = Literal["robust", "mean", "completed"]


@dataclass(frozen=True)
class Method:
    """One recipe.

    Attributes:
        propose: what the next config maximizes.
        context_rule: how the context of that config is chosen.
        report: whether the recommendation maximizes the robust or the plain posterior mean, or
            the robust value of scores where there are some and of posterior means elsewhere.
        free_form: whether the covariance between contexts is free-form (multi-task).
        noisy_prior: whether the prior of the model expects noise, as scores of small data have it.
    """

    propose: Propose
    context_rule: ContextRule
    report: Report
    free_form: bool = False
    noisy_prior: bool = False


METHODS: dict[str, Method] = {
    "drbqo": Method("robust-draw", "variance", "robust"),
    "emp-drbqo": Method("robust-draw", "variance", "mean"),
    "bqo-ts": Method("mean-draw", "variance", "mean"),
    "maximin-bqo-ts": Method("mean-draw", "variance", "robust"),
    "bqo-ei": Method("mean-ei", "variance", "mean"),
    "maximin-bqo-ei": Method("mean-ei", "variance", "robust"),
    "mtbo": Method("mean-ei", "task-ei", "mean", free_form=True),
    "random": Method("uniform", "random", "robust"),
    "foldwise": Method("gain-per-fold", "variance", "completed", noisy_prior=True),
}

DEFAULT = "foldwise"  # wherever folds are trained; a bare `Optimizer` is the paper's algorithm


def find_method(name: str, context_rule: str | None = None) -> Method:
    """The recipe of a method, with its context rule replaced if one is given."""
    if not isinstance(name, str) or name not in METHODS:
        raise InvalidInput("The method must be one we know.", name, f"Use one of {list(METHODS)}.")
    method = METHODS[name]
    if context_rule is None:
        return method
    rules = get_args(ContextRule)
    if not isinstance(context_rule, str) or context_rule not in rules:
        raise InvalidInput(
            "The context rule must be one we know.", context_rule, f"Use None or one of {rules}."
        )
    return replace(method, context_rule=context_rule)  # type: ignore[arg-type]
