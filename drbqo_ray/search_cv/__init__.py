"""`RobustSearchCV`: the search of this package as a scikit-learn estimator.

The name is loaded when first used, so that a worker that trains folds does not load the search.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from drbqo_ray.search_cv.estimator import RobustSearchCV

__all__ = ["RobustSearchCV"]


def __getattr__(name: str) -> Any:
    if name != "RobustSearchCV":
        raise AttributeError(f"module 'drbqo_ray.search_cv' has no attribute {name!r}")
    from drbqo_ray.search_cv.estimator import RobustSearchCV

    return RobustSearchCV
