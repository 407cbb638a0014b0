"""Our fitted process as a gpytorch model, for the tools built on gpytorch (docs/maths.md, eq. 4-9).

The model has the same hyperparameters, data and posterior, in double precision. Its inputs are
rows (x, w): the config as model inputs, then the coordinates of the context, or for a free-form
covariance the number of the context. `joint_inputs` builds them. `Optimizer.to_gpytorch` is the way
in for users.

| ours                              | gpytorch's                                      |
|-----------------------------------|-------------------------------------------------|
| exp(-D2), length scales theta     | RBFKernel, length scales theta / sqrt(2)        |
| Matern of the joint distance      | MaternKernel, length scales theta               |
| s2                                | ScaleKernel                                     |
| B = R R'                          | IndexKernel of full rank with a variance of 0   |
| noise, and the jitter that held   | noise of the GaussianLikelihood                 |
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from drbqo_ray.core.contexts import EmbeddedContexts
from drbqo_ray.core.gp import GaussianProcess
from drbqo_ray.core.kernels import Kernel
from drbqo_ray.errors import InvalidInput
from drbqo_ray.types import Array, Indices

# softplus of this is 0 in double precision, so it adds nothing to the diagonal of B
RAW_ZERO = -1000.0


def joint_inputs(gp: GaussianProcess, x: Array, i: Indices) -> Array:
    """Inputs of the gpytorch model (k, d + m) for the pairs of configs x (k, d), contexts i (k,).

    A free-form covariance has m = 1, the number of the context.
    """
    contexts = gp.kernel.family.contexts
    if isinstance(contexts, EmbeddedContexts):
        return np.concatenate([x, contexts.points[i]], axis=1)
    return np.concatenate([x, np.asarray(i, dtype=np.float64)[:, None]], axis=1)


def to_gpytorch(
    gp: GaussianProcess,
    encode: Callable[[Sequence[Any]], Array] = np.asarray,
    center: float = 0.0,
    scale: float = 1.0,
) -> Any:
    """A `gpytorch.models.ExactGP` equal to our process, ready to predict; needs the torch extra.

    Its `likelihood` is a GaussianLikelihood. Scores are standardized as in our process: what it
    predicts is in units of `gp.y`.

    Args:
        gp: our process.
        encode: turns k configs into model inputs (k, d), for `inputs` of the model.
        center, scale: kept as `score_center` and `score_scale`; a value v that the model predicts
            is the score center + scale * v.

    Raises:
        InvalidInput: gpytorch is not installed.
    """
    try:
        import gpytorch
        import torch
    except ImportError as error:
        raise InvalidInput(
            "A gpytorch model needs torch and gpytorch.",
            str(error),
            "Install them by pip install 'drbqo_ray[torch]'.",
        ) from error

    class Carried(gpytorch.models.ExactGP):  # type: ignore[misc]
        """A zero-mean process with the kernel it was given."""

        def __init__(self, inputs: Any, scores: Any, likelihood: Any, covariance: Any) -> None:
            super().__init__(inputs, scores, likelihood)
            self.mean_module = gpytorch.means.ZeroMean()
            self.covar_module = covariance
            self.score_center, self.score_scale = center, scale

        def inputs(self, configs: Sequence[Any], contexts: Sequence[int]) -> Any:
            """Inputs (k, d + m) of the model for k configs in k contexts."""
            i = np.array(contexts, dtype=np.int64)
            return torch.from_numpy(joint_inputs(gp, encode(configs), i))

        def forward(self, inputs: Any) -> Any:
            return gpytorch.distributions.MultivariateNormal(
                self.mean_module(inputs), self.covar_module(inputs)
            )

    constraint = gpytorch.constraints.GreaterThan(0.0)
    likelihood = gpytorch.likelihoods.GaussianLikelihood(noise_constraint=constraint).double()
    likelihood.noise = torch.tensor([gp.kernel.noise + gp.jitter], dtype=torch.float64)
    inputs = torch.from_numpy(joint_inputs(gp, gp.X, gp.c))
    covariance = _covariance(gp.kernel)
    return Carried(inputs, torch.from_numpy(gp.y.copy()), likelihood, covariance).double().eval()


def _covariance(kernel: Kernel) -> Any:
    """The gpytorch kernel of the joint inputs."""
    import gpytorch
    import torch

    d = len(kernel.theta)
    if isinstance(kernel.family.contexts, EmbeddedContexts):
        base = _stationary(kernel, np.concatenate([kernel.theta, kernel.psi]), None)
        scaled = gpytorch.kernels.ScaleKernel(base).double()
        scaled.outputscale = torch.tensor(kernel.s2, dtype=torch.float64)
        return scaled
    n = kernel.family.contexts.n
    tasks = gpytorch.kernels.IndexKernel(num_tasks=n, rank=n, active_dims=(d,)).double()
    root = torch.from_numpy(np.linalg.cholesky(kernel.B))
    tasks.initialize(covar_factor=root, raw_var=torch.full((n,), RAW_ZERO, dtype=torch.float64))
    return _stationary(kernel, kernel.theta, tuple(range(d))) * tasks


def _stationary(kernel: Kernel, scales: Array, active_dims: tuple[int, ...] | None) -> Any:
    """RBFKernel or MaternKernel with our length scales, (d,) or (d + m,)."""
    import gpytorch
    import torch

    options = {"ard_num_dims": len(scales), "active_dims": active_dims}
    freedom = kernel.family.shape.freedom
    if math.isinf(freedom):
        base = gpytorch.kernels.RBFKernel(**options).double()
        scales = scales / math.sqrt(2.0)
    else:
        base = gpytorch.kernels.MaternKernel(nu=freedom / 2, **options).double()
    base.lengthscale = torch.from_numpy(np.ascontiguousarray(scales))[None]
    return base
