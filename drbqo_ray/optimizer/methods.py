"""The paper's methods as recipes: how x is picked, how w is picked, what is reported.

Read the table beside the paper's list of baselines (section 5): a row per method, a column
per choice. `context_rule="random"` turns any of them into the paper's RandW variant.

| method         | pick x: maximize             | pick w           | report best  | contexts  |
|----------------|------------------------------|------------------|--------------|-----------|
| drbqo          | robust value of a draw       | highest variance | robust mean  | embedded  |
| emp-drbqo      | robust value of a draw       | highest variance | plain mean   | embedded  |
| bqo-ts         | plain mean of a draw         | highest variance | plain mean   | embedded  |
| maximin-bqo-ts | plain mean of a draw         | highest variance | robust mean  | embedded  |
| bqo-ei         | expected improvement of mean | highest variance | plain mean   | embedded  |
| maximin-bqo-ei | expected improvement of mean | highest variance | robust mean  | embedded  |
| mtbo           | expected improvement of mean | highest task EI  | plain mean   | free-form |
| random         | nothing: uniform             | uniform          | robust mean  | embedded  |
| foldwise       | expected gain for each fold  | highest variance | robust value | embedded  |
|                |                              |                  | of scores    |           |

The last one is not the paper's. It tries the paper's next config, or trains another fold of a seen
one where more is to be gained for each fold; and it judges a config by the scores it has, and by
the model in the folds that are missing. Its model expects noise.

The rules are classes of `drbqo_ray.optimizer.proposals`. A method of your own is a file with the
rule that is new in it, and a line of the table below.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from drbqo_ray.errors import InvalidInput
from drbqo_ray.optimizer import DEFAULT as DEFAULT
from drbqo_ray.optimizer.proposals import (
    ConfigRule,
    ContextRule,
    GainPerFold,
    HighestVariance,
    MeanDraw,
    MeanImprovement,
    RandomContext,
    RobustDraw,
    TaskImprovement,
    Uniform,
)
from drbqo_ray.optimizer.scoring import Report


@dataclass(frozen=True)
class Method:
    """One recipe.

    Attributes:
        config_rule: how the next config is picked.
        context_rule: how the context of that config is picked.
        report: whether the recommendation maximizes the robust or the plain posterior mean, or
            the robust value of scores where there are some and of posterior means elsewhere.
        free_form: whether the covariance between contexts is free-form (multi-task).
        noisy_prior: whether the prior of the model expects noise, as scores of small data have it.
    """

    config_rule: ConfigRule
    context_rule: ContextRule
    report: Report
    free_form: bool = False
    noisy_prior: bool = False


METHODS: dict[str, Method] = {
    "drbqo": Method(RobustDraw(), HighestVariance(), "robust"),
    "emp-drbqo": Method(RobustDraw(), HighestVariance(), "mean"),
    "bqo-ts": Method(MeanDraw(), HighestVariance(), "mean"),
    "maximin-bqo-ts": Method(MeanDraw(), HighestVariance(), "robust"),
    "bqo-ei": Method(MeanImprovement(), HighestVariance(), "mean"),
    "maximin-bqo-ei": Method(MeanImprovement(), HighestVariance(), "robust"),
    "mtbo": Method(MeanImprovement(), TaskImprovement(), "mean", free_form=True),
    "random": Method(Uniform(), RandomContext(), "robust"),
    "foldwise": Method(GainPerFold(), HighestVariance(), "completed", noisy_prior=True),
}
CONTEXT_RULES: dict[str, ContextRule] = {
    rule.name: rule for rule in (HighestVariance(), TaskImprovement(), RandomContext())
}


def find_method(name: str, context_rule: str | None = None) -> Method:
    """The recipe of a method, with its context rule replaced if one is given."""
    if not isinstance(name, str) or name not in METHODS:
        raise InvalidInput("The method must be one we know.", name, f"Use one of {list(METHODS)}.")
    method = METHODS[name]
    if context_rule is None:
        return method
    if not isinstance(context_rule, str) or context_rule not in CONTEXT_RULES:
        raise InvalidInput(
            "The context rule must be one we know.",
            context_rule,
            f"Use None or one of {list(CONTEXT_RULES)}.",
        )
    return replace(method, context_rule=CONTEXT_RULES[context_rule])
