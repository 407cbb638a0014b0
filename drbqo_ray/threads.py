"""How many threads linear algebra may use: one in our own calls, a task's share on a worker.

Our matrices are small. Several threads spend ten times the processor time on them, most of it
waiting for each other, and sum in another order: the same search would then ask for other configs
on another machine. So every public call that reaches the model runs inside `one_thread`.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from contextlib import ContextDecorator
from dataclasses import dataclass
from functools import cache
from typing import Any

_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
_pools: tuple[int, Any] = (-1, None)


@dataclass(frozen=True)
class Library:
    """A loaded library of linear algebra.

    Attributes:
        get, set: read and write how many threads it may use.
        per_thread: whether every thread has a number of its own, else the process has one.
    """

    get: Callable[[], int]
    set: Callable[[int], object]
    per_thread: bool = False


class OneThread(ContextDecorator):
    """Limits the linear algebra of numpy and scipy to one thread while any thread is inside.

    Works as a context and as a decorator, and may be entered again from inside. Most libraries have
    one number for the whole process: the first to enter sets it to one, the last to leave puts back
    what was there. Libraries of other kinds (torch, OpenMP of other packages) are left alone.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._own = threading.local()
        self._inside = 0
        self._before: list[tuple[Library, int]] = []
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forked)

    def __enter__(self) -> None:
        depth = getattr(self._own, "depth", 0)
        if depth == 0:
            self._own.before = _limit(per_thread=True)
            with self._lock:
                if self._inside == 0:
                    self._before = _limit(per_thread=False)
                self._inside += 1
        self._own.depth = depth + 1

    def __exit__(self, *_: object) -> None:
        self._own.depth -= 1
        if self._own.depth == 0:
            _restore(self._own.before)
            with self._lock:
                self._inside -= 1
                if self._inside == 0:
                    _restore(self._before)

    def _forked(self) -> None:
        """Forget the threads that a forked process does not have."""
        self._lock = threading.Lock()
        was_inside, self._inside = self._inside, int(getattr(self._own, "depth", 0) > 0)
        if was_inside and not self._inside:
            _restore(self._before)


one_thread = OneThread()


def _limit(per_thread: bool) -> list[tuple[Library, int]]:
    """Set the libraries of one kind to one thread; those that were changed, with their numbers."""
    libraries = [library for library in _libraries() if library.per_thread == per_thread]
    before = [(library, library.get() or 1) for library in libraries]
    before = [(library, threads) for library, threads in before if threads > 1]
    for library, _ in before:
        library.set(1)
    return before


def _restore(before: list[tuple[Library, int]]) -> None:
    for library, threads in before:
        library.set(threads)


@cache
def _libraries() -> list[Library]:
    """The libraries behind numpy and scipy; looked for once, for that takes milliseconds."""
    import numpy  # noqa: F401  loads its library
    import scipy.linalg  # noqa: F401  loads another one
    from threadpoolctl import ThreadpoolController

    found = ThreadpoolController().select(user_api="blas").lib_controllers
    return [_library(controller) for controller in found]


def _library(controller: Any) -> Library:
    """The library of a controller of threadpoolctl.

    OpenBLAS is called directly: a controller sets it in one thread only, and a Python thread that
    did so once would keep all others from it.
    """
    get, set = controller.get_num_threads, controller.set_num_threads
    if controller.internal_api != "openblas":
        return Library(get, set)
    if controller.threading_layer == "openmp":
        return Library(get, set, per_thread=True)
    names = [f"{a}openblas_set_num_threads{z}" for a in ("", "scipy_") for z in ("", "64_", "_64")]
    symbols = (getattr(controller.dynlib, name, None) for name in names)
    return Library(get, next((symbol for symbol in symbols if symbol is not None), set))


def limit_threads(threads: int) -> None:
    """Cap the threads of all numerical libraries of this process for good, loaded or not.

    For workers, whose processor share is known. Their processes are reused by tasks of other
    sizes, so this is set anew in every task.
    """
    for variable in _VARIABLES:
        os.environ[variable] = str(threads)
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "set_num_threads"):
        torch.set_num_threads(threads)
    _loaded_pools().limit(limits=threads)


def _loaded_pools() -> Any:
    """The thread pools of the loaded libraries, looked up again when modules were imported."""
    global _pools
    from threadpoolctl import ThreadpoolController

    if _pools[0] != len(sys.modules):
        _pools = (len(sys.modules), ThreadpoolController())
    return _pools[1]
