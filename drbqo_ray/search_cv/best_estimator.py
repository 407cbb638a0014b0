"""What a fitted search hands on to its best estimator, as scikit-learn's own searches do."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any, TypeVar, cast

from sklearn.model_selection import GridSearchCV
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

F = TypeVar("F", bound=Callable[..., Any])


def when_it_has(name: str) -> Callable[[F], F]:
    """Decorator of a method that is there only when the best estimator has it."""
    return cast(Callable[[F], F], available_if(_has(name)))


def _has(name: str) -> Callable[[Any], bool]:
    """Whether the best estimator has an attribute; before `fit`, the one to be searched."""

    def check(search: Any) -> bool:
        if not search.refit:
            raise AttributeError(
                f"{type(search).__name__} was made with refit={search.refit}: {name} needs an"
                " estimator trained on all data. Pass refit=True, or train one yourself with"
                " best_params_."
            )
        getattr(getattr(search, "best_estimator_", search.estimator), name)
        return True

    return check


class BestEstimatorMixin:
    """Methods and attributes of `best_estimator_`, there only when it has them."""

    estimator: Any
    best_estimator_: Any

    @when_it_has("predict")
    def predict(self, X: Any) -> Any:
        """Predictions (k,) of the best estimator for X (k, d)."""
        return self._best().predict(X)

    @when_it_has("predict_proba")
    def predict_proba(self, X: Any) -> Any:
        """Class probabilities (k, c) of the best estimator for X (k, d)."""
        return self._best().predict_proba(X)

    @when_it_has("predict_log_proba")
    def predict_log_proba(self, X: Any) -> Any:
        """Logarithms of the class probabilities (k, c) for X (k, d)."""
        return self._best().predict_log_proba(X)

    @when_it_has("decision_function")
    def decision_function(self, X: Any) -> Any:
        """Decision values (k,) or (k, c) of the best estimator for X (k, d)."""
        return self._best().decision_function(X)

    @when_it_has("score_samples")
    def score_samples(self, X: Any) -> Any:
        """Scores (k,) that the best estimator gives each row of X (k, d)."""
        return self._best().score_samples(X)

    @when_it_has("transform")
    def transform(self, X: Any) -> Any:
        """X (k, d) as the best estimator transforms it."""
        return self._best().transform(X)

    @when_it_has("inverse_transform")
    def inverse_transform(self, X: Any) -> Any:
        """Transformed rows brought back to the space of X."""
        return self._best().inverse_transform(X)

    @property
    def classes_(self) -> Any:
        """Class labels; only of a classifier."""
        _has("classes_")(self)
        return self.best_estimator_.classes_

    @property
    def n_features_in_(self) -> int:
        """Number of features seen in `fit`."""
        _has("fit")(self)
        if not hasattr(self, "best_estimator_"):
            raise AttributeError(f"{type(self).__name__} has no n_features_in_ before fit.")
        return int(self.best_estimator_.n_features_in_)

    def _best(self) -> Any:
        check_is_fitted(self)
        return self.best_estimator_

    def _sk_visual_block_(self) -> Any:
        """The diagram in notebooks: the best estimator inside once there is one."""
        return GridSearchCV._sk_visual_block_(self)

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn should know: mostly that which holds for the estimator inside."""
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        inside = get_tags(self.estimator)
        tags.estimator_type = inside.estimator_type
        tags.classifier_tags = deepcopy(inside.classifier_tags)
        tags.regressor_tags = deepcopy(inside.regressor_tags)
        tags.input_tags.pairwise = inside.input_tags.pairwise
        tags.input_tags.sparse = inside.input_tags.sparse
        return tags
