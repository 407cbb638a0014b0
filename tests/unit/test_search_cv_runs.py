"""A search as a run: kept and resumed, on every backend that needs no Ray."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile

import numpy as np
import pytest
from sklearn.exceptions import FitFailedWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import SVC

from drbqo_ray.errors import InvalidInput, ProblemChanged
from drbqo_ray.optimizer.optimizer import Optimizer
from drbqo_ray.search_cv.search import OLD_FITS
from drbqo_ray.storage.journal import Journal, read_journal
from tests.support.listening_callback import Listener
from tests.support.picky_estimator import Picky, Refusal
from tests.support.quick_search import GRID, X, Y, search

OLD_NAME = "drbqo_ray.search_cv.stored_search:RemoteFolds"
PIPE = Pipeline([("scale", StandardScaler()), ("svc", SVC())])
STEPS = {"scale": [MinMaxScaler(), "passthrough"], "svc__C": (0.1, np.float64(1.0), 10)}


def records(directory, *kinds):
    return [record.data for record in read_journal(directory) if record.kind in kinds]


def refusing(obstacle, **options):
    return search(Picky(obstacle=str(obstacle)), {"level": [0.5, 0.7]}, n_evaluations=99, **options)


@pytest.fixture
def obstacle(tmp_path):
    path = tmp_path / "obstacle"
    path.touch()
    return path


@pytest.mark.parametrize("backend", [None, "local"])
def test_a_search_is_kept_without_ray_and_goes_on_where_it_stopped(tmp_path, backend):
    kept = {"storage": tmp_path / "run", "backend": backend, "return_train_score": True}
    part = search(PIPE, STEPS, n_evaluations=7, **kept).fit(X, Y)
    assert part.n_evaluations_ == 7
    whole = search(PIPE, STEPS, n_evaluations=99, **kept).fit(X, Y)
    assert whole.n_evaluations_ == 18
    grid = GridSearchCV(PIPE, STEPS, cv=3, return_train_score=True).fit(X, Y)
    for key in ("mean_test_score", "mean_train_score"):
        np.testing.assert_array_equal(whole.cv_results_[key], grid.cv_results_[key])
    assert (whole.cv_results_["mean_fit_time"] > 0).all()
    assert {type(params["svc__C"]) for params in whole.cv_results_["params"]} == {
        float,
        np.float64,
        int,
    }
    assert all(params["scale"] in STEPS["scale"] for params in whole.cv_results_["params"])
    told = records(tmp_path / "run", "tell")
    assert [line["id"] for line in told] == list(range(18))
    with pytest.raises(ProblemChanged, match="fingerprint"):
        search(PIPE, STEPS, **kept).fit(X + 1e-9, Y)


def test_a_kept_search_is_the_same_as_one_that_is_not(tmp_path):
    free, kept = (
        search(method="foldwise", n_evaluations=20, storage=storage, random_state=3).fit(X, Y)
        for storage in (None, tmp_path / "run")
    )
    assert free.optimizer_.observations == kept.optimizer_.observations
    for key, column in free.cv_results_.items():
        if "time" not in key:
            np.testing.assert_array_equal(column, kept.cv_results_[key], err_msg=key)
    again = search(method="foldwise", n_evaluations=20, storage=tmp_path / "run", random_state=3)
    again.fit(X, Y)
    for key, column in kept.cv_results_.items():
        np.testing.assert_array_equal(column, again.cv_results_[key], err_msg=key)


def test_a_search_in_storage_never_loads_ray_unless_told(tmp_path):
    code = (
        "import sys\n"
        "from sklearn.svm import SVC\n"
        "from drbqo_ray.search_cv import RobustSearchCV\n"
        "s = RobustSearchCV(SVC(), {'C': [1.0, 2.0]}, cv=2, n_evaluations=3,\n"
        "    storage=sys.argv[1], backend='local')\n"
        "s.fit([[0.0], [1.0], [2.0], [3.0]], [0, 1, 0, 1])\n"
        "assert 'ray' not in sys.modules and 'torch' not in sys.modules\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "run")]
    subprocess.run(command, check=True, timeout=120)


@pytest.mark.parametrize("backend", [None, "local"])
def test_a_fold_that_is_to_be_raised_is_not_recorded_and_trained_again(tmp_path, obstacle, backend):
    picky = refusing(obstacle, storage=tmp_path / "run", backend=backend)
    with pytest.raises(Refusal, match="in the way") as caught:
        picky.fit(X, Y)
    assert bool(getattr(caught.value, "__notes__", [])) == (backend == "local")
    assert records(tmp_path / "run", "fail") == []
    assert len(records(tmp_path / "run", "ask")) < 6
    obstacle.unlink()
    picky.fit(X, Y)
    np.testing.assert_allclose(picky.cv_results_["mean_test_score"], [0.5, 0.7])
    assert picky.best_params_ == {"level": 0.7}
    assert [line["id"] for line in records(tmp_path / "run", "ask")] == list(range(6))


@pytest.mark.parametrize("error_score", [0.25, np.nan])
def test_a_failed_fold_is_kept_with_its_times_and_its_text(tmp_path, obstacle, error_score):
    picky = refusing(obstacle, storage=tmp_path / "run", error_score=error_score)
    tables = []
    for _ in range(2):  # the second time nothing is trained
        with pytest.warns(FitFailedWarning, match=r"3 of 6 (.|\n)*in the way"):
            tables.append(picky.fit(X, Y).cv_results_)
    np.testing.assert_array_equal(tables[0]["mean_test_score"], [0.5, error_score])
    for key, column in tables[0].items():
        np.testing.assert_array_equal(column, tables[1][key], err_msg=key)
    kind = "fail" if np.isnan(error_score) else "tell"
    assert sum(line["info"].get("failed", False) for line in records(tmp_path / "run", kind)) == 3


def test_failures_that_the_caller_is_told_are_not_logged_too(obstacle, caplog):
    with pytest.warns(FitFailedWarning):
        refusing(obstacle, error_score=np.nan).fit(X, Y)
    with pytest.raises(Refusal):
        refusing(obstacle).fit(X, Y)
    assert caplog.records == []


# searches that the first versions kept: no info in the journal, and a file beside it


def made_old(source, target, lost=()):
    """Copy a run as the first versions would have kept it, without the file entries `lost`."""
    header, *rest = read_journal(source)
    assert header.data["problem"]["objective"]["name"] == OLD_NAME
    with Journal.create(target, header.data["problem"]) as journal:
        for record in rest:
            data = {key: value for key, value in record.data.items() if key != "info"}
            journal.append(record.kind, data)
    with (target / OLD_FITS).open("w") as file:
        for record in rest:
            if record.kind in ("tell", "fail") and record.data["id"] not in lost:
                info = dict(record.data["info"])
                failed = info.pop("failed", False)
                line = {"id": record.data["id"], "train_scores": {}, "error": None} | info
                line["score"] = None if failed else record.data["score"]
                file.write("\n" + json.dumps(line))


def test_a_search_of_an_older_version_goes_on_with_its_times(tmp_path):
    options = {"return_train_score": True, "scoring": ["accuracy", "f1_macro"], "refit": "accuracy"}
    search(SVC(), GRID, n_evaluations=9, storage=tmp_path / "new", **options).fit(X, Y)
    made_old(tmp_path / "new", tmp_path / "old")
    new, old = (
        search(SVC(), GRID, n_evaluations=9, storage=tmp_path / name, **options).fit(X, Y)
        for name in ("new", "old")
    )
    for key, column in new.cv_results_.items():
        np.testing.assert_array_equal(column, old.cv_results_[key], err_msg=key)
    whole = search(SVC(), GRID, n_evaluations=99, storage=tmp_path / "old", **options).fit(X, Y)
    assert whole.n_evaluations_ == 24
    assert np.isfinite(whole.cv_results_["mean_fit_time"]).all()
    assert np.isfinite(whole.cv_results_["mean_train_f1_macro"]).all()


def test_a_fold_of_an_older_version_whose_entry_was_lost_keeps_its_score(tmp_path):
    ours = search(SVC(), {"C": [1.0, 2.0]}, n_evaluations=99, storage=tmp_path / "new").fit(X, Y)
    made_old(tmp_path / "new", tmp_path / "old", lost=range(6))
    old = search(SVC(), {"C": [1.0, 2.0]}, n_evaluations=99, storage=tmp_path / "old").fit(X, Y)
    for key, column in ours.cv_results_.items():
        if "time" not in key:
            np.testing.assert_array_equal(column, old.cv_results_[key], err_msg=key)
    assert np.isnan(old.cv_results_["mean_fit_time"]).all()


def test_a_failure_that_an_older_version_recorded_is_trained_again(tmp_path, obstacle):
    lenient = refusing(obstacle, storage=tmp_path / "new", error_score=np.nan)
    with pytest.warns(FitFailedWarning):
        lenient.fit(X, Y)
    made_old(tmp_path / "new", tmp_path / "old")
    strict = refusing(obstacle, storage=tmp_path / "strict").set_params(n_evaluations=1)
    strict.fit(X, Y)
    header = next(read_journal(tmp_path / "strict")).data["problem"]
    journal = Journal.create(tmp_path / "mixed", header)  # strict, with failures on record
    with journal:
        for record in list(read_journal(tmp_path / "old"))[1:]:
            journal.append(record.kind, record.data)
    (tmp_path / "mixed" / OLD_FITS).write_text((tmp_path / "old" / OLD_FITS).read_text())
    strict.set_params(n_evaluations=99, storage=tmp_path / "mixed")
    with pytest.raises(Refusal):
        strict.fit(X, Y)
    obstacle.unlink()
    strict.fit(X, Y)
    np.testing.assert_allclose(strict.cv_results_["mean_test_score"], [0.5, 0.7])
    assert all(seen.status == "ok" for seen in strict.optimizer_.observations)


# where, and how it ends


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({"backend": "dask"}, "The backend is one of"),
        ({"backend": 1}, "The backend is one of"),
        ({"backend": "inline", "n_jobs": 2}, "One fold at a time"),
        ({"backend": "inline", "n_jobs": -1}, "One fold at a time"),
    ],
)
def test_a_backend_that_cannot_be_is_refused(options, rule):
    with pytest.raises(InvalidInput, match=rule):
        search(**options).fit(X, Y)


def test_local_processes_train_several_folds_at_a_time():
    ours = search(SVC(), GRID, n_evaluations=99, n_jobs=2, backend="local", uncertainty=0)
    ours.fit(X, Y)
    grid = GridSearchCV(SVC(), GRID, cv=3).fit(X, Y)
    key = "mean_test_score"
    np.testing.assert_array_equal(ours.cv_results_[key], grid.cv_results_[key])
    assert ours.best_params_ == grid.best_params_


def test_what_cannot_be_sent_to_a_process_is_refused_with_a_cure():
    with pytest.raises(InvalidInput, match=r"picklable.*n_jobs=1"):
        search(scoring=lambda *_, file=sys.stdout.buffer: 1.0, backend="local").fit(X, Y)


class Interrupting(Picky):
    """Is trained until somebody presses Ctrl-C, which happens at once."""

    def fit(self, X, y):
        signal.raise_signal(signal.SIGINT)
        raise AssertionError("the signal came too late")


@pytest.mark.parametrize(
    ("estimator", "error"), [(Interrupting(), KeyboardInterrupt), (Picky(0.7, __file__), Refusal)]
)
def test_a_search_that_does_not_end_well_leaves_nothing(tmp_path, monkeypatch, estimator, error):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(error):
        search(estimator, {"level": [0.7]}).fit(X, Y)
    assert list(tmp_path.iterdir()) == []
    assert signal.getsignal(signal.SIGINT) is before
    search().fit(X, Y)
    assert list(tmp_path.iterdir()) == []


class Breaks(Listener):
    """Raises when the second fold begins or ends."""

    def __init__(self, what):
        super().__init__()
        self.what = what

    def _hear(self, what, estimator, context):
        super()._hear(what, estimator, context)
        name = "candidate-split-evaluation"
        if what == self.what and self.heard.count((what, name)) == 2:
            raise ArithmeticError("said by a callback")


@pytest.mark.parametrize(
    ("what", "backend"), [("begin", None), ("end", None), ("begin", "local"), ("end", "local")]
)
def test_what_a_callback_raises_ends_the_search(what, backend):
    pytest.importorskip("sklearn.callback", reason="callbacks came with scikit-learn 1.9")
    breaks = Breaks(what)
    with pytest.raises(ArithmeticError, match="said by a callback"):
        search(SVC(), GRID, n_evaluations=6, backend=backend).set_callbacks(breaks).fit(X, Y)
    assert breaks.heard.count((what, "candidate-split-evaluation")) == 2
    assert breaks.heard[-1] == ("teardown", "fit")


def test_a_quiet_search_spends_no_time_on_an_answer_that_nobody_reads(monkeypatch):
    def asked(optimizer):
        raise AssertionError("how sure it is takes longer than many a fold")

    monkeypatch.setattr(Optimizer, "certainty", asked)
    assert search(method="foldwise").fit(X, Y).n_evaluations_ == 8
