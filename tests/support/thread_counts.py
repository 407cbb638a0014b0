"""How many threads numpy's and scipy's linear algebra may use, looked at from outside."""

from __future__ import annotations

import functools
from typing import Any

from scipy import linalg  # noqa: F401  loads the second library
from threadpoolctl import ThreadpoolController

from drbqo_ray.core import linalg as factors
from drbqo_ray.core.kernels import Kernel
from drbqo_ray.core.likelihood import Likelihood

_libraries = ThreadpoolController().select(user_api="blas")


def allowed() -> set[int]:
    """The numbers of threads that the libraries may use now."""
    return {entry["num_threads"] for entry in _libraries.info()}


def allow(threads: int) -> Any:
    """A context in which the libraries may use so many threads, as a user's own code has it."""
    return _libraries.limit(limits=threads)


def watch(monkeypatch: Any) -> list[set[int]]:
    """A list that grows by the numbers allowed at every piece of our linear algebra."""
    seen: list[set[int]] = []

    def watched(function: Any) -> Any:
        @functools.wraps(function)
        def call(*arguments: Any, **options: Any) -> Any:
            seen.append(allowed())
            return function(*arguments, **options)

        return call

    for name in ("factorize", "extend", "extend_many", "forward", "backward"):
        monkeypatch.setattr(factors, name, watched(getattr(factors, name)))
    for name in ("distances", "joint", "weigh", "blend"):
        monkeypatch.setattr(Kernel, name, watched(getattr(Kernel, name)))
    monkeypatch.setattr(Likelihood, "__call__", watched(Likelihood.__call__))
    return seen
