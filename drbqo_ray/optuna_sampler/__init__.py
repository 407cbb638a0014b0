"""`FoldSampler` and `FoldPruner`: the search of this package inside a study of Optuna."""

try:
    import optuna as optuna
except ImportError as error:
    raise ImportError(
        "Optuna is missing. Install it with: pip install 'drbqo_ray[optuna]'"
    ) from error

from drbqo_ray.optuna_sampler.pruner import FoldPruner
from drbqo_ray.optuna_sampler.sampler import FoldSampler
from drbqo_ray.optuna_sampler.study import certainty, recommend, report

__all__ = ["FoldPruner", "FoldSampler", "certainty", "recommend", "report"]
