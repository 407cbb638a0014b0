"""`RobustSearchCV`: the search of this package as a scikit-learn estimator."""

from drbqo_ray.search_cv.estimator import RobustSearchCV

__all__ = ["RobustSearchCV"]
