"""`run` and `run_many` on a real local Ray."""

from __future__ import annotations

import logging
import os
import threading
import time
from html import escape

import numpy as np
import pytest
import ray

import drbqo_ray as dr
from drbqo_ray.errors import (
    InvalidInput,
    JournalError,
    JournalLocked,
    ObjectiveError,
    ProblemChanged,
    RunFailed,
)
from drbqo_ray.problem import Problem
from drbqo_ray.runtime import run as runner
from drbqo_ray.runtime.coordinator import Coordinator
from drbqo_ray.runtime.run import run, run_many
from drbqo_ray.storage.journal import JOURNAL, read_journal
from tests.support.fold_objectives import (
    SPACE,
    Hangs,
    HasData,
    Odd,
    Slow,
    always_raises,
    clock_jumps,
    exits,
    smooth,
    stubborn,
    threads,
)
from tests.support.journal_checks import assert_sound, records_of
from tests.support.local_ray import two_cpus  # noqa: F401

pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.usefixtures("two_cpus"),
]


def quick_run(objective=smooth, size=6, **options):
    options = {"method": "random", "progress": False} | options
    return run(objective, SPACE, 3, n_evaluations=size, **options)


def test_a_parallel_run_uses_its_budget_and_its_journal_tells_it_all(tmp_path):
    result = quick_run(size=16, method="drbqo", storage=tmp_path, name="first", n_initial=6)
    assert result.stopped == "finished"
    assert result.storage == tmp_path / "first"
    assert sorted(o.id for o in result.observations) == list(range(16))
    assert all(o.score == smooth(o.config, o.context, 0) for o in result.observations)
    assert result.recommendation.config in [o.config for o in result.observations]
    frame = result.to_dataframe()
    assert list(frame["config.x"]) == [o.config["x"] for o in result.observations]
    assert (frame["seconds"] >= 0).all()
    assert (frame["attempts"] == 1).all()
    assert_sound(tmp_path / "first")
    assert ray.is_initialized()


@pytest.mark.parametrize("method", ["drbqo", "foldwise"])
def test_a_serial_run_is_the_optimizer_asked_and_told_by_hand(method):
    result = quick_run(size=16, method=method, seed=4, max_in_flight=1)
    optimizer = dr.Optimizer(SPACE, 3, method=method, seed=4)
    for _ in range(16):
        suggestion = optimizer.ask()
        optimizer.tell(suggestion.id, smooth(suggestion.config, suggestion.context, 0))
    assert result.observations == optimizer.observations
    assert result.recommendation == optimizer.recommend()


def test_a_run_stops_when_it_is_sure_and_stays_stopped_until_its_rule_changes(
    tmp_path, caplog, monkeypatch
):
    options = {"method": "drbqo", "n_initial": 3, "storage": tmp_path / "run"}
    with caplog.at_level(logging.INFO):
        first = quick_run(size=60, stop_when="probability > 0.01", **options)
    assert first.stopped == "finished"
    assert first.stop_reason.startswith("sure enough after ")
    assert first.stop_reason in caplog.text
    page = first.report(tmp_path / "report.html").read_text(encoding="utf-8")
    assert escape(first.stop_reason) in page
    assert 10 <= len(first.observations) < 60
    low, high = first.certainty.interval
    assert low < high
    content = (tmp_path / "run" / JOURNAL).read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(runner, "drive", None)
        again = quick_run(size=90, stop_when="probability>0.010", resume=True, **options)
    assert again == first
    assert (tmp_path / "run" / JOURNAL).read_bytes() == content
    total = len(first.observations) + 6
    more = quick_run(size=total, resume=True, **options)
    assert more.stop_reason is None
    assert len(more.observations) == total
    assert more.observations[: len(first.observations)] == first.observations
    assert_sound(tmp_path / "run")


def test_callbacks_and_standard_error_hear_of_everything_and_a_faulty_callback_breaks_nothing(
    caplog, capfd
):
    heard = []

    class Listener:
        def on_ask(self, suggestion):
            heard.append(("ask", suggestion.id))

        def on_observation(self, observation):
            heard.append(("observation", observation.id))
            raise RuntimeError("a faulty listener")

        def on_finish(self, result):
            heard.append(("finish", result.stopped))

    with caplog.at_level(logging.ERROR):
        quick_run(size=4, callbacks=[Listener(), object()], progress=True)
    assert sorted(heard[:-1]) == sorted(
        (kind, i) for kind in ("ask", "observation") for i in range(4)
    )
    assert heard[-1] == ("finish", "finished")
    assert caplog.text.count("RuntimeError: a faulty listener") == 4
    captured = capfd.readouterr()
    assert captured.out == ""
    assert "4/4 done" in captured.err


