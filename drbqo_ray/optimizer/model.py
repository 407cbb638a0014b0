"""The posterior the next suggestion is made from, and the same with pending ones counted in."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cache

import numpy as np

from drbqo_ray.core.contexts import EmbeddedContexts, FreeFormContexts
from drbqo_ray.core.gp import GaussianProcess
from drbqo_ray.core.kernels import KernelFamily, Shape
from drbqo_ray.core.surrogate import Fit, Surrogate
from drbqo_ray.optimizer.history import History
from drbqo_ray.records import Suggestion
from drbqo_ray.space.space import Space
from drbqo_ray.threads import one_thread
from drbqo_ray.types import Array

PENDING_LIMIT = 256
MANY_CONTEXTS = 500


class Model:
    """Follows a history of evaluations; computes nothing twice.

    Attributes:
        fits_in_background: whether someone else makes the fits that are due, by `fit_job`; the
            model goes on with the last one until then.

    Args:
        surrogate: the process that follows the scores.
        history: what has been evaluated.
        space: the search space.
    """

    def __init__(self, surrogate: Surrogate, history: History, space: Space) -> None:
        self._surrogate = surrogate
        self._history = history
        self._space = space
        self.fits_in_background = False
        self._cache: tuple[int, Surrogate, GaussianProcess] | None = None
        self._ahead: tuple[GaussianProcess, tuple[int, ...], GaussianProcess] | None = None

    @property
    def last_fit(self) -> Fit | None:
        """The hyperparameters in use; None before the model was first needed."""
        return self._surrogate.last_fit

    @last_fit.setter
    def last_fit(self, fit: Fit | None) -> None:
        self._surrogate = self._surrogate.with_fit(fit)
        self._cache = None

    @property
    def n_parameters(self) -> int:
        """Length P of the parameters of a fit."""
        return self._surrogate.family.n_parameters

    def posterior(self) -> GaussianProcess:
        """The posterior for the next suggestion; a fit it needed is kept."""
        _, gp = self.current()
        assert self._cache is not None
        self._surrogate = self._cache[1]
        return gp

    def current(self) -> tuple[Fit, GaussianProcess]:
        """Fit and posterior given all scores. Only `posterior` keeps a new fit, so that looking
        at the recommendation never changes what is asked next."""
        size = self._history.model_size
        if self._cache is None or self._cache[0] != size:
            model = self._surrogate.copy()
            Z, c, y = self._history.model_data()
            gp = model.update(Z, c, y, refit=not self.fits_in_background)
            self._cache = (size, model, gp)
        _, model, gp = self._cache
        assert model.last_fit is not None
        return model.last_fit, gp

    def fit_job(self) -> Callable[[], Fit] | None:
        """A function that makes the fit that is due, None if none is.

        It works on a copy of the data, so another thread may run it while this one asks and
        tells. Set `last_fit` to what it returns.
        """
        last = self.last_fit
        if last is None or self._history.model_size < last.due:
            return None
        Z, c, y = self._history.model_data()
        Z, c = Z.copy(), c.copy()
        surrogate = self._surrogate.with_fit(last)
        return one_thread(lambda: surrogate.fit(Z, c, y))

    def with_pending(
        self,
        gp: GaussianProcess,
        pending: Mapping[int, Suggestion],
        points: Mapping[int, Array],
        near: Array,
    ) -> GaussianProcess:
        """The posterior as if each pending score came out at its mean.

        Of very many pending pairs only those nearest to the configs `near` (k, d) count: the others
        hardly change what is known there. The last posterior is kept, so that a batch conditions
        on each of its members once.
        """
        ids = tuple(pending)
        if len(ids) > PENDING_LIMIT:
            return self._conditioned(gp, gp, self._nearest(gp, ids, points, near), pending, points)
        base, known, ahead = self._ahead or (gp, (), gp)
        if base is not gp or ids[: len(known)] != known:
            known, ahead = (), gp
        ahead = self._conditioned(gp, ahead, ids[len(known) :], pending, points)
        self._ahead = (gp, ids, ahead)
        return ahead

    def _conditioned(
        self,
        gp: GaussianProcess,
        ahead: GaussianProcess,
        ids: Sequence[int],
        pending: Mapping[int, Suggestion],
        points: Mapping[int, Array],
    ) -> GaussianProcess:
        if not ids:
            return ahead
        z = self._space.features(np.array([points[id] for id in ids]))
        contexts = np.array([pending[id].context for id in ids])
        return ahead.conditioned_on(z, contexts, gp.means(z)[np.arange(len(ids)), contexts])

    def _nearest(
        self, gp: GaussianProcess, ids: Sequence[int], points: Mapping[int, Array], near: Array
    ) -> list[int]:
        z = self._space.features(np.array([points[id] for id in ids]))
        order = np.argsort(gp.kernel.distances(z, near).min(axis=1), kind="stable")
        return [ids[k] for k in np.sort(order[:PENDING_LIMIT])]


def kernel_family(shape: Shape, contexts: int | Array, free_form: bool, d: int) -> KernelFamily:
    """The kernel on d model inputs and on contexts: a number of folds, or sample vectors (n, m)."""
    model: EmbeddedContexts | FreeFormContexts
    if free_form:
        model = FreeFormContexts(contexts if isinstance(contexts, int) else len(contexts))
    elif isinstance(contexts, int):
        model = EmbeddedContexts.folds(contexts)
    else:
        model = EmbeddedContexts.samples(contexts)
    return KernelFamily(shape, model, d)


@cache
def warn_of_many_contexts(n: int, structured: bool) -> None:
    """Say once what so many contexts cost; the figures are those of one core, to a factor of 3.

    Args:
        n: number of contexts.
        structured: whether their covariance has factors: all but the joint Matern kernels and the
            free-form covariance of MTBO have.
    """
    if n < MANY_CONTEXTS or structured:
        return
    thousands = n / 1000
    warnings.warn(
        f"{n} contexts are many for this kernel: it has no factors between contexts. At 1,000"
        f" scores a suggestion takes about {5 * thousands:.1g} s, a look at the certainty"
        f" {60 * thousands:.1g} s, and the model {2 * thousands:.1g} GB. The squared exponential"
        ' kernel (kernel="se", not method="mtbo") is a hundred times cheaper, and so are fewer and'
        " larger folds, such as KFold(10) in place of LeaveOneOut.",
        stacklevel=3,
    )
