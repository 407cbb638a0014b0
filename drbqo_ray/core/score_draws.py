"""New or seen: which config is best on a draw of the scores themselves.

A score is the process plus a part of its own that no other pair shares, of the variance that the
model calls noise. Training the same fold again would give the same score, so for the table of
scores that a config is judged by this part is as real as the process:

    y(x, i) = f(x, i) + e(x, i)        f a posterior path,  e ~ N(0, noise)

On such a draw a seen config keeps the scores it has, and gets drawn ones in the folds that are
missing. If it still is robustly better than the best config of the whole path, one of its missing
folds is trained; else the new config is tried. Without noise the path's best always wins, and the
rule is the paper's.

| symbol | meaning                                           | shape     |
|--------|---------------------------------------------------|-----------|
| z      | for each of T paths the config it is largest at   | (T, d)    |
| seen   | seen configs that have folds missing              | (k, d)    |
| scores | their standardized scores, NaN in missing folds   | (k, n)    |
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from drbqo_ray.core.paths import Paths
from drbqo_ray.core.uncertainty_set import UncertaintySet

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]


def best_seen(
    paths: Paths,
    z: Array,
    seen: Array,
    scores: Array,
    noise: float,
    robust: tuple[UncertaintySet, Array],
    rngs: Sequence[np.random.Generator],
) -> Indices:
    """For each path the number of the seen config to train another fold of, -1 for a new one.

    Args:
        robust: the uncertainty set and the reference weights (n,).
        rngs: a source of chance for each path.
    """
    uncertainty, q = robust
    spread = np.sqrt(noise)
    new, old = paths(z), paths(seen)  # (T, T, n), (T, k, n)
    picks = np.full(len(rngs), -1)
    for t, rng in enumerate(rngs):
        fresh = new[t, t] + spread * rng.standard_normal(len(q))
        filled = old[t] + spread * rng.standard_normal(scores.shape)
        rows = np.concatenate([fresh[None], np.where(np.isnan(scores), filled, scores)])
        values = uncertainty.solve(rows, q)[0]
        picks[t] = int(np.argmax(values)) - 1
    return picks
