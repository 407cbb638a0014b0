"""What a stored search keeps of its fold fits, and how they travel."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.svm import SVC

from drbqo_ray.search_cv.fold_fit import FoldFit
from drbqo_ray.search_cv.ray_search import pickled
from drbqo_ray.search_cv.stored_search import append_fit, fingerprint_of, read_fits
from tests.support.quick_search import X


def test_fold_fits_come_back_from_their_file_even_if_the_last_line_is_cut(tmp_path):
    path = tmp_path / "fits.jsonl"
    assert read_fits(path) == {}
    good = FoldFit(0.5, {"score": 0.5}, {"score": 0.75}, 0.25, 0.125)
    bad = FoldFit(None, {}, {}, 0.5, 0.0, "ValueError: no")
    append_fit(path, 3, bad)
    append_fit(path, 4, good)
    append_fit(path, 3, good)
    assert read_fits(path) == {3: good, 4: good}
    path.write_bytes(path.read_bytes()[:-7])
    append_fit(path, 5, bad)
    assert read_fits(path) == {3: bad, 4: good, 5: bad}


class Unpicklable(Exception):
    def __reduce__(self):
        raise TypeError("not me")


class NotUnpicklable(Exception):
    def __init__(self, first, second):
        super().__init__(first)


@pytest.mark.parametrize("error", [Unpicklable("no"), NotUnpicklable("one", "two")])
def test_an_exception_that_cannot_travel_is_left_behind_with_its_text(error):
    fit = FoldFit(None, error="text", exception=error)
    back = pickle.loads(pickled(fit))
    assert (back.exception, back.error) == (None, "text")
    fine = pickle.loads(pickled(FoldFit(None, exception=ArithmeticError("yes"))))
    assert isinstance(fine.exception, ArithmeticError)


def test_the_fingerprint_knows_data_splits_and_estimator():
    base = fingerprint_of(SVC(), X, [(np.arange(3), np.arange(4))])
    assert base == fingerprint_of(SVC(), X.copy(), [(np.arange(3), np.arange(4))])
    assert base != fingerprint_of(SVC(C=2.0), X, [(np.arange(3), np.arange(4))])
    assert base != fingerprint_of(SVC(), X + 1e-9, [(np.arange(3), np.arange(4))])
    assert base != fingerprint_of(SVC(), X, [(np.arange(3), np.arange(5))])
    assert len(fingerprint_of(lambda x: x, X)) == len(base)
