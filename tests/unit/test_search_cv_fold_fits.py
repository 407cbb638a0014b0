"""What is kept of a fold fit, and how it travels."""

from __future__ import annotations

import json
import math
import pickle

import numpy as np
import pytest
from sklearn.svm import SVC

from drbqo_ray.records import Failed, Observation, Scored, Suggestion
from drbqo_ray.search_cv.fold_fit import FoldFit, SentException
from drbqo_ray.search_cv.search import fingerprint_of, old_fits
from tests.support.quick_search import X

ASKED = Suggestion(3, {"C": 1.0}, 2, seed=0)


@pytest.mark.parametrize(
    "fit",
    [
        FoldFit(0.5, {"a": 0.5, "b": 1 / 3}, {"a": 0.75}, 0.25, 0.125),
        FoldFit(0.5, {"a": 0.5, "b": -math.inf}, {"a": math.nan}, math.nan, 0.0, "b went wrong"),
        FoldFit(None, {"b": 1.0}, {}, 0.5, 0.0, "ValueError: no"),
    ],
)
@pytest.mark.parametrize("counted", [True, False])
def test_a_fold_fit_comes_back_from_the_info_of_its_outcome(fit, counted):
    if fit.score is None and not counted:
        told = Failed(fit.error, fit.info)
    else:
        told = Scored(-1.0 if fit.score is None else fit.score, fit.info)
    seen = Observation.of(ASKED, told)
    again = Observation.of(ASKED, Scored(0.0, json.loads(json.dumps(seen.info)))).info
    assert again == seen.info
    assert repr(FoldFit.of(seen, "a")) == repr(fit)


def test_an_outcome_without_info_has_a_score_or_a_reason():
    bare = FoldFit.of(Observation.of(ASKED, 0.5), "a")
    assert (bare.score, bare.test_scores, bare.error) == (0.5, {"a": 0.5}, None)
    lost = FoldFit.of(Observation.failure(ASKED, "lost", "lost: gone"), "a")
    assert (lost.score, lost.test_scores, lost.error) == (None, {}, "lost: gone")


def test_a_long_error_beside_a_score_loses_its_beginning():
    fit = FoldFit(0.5, {"a": 0.5}, error="x" * 200_000 + "the end")
    seen = Observation.of(ASKED, Scored(0.5, fit.info))
    assert seen.status == "ok"
    assert FoldFit.of(seen, "a").error.endswith("xthe end")


def test_fold_fits_of_older_versions_are_read_even_if_a_line_is_cut(tmp_path):
    path = tmp_path / "fold_fits.jsonl"
    assert old_fits(path) == {}
    good = {"score": 0.5, "test_scores": {"score": 0.5}, "train_scores": {"score": 0.75}}
    good |= {"fit_time": 0.25, "score_time": 0.125, "error": None}
    bad = {"score": None, "test_scores": {}, "train_scores": {}, "fit_time": 0.5}
    bad |= {"score_time": 0.0, "error": "ValueError: no"}
    lines = [{"id": 3, **bad}, {"id": 4, **good}, {"id": 3, **good}]
    text = "".join("\n" + json.dumps(line) for line in lines)
    path.write_text(text)
    assert old_fits(path) == {3: FoldFit(**good), 4: FoldFit(**good)}
    path.write_text(text[:-7] + "\n" + json.dumps({"id": 5, **bad}))
    assert old_fits(path) == {3: FoldFit(**bad), 4: FoldFit(**good), 5: FoldFit(**bad)}


class Unpicklable(Exception):
    def __reduce__(self):
        raise TypeError("not me")


class NotUnpicklable(Exception):
    def __reduce__(self):
        return int, ("not a number",)


@pytest.mark.parametrize("error", [Unpicklable("no"), NotUnpicklable("one")])
def test_an_exception_that_cannot_travel_is_left_behind_with_its_text(error):
    sent = SentException(error, "text")
    assert sent.original() is error
    back = pickle.loads(pickle.dumps(sent))
    assert back.original() is None
    assert back._text == "text"


def test_an_exception_that_travels_is_opened_only_at_the_end():
    sent = pickle.dumps(SentException(ArithmeticError("yes"), "its traceback"))
    passed_on = pickle.loads(pickle.dumps(pickle.loads(sent)))
    assert passed_on._error is None
    fine = passed_on.original()
    assert isinstance(fine, ArithmeticError)
    assert fine.__notes__ == ["Raised on a worker:\nits traceback"]
    assert passed_on.original() is fine


def test_the_fingerprint_knows_data_splits_and_estimator():
    base = fingerprint_of(SVC(), X, [(np.arange(3), np.arange(4))])
    assert base == fingerprint_of(SVC(), X.copy(), [(np.arange(3), np.arange(4))])
    assert base != fingerprint_of(SVC(C=2.0), X, [(np.arange(3), np.arange(4))])
    assert base != fingerprint_of(SVC(), X + 1e-9, [(np.arange(3), np.arange(4))])
    assert base != fingerprint_of(SVC(), X, [(np.arange(3), np.arange(5))])
    assert len(fingerprint_of(lambda x: x, X)) == len(base)
