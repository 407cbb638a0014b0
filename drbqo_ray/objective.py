"""What a fold objective is, and how one is found by name.

A fold objective trains and scores one config on one fold: `objective(config, fold, seed)` returns
one number. It may say how many folds it has by an attribute `n_folds`, and what data it stands for
by an attribute `fingerprint` (a string that changes when the data or the folds do); a run whose
objective offers another fingerprint than before is not resumed.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import numbers
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

from drbqo_ray.errors import ObjectiveError, short_repr

_CURE = "Write it as `def objective(config, fold, seed): ...` and return one number."
_SPEC_CURE = (
    'Write "module:attribute", e.g. "my_folds:objective" for my_folds.py in this directory.'
)


@runtime_checkable
class FoldObjective(Protocol):
    """Anything that scores a config on one fold."""

    def __call__(self, config: Mapping[str, Any], fold: int, seed: int) -> float:
        """Train `config` on the fold with the random numbers of `seed`; return its score."""


def load_objective(spec: str) -> FoldObjective:
    """The objective that "module:attribute" names; the current directory is searched too.

    The attribute is the objective itself, or a class or function without required arguments that
    returns it. It may be a dotted path inside the module.

    Nothing of the standard library is an objective; it is neither imported nor called.

    Raises:
        ObjectiveError: the module, the attribute or what it holds is not right.
    """
    module_name, separator, path = spec.partition(":") if isinstance(spec, str) else ("", "", "")
    if not separator or not module_name.strip() or not path.strip():
        raise ObjectiveError(
            f"An objective is named by module and attribute. Got {short_repr(spec)}. {_SPEC_CURE}"
        )
    _refuse_system(module_name.partition(".")[0], spec)
    module = _import(module_name)
    found: Any = module
    for part in path.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise ObjectiveError(
                f"The module {module_name!r} has no attribute {path!r}. Got {spec!r}, from"
                f" {_place(module)}. {_offer(module)}"
            ) from None
    if inspect.isroutine(found) or isinstance(found, type):
        _refuse_system(str(getattr(found, "__module__", None) or "builtins").split(".")[0], spec)
    return check_objective(_built(found, spec), name=spec)


def as_objective(objective: object) -> tuple[FoldObjective, str]:
    """A checked objective and its name, from a callable or from "module:attribute"."""
    if isinstance(objective, str):
        return load_objective(objective), objective
    return check_objective(objective), objective_name(objective)


def check_objective(objective: object, *, name: str | None = None) -> FoldObjective:
    """The objective itself if it can be called as (config, fold, seed), else ObjectiveError."""
    label = name or objective_name(objective)
    if isinstance(objective, type) or not callable(objective):
        raise ObjectiveError(
            f"An objective must be callable. Got {short_repr(objective)} as {label}. {_CURE}"
        )
    if not _takes_a_fold(objective):
        raise ObjectiveError(
            f"An objective must take (config, fold, seed). Got {label}{_signature(objective)}."
            f" {_CURE}"
        )
    return objective


def check_folds(objective: object, n_contexts: int) -> None:
    """Raise ObjectiveError when the objective says it has another number of folds."""
    n_folds = getattr(objective, "n_folds", None)
    if isinstance(n_folds, numbers.Integral) and int(n_folds) != n_contexts:
        raise ObjectiveError(
            f"The objective {objective_name(objective)} has {n_folds} folds. Got {n_contexts}"
            f" contexts. Pass contexts={n_folds}, or make the objective with {n_contexts} folds."
        )


def objective_name(objective: object) -> str:
    """A readable name: "module:attribute" of a function, or of the class of any other callable."""
    while isinstance(objective, functools.partial):
        objective = objective.func
    named = objective if hasattr(objective, "__qualname__") else type(objective)
    return f"{getattr(named, '__module__', '?')}:{getattr(named, '__qualname__', '?')}"


def _refuse_system(root: str, spec: str) -> None:
    if root in sys.stdlib_module_names or root in sys.builtin_module_names:
        raise ObjectiveError(
            f"An objective is never part of Python's standard library. Got {spec!r}, of {root!r}."
            " Name a function of yours; if the file is yours, give it another name."
        )


def _import(module_name: str) -> Any:
    _make_current_directory_importable()
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if module_name == missing or module_name.startswith(f"{missing}."):
            raise ObjectiveError(_not_found(module_name)) from None
        raise ObjectiveError(
            f"The module {module_name!r} needs {missing!r}, which is not installed. Install"
            " it, or run where it is."
        ) from error
    except Exception as error:
        raise ObjectiveError(
            f"The module {module_name!r} cannot be imported: {type(error).__name__}: {error}."
            f" Fix it; `python -c 'import {module_name}'` shows the whole traceback."
        ) from error


def _make_current_directory_importable() -> None:
    here = os.getcwd()
    if here not in sys.path and "" not in sys.path:
        sys.path.insert(0, here)
    importlib.invalidate_caches()


def _not_found(module_name: str) -> str:
    message = f"There is no module {module_name!r} here. Got the current directory {os.getcwd()}. "
    if module_name.partition(".")[0] != "workers":
        return message + "Run where the file is, or install the module."
    package = sys.modules.get("workers")
    if package is None:
        return message + "Install drbqo_ray again: its wheel brings the workers."
    places = ", ".join(map(str, getattr(package, "__path__", []))) or _place(package)
    return message + (
        f"The name `workers` stands for {places}. If that is your own package, remove its"
        " __init__.py so that both can be found, rename it, or run from another directory."
    )


def _place(module: Any) -> str:
    return str(getattr(module, "__file__", None) or "a package without files")


def _offer(module: Any) -> str:
    names = [
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and callable(value)
        and getattr(value, "__module__", None) == module.__name__
    ]
    if not names:
        return "The module defines nothing that can be called."
    return f"It defines {', '.join(sorted(names)[:10])}."


def _built(found: object, spec: str) -> object:
    """What a class or function without required arguments makes, or the thing itself."""
    factory = isinstance(found, type) or (
        callable(found) and not _takes_a_fold(found) and _takes(found)
    )
    if not factory:
        return found
    assert callable(found)
    if not _takes(found):
        raise ObjectiveError(
            f"{spec} is a class whose instances need arguments: {_signature(found)}. Make an"
            " instance in the module and name that, or give every argument a default."
        )
    try:
        made = found()
    except Exception as error:
        raise ObjectiveError(
            f"{spec} cannot be made: {type(error).__name__}: {error}. Fix it, or name an"
            " objective that is ready to use."
        ) from error
    if not callable(made):
        raise ObjectiveError(
            f"An objective must be callable, or return a callable when called without arguments."
            f" Got {short_repr(made)} from {spec}. {_CURE}"
        )
    return made


def _takes_a_fold(function: Callable[..., Any]) -> bool:
    return _takes(function, {}, 0, 0)


def _takes(function: Callable[..., Any], *arguments: object) -> bool:
    try:
        inspect.signature(function).bind(*arguments)
    except TypeError:
        return False
    except ValueError:  # a builtin without a signature
        return True
    return True


def _signature(function: object) -> str:
    try:
        return str(inspect.signature(function))  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return "(...)"
