"""Linear algebra in one thread: in every call of ours, and never in the user's own code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import warnings
from dataclasses import replace

import numpy as np
import pytest

import drbqo_ray as dr
from drbqo_ray.errors import InvalidInput
from drbqo_ray.experiments import synthetic, theory
from drbqo_ray.experiments.cell import cells_of, run_cell
from drbqo_ray.experiments.presets import find_preset
from drbqo_ray.experiments.synthetic import SURFACES
from drbqo_ray.plots import facts_of
from drbqo_ray.runtime.background import BackgroundFit
from drbqo_ray.search_cv import RobustSearchCV
from drbqo_ray.threads import Library, one_thread
from tests.support import quick_search, tune_trials
from tests.support.local_ray import ROOT
from tests.support.optimizer_problems import SPACE, spend
from tests.support.thread_counts import allow, allowed, watch

THREADS = 3


@pytest.fixture(autouse=True)
def many_threads():
    with allow(THREADS):
        yield
        assert allowed() == {THREADS}, "left as it was found"


def told(count: int = 12, **options) -> dr.Optimizer:
    opt = dr.Optimizer(SPACE, 3, n_initial=3, **{"method": "foldwise", **options})
    spend(opt, count)
    return opt


class TestOneThread:
    def test_inside_there_is_one_thread_and_outside_what_was_there(self):
        with one_thread:
            assert allowed() == {1}
        assert allowed() == {THREADS}

    def test_inside_itself_it_changes_nothing(self):
        with one_thread:
            with one_thread:
                pass
            assert allowed() == {1}

    def test_an_error_leaves_the_threads_as_they_were(self):
        with pytest.raises(ZeroDivisionError), one_thread:
            raise ZeroDivisionError
        assert allowed() == {THREADS}

    def test_the_last_of_several_threads_to_leave_puts_the_number_back(self):
        here, there = threading.Event(), threading.Event()

        def stay():
            with one_thread:
                here.set()
                there.wait(10)

        other = threading.Thread(target=stay)
        with one_thread:
            other.start()
            assert here.wait(10)
        assert allowed() == {1}, "the other thread is still inside"
        there.set()
        other.join()
        assert allowed() == {THREADS}

    def test_many_threads_in_and_out_leave_the_number_alone(self):
        inside = []

        def in_and_out():
            for _ in range(200):
                with one_thread, one_thread:
                    inside.append(allowed())

        crowd = [threading.Thread(target=in_and_out) for _ in range(4)]
        for thread in crowd:
            thread.start()
        for thread in crowd:
            thread.join()
        assert len(inside) == 800
        assert all(numbers == {1} for numbers in inside)

    def test_a_forked_process_forgets_the_threads_it_does_not_have(self):
        here, there = threading.Event(), threading.Event()

        def stay():
            with one_thread:
                here.set()
                there.wait(10)

        other = threading.Thread(target=stay)
        other.start()
        assert here.wait(10)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12: threads and fork
            child = os.fork()
        if child == 0:
            right = allowed() == {THREADS}
            with one_thread:
                right &= allowed() == {1}
            os._exit(0 if right and allowed() == {THREADS} else 1)
        there.set()
        other.join()
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

    def test_libraries_with_a_number_for_each_thread_are_limited_in_each(self, monkeypatch):
        own = threading.local()
        library = Library(
            lambda: getattr(own, "number", 4), lambda n: setattr(own, "number", n), per_thread=True
        )
        monkeypatch.setattr("drbqo_ray.threads._libraries", lambda: [library])
        seen = []

        def look():
            with one_thread:
                seen.append(library.get())
            seen.append(library.get())

        with one_thread:
            other = threading.Thread(target=look)
            other.start()
            other.join()
            look()
        assert seen == [1, 4, 1, 1]
        assert library.get() == 4

    def test_the_libraries_are_looked_for_once(self, monkeypatch):
        with one_thread:
            pass
        monkeypatch.setattr("threadpoolctl.ThreadpoolController", lambda: 1 / 0)
        with one_thread:
            assert allowed() == {1}


CALLS = {
    "ask": lambda opt: opt.ask(),
    "ask for several": lambda opt: opt.ask(4),
    "recommend": lambda opt: opt.recommend(),
    "certainty": lambda opt: opt.certainty(),
    "predict": lambda opt: opt.predict([opt.observations[0].config]),
    "completed_scores": lambda opt: opt.completed_scores([opt.observations[0].config]),
    "stop_reason": lambda opt: opt.stop_reason(),
}


class TestEveryWayIn:
    @pytest.mark.parametrize("method", ["foldwise", "bqo-ei"])
    @pytest.mark.parametrize("call", CALLS)
    def test_the_optimizer(self, monkeypatch, method, call):
        opt = told(method=method, stop_when="loss < 0.001")
        seen = watch(monkeypatch)
        CALLS[call](opt)
        assert seen
        assert all(numbers == {1} for numbers in seen)
        assert allowed() == {THREADS}

    def test_a_call_that_fails(self):
        opt = told()
        with pytest.raises(InvalidInput):
            opt.completed_scores([{"a": 0.123, "b": 1}])
        assert allowed() == {THREADS}

    def test_a_fit_in_a_thread_of_its_own(self, monkeypatch):
        monkeypatch.setattr("drbqo_ray.runtime.background.SMALL", 4)
        opt, fits = told(), BackgroundFit()
        opt.ask()
        spend(opt, 1)
        seen = watch(monkeypatch)
        fits.follow(opt.model, in_background=True)
        assert fits._thread is not None
        fits._thread.join()
        assert seen
        assert all(numbers == {1} for numbers in seen)

    def test_the_search_of_scikit_learn(self, monkeypatch):
        seen, own = watch(monkeypatch), []

        def score(estimator, X, y):
            own.append(allowed())
            return float(estimator.score(X, y))

        RobustSearchCV(
            quick_search.SVC(),
            quick_search.SPACE,
            cv=3,
            n_evaluations=10,
            scoring=score,
            random_state=0,
            n_jobs=1,
        ).fit(quick_search.X, quick_search.Y)
        assert seen
        assert all(numbers == {1} for numbers in seen)
        assert all(numbers == {THREADS} for numbers in own), "the user's code has its own threads"

    def test_the_searcher_of_tune(self, monkeypatch):
        seen = watch(monkeypatch)
        search = tune_trials.ready()
        tune_trials.run(search, map(str, range(12)))
        search.recommend()
        assert seen
        assert all(numbers == {1} for numbers in seen)

    @pytest.mark.parametrize("method", ["foldwise", "drbqo"])
    def test_reports_and_plots(self, monkeypatch, method):
        opt = told(method=method)
        seen = watch(monkeypatch)
        facts_of(opt)
        assert seen
        assert all(numbers == {1} for numbers in seen)

    def test_cells_of_experiments(self, monkeypatch, tmp_path):
        sizes = {"n_initial": 4, "horizon": 2, "n_seeds": 1, "methods": ("drbqo",)}
        seen = watch(monkeypatch)
        run_cell(cells_of(replace(find_preset("logistic", "small"), **sizes))[0], tmp_path)
        assert seen
        assert all(numbers == {1} for numbers in seen)

    def test_the_other_experiments(self, monkeypatch):
        seen = []
        monkeypatch.setattr(theory, "finite_problem", lambda: seen.append(allowed()) or 1 / 0)
        monkeypatch.setattr(synthetic, "_search", lambda *_: seen.append(allowed()) or 1 / 0)
        for job in (
            lambda: theory.write_curves(None, 1, 1),
            lambda: synthetic.find_optimum(SURFACES["logistic"], 1.0),
        ):
            with pytest.raises(ZeroDivisionError):
                job()
        assert seen == [{1}, {1}]

    def test_a_set_that_factorizes_a_matrix(self, monkeypatch):
        seen = []
        monkeypatch.setattr(
            "drbqo_ray.core.sets.mmd.cho_factor", lambda K: seen.append(allowed()) or (K, False)
        )
        dr.MMDBall(0.3, np.eye(4))
        assert seen == [{1}]


SCRIPT = """
import json, sys
import drbqo_ray as dr
names = "abc"
opt = dr.Optimizer({name: dr.Float(0.0, 1.0) for name in names}, 10, method="foldwise")
asked = []
for turn in range(40):
    s = opt.ask()
    asked.append([s.config, s.context])
    opt.tell(s.id, -sum((s.config[k] - 0.3) ** 2 for k in names) + 0.05 * ((7 * s.context) % 5))
print(json.dumps(asked))
"""


def asks_with(threads: int | None) -> list:
    """What a process asks whose libraries may use so many threads; None: as many as they like."""
    variables = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    kept = {name: value for name, value in os.environ.items() if name not in variables}
    own = {} if threads is None else dict.fromkeys(variables, str(threads))
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env=kept | own | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def test_what_is_asked_does_not_depend_on_the_number_of_threads():
    one = asks_with(1)
    assert asks_with(2) == one
    assert asks_with(None) == one
