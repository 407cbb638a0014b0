"""What a Tune searcher searches for: space, folds, metric and the settings of its optimizer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

from drbqo_ray.core.sets import Expectation, from_dict
from drbqo_ray.errors import InvalidInput
from drbqo_ray.optimizer.optimizer import Optimizer
from drbqo_ray.space.parameters import Float
from drbqo_ray.space.space import Space
from drbqo_ray.storage.changes import refuse_changes
from drbqo_ray.tune_searcher.points import Folds
from drbqo_ray.tune_searcher.space import TuneSpace
from drbqo_ray.types import plain

KNOWN = ("method", "uncertainty", "seed", "stop_when")
OPTIONS = ("n_initial", "kernel", "context_rule", "reference", "sampler", "hyperparameters")


@dataclass(frozen=True)
class TuneProblem:
    """The problem, as far as it is known.

    Attributes:
        folds: the folds and their key in a config.
        reported: which report of a trial is its score, "last" or "best".
        settings: keyword arguments of `Optimizer`, without the mode.
        space: the search space, None until Tune gives it.
        given: whether the user gave the space, so that Tune must not.
        metric, mode: name of the score and its direction, None until Tune gives them.
    """

    folds: Folds
    reported: str
    settings: dict[str, Any]
    space: TuneSpace | None = None
    given: bool = False
    metric: str | None = None
    mode: str | None = None

    @staticmethod
    def of(
        space: Mapping[str, Any] | Space | None,
        n_folds: int | None,
        fold_key: str,
        reported: str,
        settings: Mapping[str, Any],
    ) -> TuneProblem:
        """The problem a user states, everything in it checked and turned into plain Python.

        Raises:
            InvalidInput: a setting is wrong.
        """
        n_folds, fold_key, reported = plain((n_folds, fold_key, reported))
        chosen: dict[str, Any] = plain(dict(settings))
        if n_folds is not None and (not isinstance(n_folds, int) or isinstance(n_folds, bool)):
            raise InvalidInput(
                "n_folds is a whole number >= 1.", n_folds, "Pass e.g. 5, or None for no folds."
            )
        if not isinstance(fold_key, str) or not fold_key:
            raise InvalidInput("fold_key is a non-empty string.", fold_key, "Leave it out.")
        if not isinstance(reported, str) or reported not in ("last", "best"):
            raise InvalidInput("reported must be 'last' or 'best'.", reported, "Pass one of them.")
        unknown = [name for name in chosen if name not in (*OPTIONS, *KNOWN)]
        if unknown:
            raise InvalidInput(
                "DRBQOSearch takes only the options it knows.", unknown, f"Use {list(OPTIONS)}."
            )
        folds = Folds(None, 1) if n_folds is None else Folds(fold_key, n_folds)
        uncertainty = Optimizer({"x": Float(0, 1)}, folds.count, **chosen).uncertainty
        chosen["uncertainty"] = Expectation() if n_folds is None else uncertainty
        if chosen.get("reference") is not None:
            chosen["reference"] = [float(weight) for weight in chosen["reference"]]
        problem = TuneProblem(folds, reported, chosen)
        return problem if space is None else problem.with_space(space, given=True)

    def with_space(self, space: Mapping[str, Any] | Space, given: bool = False) -> TuneProblem:
        """The problem with a search space, which stays as it is where nothing is to be searched.

        Raises:
            InvalidInput: the space cannot be searched, or sets the fold.
        """
        found = TuneSpace.of(space)
        if found is None and given:
            raise InvalidInput(
                "A search space has something to search.", space, "Use tune.uniform and others."
            )
        if self.folds.key in space:
            raise InvalidInput(
                f"The searcher itself sets {self.folds.key!r}.",
                list(space),
                "Take it out of the search space, or pass another fold_key.",
            )
        return self if found is None else replace(self, space=found, given=given)

    def with_metric(self, metric: object, mode: object) -> TuneProblem:
        """The problem with metric and mode, where they are not None.

        Raises:
            InvalidInput: one of them is wrong.
        """
        metric, mode = plain((metric, mode))
        if metric is not None and not isinstance(metric, str):
            raise InvalidInput("metric is the name of one score.", metric, "Pass one name.")
        if mode is not None and (not isinstance(mode, str) or mode not in ("min", "max")):
            raise InvalidInput("mode must be 'min' or 'max'.", mode, "Pass one of them.")
        return replace(self, metric=metric or self.metric, mode=mode or self.mode)

    def maker(self) -> partial[Optimizer]:
        """Makes the optimizer, once space and mode are known."""
        assert self.space is not None
        mode: Any = self.mode
        return partial(Optimizer, self.space.space, self.folds.count, mode=mode, **self.settings)

    def refuse_change_to(self, other: TuneProblem, where: str) -> None:
        """Raise ProblemChanged if what is known in both differs."""
        if self.space is not None and other.space is not None:
            other.space.refuse_change(self.space.to_dict(), where)
        names = ("metric", "mode")
        old, new = ({name: getattr(one, name) for name in names} for one in (self, other))
        both = [name for name in names if old[name] is not None and new[name] is not None]
        refuse_changes({n: old[n] for n in both}, {n: new[n] for n in both}, where)

    def to_dict(self) -> dict[str, Any]:
        """Plain-data form; objects in the space are described, not stored."""
        settings = {**self.settings, "uncertainty": self.settings["uncertainty"].to_dict()}
        return {
            "folds": asdict(self.folds),
            "reported": self.reported,
            "settings": settings,
            "space": None if self.space is None else self.space.to_dict(),
            "given": self.given,
            "metric": self.metric,
            "mode": self.mode,
        }

    @staticmethod
    def from_dict(stored: Mapping[str, Any], space: TuneSpace | None) -> TuneProblem:
        """The problem with this plain-data form, on the space, if given, that it describes.

        Raises:
            ProblemChanged: the space is another one.
            InvalidInput: the plain data holds objects, and no space is given.
        """
        if space is not None and stored["space"] is not None:
            space.refuse_change(stored["space"], "the saved state")
        elif stored["space"] is not None:
            space = TuneSpace.from_dict(stored["space"])
        settings = stored["settings"]
        return TuneProblem(
            folds=Folds(**stored["folds"]),
            reported=stored["reported"],
            settings={**settings, "uncertainty": from_dict(settings["uncertainty"])},
            space=space,
            given=stored["given"],
            metric=stored["metric"],
            mode=stored["mode"],
        )
