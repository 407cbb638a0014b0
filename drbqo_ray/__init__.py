"""Robust hyperparameter tuning under cross-validation, on Ray."""

from drbqo_ray.core.kl_ball import KLBall
from drbqo_ray.core.mmd_ball import MMDBall
from drbqo_ray.core.uncertainty import (
    ChiSquareBall,
    CVaR,
    Expectation,
    TotalVariationBall,
    WorstCase,
)
from drbqo_ray.core.wasserstein_ball import WassersteinBall
from drbqo_ray.errors import DrbqoError, InvalidInput
from drbqo_ray.optimizer import Optimizer
from drbqo_ray.parameters import Choice, Float, Int
from drbqo_ray.records import Observation, Recommendation, Suggestion
from drbqo_ray.space import Space
