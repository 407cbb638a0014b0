"""The judgment of a run that stands still, kept beside its journal so that it is made once.

To recommend takes a fit of the model and to say how sure that is takes many draws: seconds for a
long run. The file `judgment.json` keeps both, with the length and the SHA-256 of the very journal
they were made from. It counts only for a journal with these bytes and is never needed: whatever is
wrong with it, the judgment is made again. The journal stays the only state of a run.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from drbqo_ray.core.surrogate import Fit
from drbqo_ray.errors import InvalidInput
from drbqo_ray.optimizer.certainty import Certainty, Forecast
from drbqo_ray.optimizer.optimizer import Optimizer
from drbqo_ray.problem import Problem
from drbqo_ray.records import Recommendation
from drbqo_ray.storage.journal import JOURNAL
from drbqo_ray.storage.stored_run import (
    ReplayedRun,
    foresee,
    how_sure,
    read_fit,
    read_run,
    recommend,
)
from drbqo_ray.types import check_plain

JUDGMENT = "judgment.json"
FORMAT = 2
"""Another number whenever the same journal is judged otherwise, or the file looks otherwise."""
LARGEST_FILE = 1 << 24


@dataclass(frozen=True)
class Judgment:
    """What a run has come to.

    Attributes:
        recommendation: the best config, None when none can be recommended.
        certainty: how sure it is, None without a recommendation.
        forecast: what to expect of it in a new context, None without one or with one context only.
        fit: the hyperparameters it was judged by, None when they are not known.
    """

    recommendation: Recommendation | None
    certainty: Certainty | None
    fit: Fit | None = None
    forecast: Forecast | None = None


@dataclass(frozen=True)
class JournalMark:
    """The bytes of a journal: their number and their SHA-256."""

    size: int
    sha256: str

    @staticmethod
    def of(directory: Path) -> JournalMark | None:
        """The mark of the journal in a directory; None when it cannot be read."""
        try:
            with open(directory / JOURNAL, "rb") as file:
                digest = hashlib.file_digest(file, "sha256")
                return JournalMark(file.tell(), digest.hexdigest())
        except OSError:
            return None


def fitted_run(directory: Path) -> tuple[ReplayedRun, Judgment | None]:
    """The run in a directory and the judgment that is kept of it, None without one; nothing is
    locked or changed. Its model has the fit of that judgment, which it would have to make else."""
    before = JournalMark.of(directory)
    run = read_run(directory)
    kept = read_judgment(directory, run.problem, before)
    if kept is not None and kept.fit is not None:
        run.optimizer.last_fit = kept.fit
    return run, kept


def judged_run(directory: Path) -> tuple[ReplayedRun, Judgment]:
    """The run in a directory and its judgment. A new one is kept when the run stands still and the
    directory can be written to."""
    before = JournalMark.of(directory)
    run, kept = fitted_run(directory)
    if kept is None:
        kept = judge(run.optimizer)
        if run.stopped is not None:
            keep_judgment(directory, kept, run.problem, before)
    return run, kept


def judge(optimizer: Optimizer) -> Judgment:
    """The judgment of a search as it stands, made anew; later asks do not depend on it."""
    found = recommend(optimizer)
    if found is None:
        return Judgment(None, None)
    fit, _ = optimizer.model.current()
    return Judgment(found, how_sure(optimizer), fit, foresee(optimizer))


def keep_judgment(
    directory: Path, found: Judgment, problem: Problem, mark: JournalMark | None = None
) -> None:
    """Keep a judgment of the journal with this mark, by default of the journal as it is now.

    It saves time and nothing else: where it cannot be written, it is not.
    """
    mark = JournalMark.of(directory) if mark is None else mark
    if mark is None:
        return
    name = directory / f".{JUDGMENT}.{secrets.token_hex(4)}"
    try:
        plain = {"format": FORMAT, "journal": asdict(mark), **_plain(found, problem)}
        check_plain(plain)
        handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(handle, "w", encoding="ascii") as file:
            json.dump(plain, file, allow_nan=False)
        os.replace(name, directory / JUDGMENT)
    except (OSError, InvalidInput):
        with suppress(OSError):
            os.unlink(name)


def read_judgment(
    directory: Path, problem: Problem, mark: JournalMark | None = None
) -> Judgment | None:
    """The judgment that is kept for the journal as it is now; None when there is none for it."""
    try:
        fd = os.open(directory / JUDGMENT, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(fd, "rb") as file:
            plain = json.loads(file.read(LARGEST_FILE))
        if plain["format"] != FORMAT:
            return None
        if plain["journal"]["size"] != os.stat(directory / JOURNAL).st_size:
            return None
        mark = JournalMark.of(directory) if mark is None else mark
        if mark is None or plain["journal"] != asdict(mark):
            return None
        return _judgment(plain, problem)
    except (OSError, ValueError, TypeError, KeyError, IndexError, RecursionError):
        return None


def _plain(found: Judgment, problem: Problem) -> dict[str, Any]:
    best, sure, fit = found.recommendation, found.certainty, found.fit
    plain_best = None
    if best is not None:
        plain_best = asdict(best) | {"config": problem.plain_config(best.config)}
    plain_sure = None
    if sure is not None:
        plain_sure = asdict(sure) | {"interval": list(sure.interval)}
    plain_next = None
    if found.forecast is not None:
        plain_next = asdict(found.forecast) | {"interval": list(found.forecast.interval)}
    return {
        "recommendation": plain_best,
        "certainty": plain_sure,
        "forecast": plain_next,
        "fit": None if fit is None else fit.to_dict(),
    }


def _judgment(plain: Mapping[str, Any], problem: Problem) -> Judgment:
    """The judgment with this plain form; an error of any kind when it cannot be one."""
    best, sure, fit = plain["recommendation"], plain["certainty"], plain["fit"]
    if best is None:
        return Judgment(None, None)
    rows = ("weights", "context_means", "context_stds")
    if any(len(best[name]) != problem.n_folds for name in rows):
        raise ValueError("a row has the wrong length")
    recommendation = Recommendation(
        config=problem.space.validate(problem.config(best["config"])),
        robust_value=_number(best["robust_value"]),
        mean_value=_number(best["mean_value"]),
        weights=[_number(value) for value in best["weights"]],
        context_means=[_number(value) for value in best["context_means"]],
        context_stds=[_number(value) for value in best["context_stds"]],
        std=_number(best["std"]),
    )
    if sure is not None:
        low, high = (_number(end) for end in sure["interval"])
        sure = Certainty(
            _number(sure["probability"]),
            (low, high),
            _number(sure["loss"]),
            _number(sure["resolution"]),
            None if sure["rival"] is None else int(sure["rival"]),
        )
    expects = plain["forecast"]
    if expects is not None:
        low, high = (_number(end) for end in expects["interval"])
        level = _number(expects["level"])
        expects = Forecast(_number(expects["expected"]), (low, high), level, int(expects["n"]))
    fit = None if fit is None else read_fit(fit, problem.optimizer().model.n_parameters)
    return Judgment(recommendation, sure, fit, expects)


def _number(value: object) -> float:
    if type(value) not in (int, float) or not math.isfinite(value):  # type: ignore[arg-type]
        raise ValueError("it is no finite number")
    return float(value)  # type: ignore[arg-type]