# Failures of the objective.


def test_values_that_are_no_scores_are_failures_and_never_reach_the_model(tmp_path):
    options = {"max_consecutive_failures": None, "storage": tmp_path / "run"}
    result = quick_run(Odd(), size=40, seed=1, **options)
    failed = [o for o in result.observations if o.status == "failed"]
    good = [o for o in result.observations if o.status == "ok"]
    assert len(failed) > 5
    assert len(good) > 5
    assert all((o.score is None and "score" in o.reason) or "number" in o.reason for o in failed)
    assert {record["cause"] for record in records_of(tmp_path / "run", "fail")} == {"value"}
    assert all(o.score == float(np.float32(o.config["x"])) for o in good)
    low, high = min(o.score for o in good), max(o.score for o in good)
    assert low <= result.recommendation.mean_value <= high + 0.5


def test_a_config_with_a_failing_fold_is_not_recommended_and_says_why():
    result = quick_run(stubborn, size=18, max_consecutive_failures=None)
    failed = [o for o in result.observations if o.status == "failed"]
    assert {o.context for o in failed} == {1}
    assert len(failed) == sum(o.context == 1 for o in result.observations)
    last_line = failed[0].reason.splitlines()[-1]
    assert last_line.endswith(f"fold one breaks at x={failed[0].config['x']:.3f}")
    assert "line" in failed[0].reason
    assert "evaluate_fold" not in failed[0].reason
    assert result.recommendation.config not in [o.config for o in failed]


def test_a_run_whose_every_fold_fails_stops_with_the_first_traceback(tmp_path):
    with pytest.raises(RunFailed, match="5 evaluations in a row failed") as caught:
        quick_run(always_raises, size=50, max_consecutive_failures=5, storage=tmp_path / "run")
    assert "ValueError: no luck at all" in str(caught.value)
    assert 'raise ValueError("no luck at all")' in str(caught.value)
    assert 5 <= len(records_of(tmp_path / "run", "fail")) <= 8
    assert records_of(tmp_path / "run", "finish")[0]["reason"] == "failed"


def test_an_objective_that_exits_fails_that_evaluation_only():
    result = quick_run(exits, size=3)
    assert [o.reason.splitlines()[-1] for o in result.observations] == ["SystemExit: 3"] * 3
    assert result.recommendation is None


def test_a_fold_that_hangs_is_ended_in_time_and_its_slot_used_again(tmp_path):
    result = quick_run(Hangs(0.3), size=8, timeout_seconds=2.0, storage=tmp_path / "run")
    failed = [o for o in result.observations if o.status == "failed"]
    assert failed
    assert {o.id for o in failed} == {o.id for o in result.observations if o.config["x"] < 0.3}
    assert {o.reason for o in failed} == {"timeout: stopped after 2 seconds"}
    took = [record["seconds"] for record in records_of(tmp_path / "run", "fail")]
    assert took == pytest.approx([2.0] * len(failed), rel=0.2)
    assert len(result.observations) == 8


def test_durations_do_not_follow_a_wall_clock_that_is_set_back():
    frame = quick_run(clock_jumps, size=4).to_dataframe()
    assert frame["seconds"].between(0.05, 5.0).all()


# What a fold is given.


@pytest.mark.parametrize("cpus", [1, 2])
def test_numerical_libraries_use_the_cpus_they_were_given(cpus):
    result = quick_run(threads, size=3, resources={"CPU": cpus})
    assert [o.score for o in result.observations] == [float(cpus)] * 3


def test_a_large_array_reaches_the_tasks_without_a_copy_each():
    data = np.ones(47_000_000 // 8)
    before = stored_bytes()
    in_store = []

    class Look:
        def on_ask(self, suggestion):
            in_store.append(stored_bytes() - before)

    result = quick_run(HasData(data), size=8, resources={"CPU": 0.5}, callbacks=[Look()])
    assert [o.status for o in result.observations] == ["ok"] * 8
    assert max(o.score for o in result.observations) < 5_000_000
    assert max(in_store) < 1.2 * data.nbytes
    assert max(in_store) > 0.9 * data.nbytes


def stored_bytes() -> float:
    total = ray.cluster_resources()["object_store_memory"]
    return total - ray.available_resources().get("object_store_memory", 0.0)


def test_an_objective_that_cannot_be_sent_is_refused_and_the_storage_stays_free(tmp_path):
    lock = threading.Lock()
    with pytest.raises(ObjectiveError, match="picklable"):
        quick_run(lambda config, fold, seed: lock.acquire(), storage=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_an_objective_is_found_by_name_and_a_run_without_storage_leaves_no_directory_behind():
    result = quick_run("tests.support.fold_objectives:smooth", size=2)
    assert len(result.observations) == 2
    storage = result.storage
    assert (storage / JOURNAL).exists()
    assert storage.stat().st_mode & 0o777 == 0o700
    del result
    assert not storage.exists()


# Storage.


def test_a_second_run_in_the_same_place_is_refused_and_resuming_a_finished_one_needs_no_ray(
    tmp_path, monkeypatch
):
    first = quick_run(size=5, storage=tmp_path / "run")
    content = (tmp_path / "run" / JOURNAL).read_bytes()
    with pytest.raises(JournalError, match="resume=True"):
        quick_run(size=5, storage=tmp_path / "run")
    with monkeypatch.context() as patch:
        patch.setattr(runner, "drive", None)
        again = quick_run(size=5, storage=tmp_path / "run", resume=True)
    assert again == first
    assert (tmp_path / "run" / JOURNAL).read_bytes() == content
    more = quick_run(size=8, storage=tmp_path / "run", resume=True)
    assert more.observations[:5] == first.observations
    assert len(more.observations) == 8
    assert_sound(tmp_path / "run")


def test_another_problem_is_not_resumed_and_the_difference_is_named(tmp_path):
    space = {"x": dr.Float(0.0, 1.0), "y": dr.Float(1e-3, 1.0, log=True)}
    options = {"n_evaluations": 3, "method": "random", "progress": False}
    options |= {"storage": tmp_path, "name": "run", "resume": True}
    objective = HasData(np.ones(3), "first")
    run(objective, space, 3, **options)
    content = (tmp_path / "run" / JOURNAL).read_bytes()
    changed = {**space, "x": dr.Float(0.0, 2.0)}
    for arguments, more, difference in [
        ((objective, changed, 3), {}, r"space\.x\.high: 1\.0 -> 2\.0"),
        ((objective, space, 4), {}, "contexts: 3 -> 4"),
        ((HasData(np.ones(3), "second"), space, 3), {}, "fingerprint: 'first' -> 'second'"),
        ((objective, space, 3), {"seed": 1}, "seed: 0 -> 1"),
        ((objective, space, 3), {"uncertainty": 2.0}, r"radius: 1\.0 -> 2\.0"),
    ]:
        with pytest.raises(ProblemChanged, match=difference):
            run(*arguments, **options, **more)
    assert (tmp_path / "run" / JOURNAL).read_bytes() == content


def test_a_run_that_another_process_has_open_is_refused_by_name(tmp_path):
    settings = {"method": "random", "uncertainty": 1.0}
    coordinator = Coordinator(tmp_path / "run", Problem.of(SPACE, 3, settings, smooth, "x"), 3, {})
    start = time.monotonic()
    with pytest.raises(JournalLocked, match=f"process {os.getpid()} on host"):
        quick_run(size=3, storage=tmp_path / "run", resume=True)
    assert time.monotonic() - start < 2.0
    coordinator.close()


def test_storage_that_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(JournalError, match="Choose storage you may write to"):
        quick_run(storage=tmp_path / "file" / "run")


def test_options_that_are_not_plain_data_survive_a_resume(tmp_path):
    space = {"shape": dr.Choice([(8, 8), (16,)]), "act": dr.Choice([np.tanh, abs])}
    first = run(first_size, space, 2, n_evaluations=3, storage=tmp_path, name="a", progress=False)
    more = run(
        first_size,
        space,
        2,
        n_evaluations=6,
        storage=tmp_path,
        name="a",
        progress=False,
        resume=True,
    )
    assert more.observations[:3] == first.observations
    assert {type(o.config["shape"]) for o in more.observations} == {tuple}
    assert all(callable(o.config["act"]) for o in more.observations)


def first_size(config, fold, seed):
    return float(config["act"](config["shape"][0]))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": 0}, "n_evaluations is a whole number >= 1"),
        ({"max_in_flight": 0}, "max_in_flight is a whole number >= 1"),
        ({"timeout_seconds": -1}, "timeout_seconds is a positive number"),
        ({"resources": {"CPU": -1}}, "Resources are a dict"),
        ({"resume": True}, "only from storage"),
        ({"storage": "/tmp", "name": "../escape"}, "name of a run"),
        ({"method": "unheard-of"}, "method must be one we know"),
        ({"stop_when": "loss > 1"}, "A stop rule is loss < a or probability > a"),
    ],
)
def test_bad_arguments_are_refused_before_anything_is_made(options, message):
    with pytest.raises(InvalidInput, match=message):
        quick_run(**options)


# Many runs.


def test_many_runs_share_the_slots_and_each_is_the_run_it_would_be_alone(tmp_path):
    options = {"methods": ["random", "drbqo"], "uncertainties": [0.5, dr.CVaR(0.5)], "seeds": [3]}
    many = run_many(
        smooth, SPACE, 3, n_evaluations=8, n_initial=5, storage=tmp_path, progress=False, **options
    )
    names = [f"{m}_{u}_seed-3" for m in ("random", "drbqo") for u in ("radius-0.5", "cvar-0.5")]
    assert [result.name for result in many] == names
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names)
    alone = run(
        smooth,
        SPACE,
        3,
        n_evaluations=8,
        n_initial=5,
        method="drbqo",
        seed=3,
        uncertainty=dr.CVaR(0.5),
        max_in_flight=1,
        progress=False,
    )
    assert many[3].observations == alone.observations
    assert many[3].recommendation == alone.recommendation
    frame = many.to_dataframe()
    assert list(frame["method"]) == ["random", "random", "drbqo", "drbqo"]
    assert list(frame["evaluations"]) == [8] * 4
    again = run_many(
        smooth,
        SPACE,
        3,
        n_evaluations=8,
        n_initial=5,
        storage=tmp_path,
        progress=False,
        resume=True,
        **options,
    )
    assert list(again) == list(many)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"seeds": [1, 1]}, "may occur once"), ({"stop_when": "soon"}, "A stop rule compares")],
)
def test_many_runs_with_bad_arguments_are_refused(tmp_path, options, message):
    with pytest.raises(InvalidInput, match=message):
        run_many(smooth, SPACE, 3, n_evaluations=2, storage=tmp_path / "runs", **options)
    assert not (tmp_path / "runs").exists()


def test_the_journal_holds_only_known_fields(tmp_path):
    options = {"method": "drbqo", "n_initial": 2, "max_in_flight": 1}
    quick_run(Slow(0.0), size=4, storage=tmp_path / "run", **options)
    fields = {record.kind: set(record.data) for record in read_journal(tmp_path / "run")}
    assert fields == {
        "header": {"format", "run", "problem"},
        "session": {
            "at_deadline",
            "cost_aware",
            "time_budget",
            "at",
            "n_evaluations",
            "resources",
            "max_in_flight",
            "timeout_seconds",
            "max_retries",
            "max_consecutive_failures",
            "stop_when",
            "python",
            "numpy",
        },
        "fit": {"fit", "told"},
        "ask": {"id", "config", "context", "seed", "told", "batch", "at"},
        "tell": {"id", "score", "seconds", "at", "node", "attempts"},
        "finish": {"reason", "at"},
    }


def test_numbers_of_numpy_may_be_passed_for_every_setting(tmp_path):
    plain = {
        "n_evaluations": 6,
        "seed": 3,
        "n_initial": 4,
        "uncertainty": 0.5,
        "max_in_flight": 1,
        "timeout_seconds": 60.0,
        "max_retries": 1,
        "max_consecutive_failures": 5,
    }
    numpy = {name: np.array([value])[0] for name, value in plain.items()}
    options = {"method": "drbqo", "progress": False, "resume": True}
    place = {"storage": tmp_path, "name": "run"}
    given = run(smooth, SPACE, np.int64(3), **options, **place, **numpy)
    assert given.observations == run(smooth, SPACE, 3, **options, **place, **plain).observations
    many = {name: numpy[name] for name in ("n_evaluations", "n_initial", "max_in_flight")}
    seeds = np.array([3, 4])
    found = run_many(
        smooth,
        SPACE,
        np.int8(3),
        seeds=seeds,
        methods=np.array(["drbqo"]),
        uncertainties=np.array([0.5]),
        progress=False,
        **many,
    )
    assert found[0].observations == given.observations
    assert [result.name for result in found] == [f"drbqo_radius-0.5_seed-{k}" for k in (3, 4)]
