"""Trackers against the real libraries, offline, with files for back ends."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

import drbqo_ray as dr
from drbqo_ray.errors import InvalidInput
from drbqo_ray.records import Observation, Suggestion
from drbqo_ray.runtime.result import Result
from drbqo_ray.trackers import Tracker, load
from tests.support.injections import PAYLOADS

pytestmark = pytest.mark.filterwarnings("default")  # the libraries' own affair

SPACE = {"x": dr.Float(0, 1), "kind": dr.Choice(["a", "b"])}


def score(config, fold, seed) -> float:
    if fold == 1 and config["kind"] == "b":
        raise ValueError("no fold 1 of kind b")
    return config["x"] + 0.1 * fold


def tracked(tracker: Tracker, folder: Path, n: int = 9) -> Result:
    """A run with a tracker; what a callback raises would only be logged, so it is caught here."""
    raised: list[BaseException] = []

    class Strict:
        def __getattr__(self, name):
            method = getattr(tracker, name)

            def call(*arguments):
                try:
                    method(*arguments)
                except BaseException as error:
                    raised.append(error)

            return call

    result = dr.run(
        score,
        SPACE,
        3,
        n_evaluations=n,
        storage=folder / "run",
        backend="local",
        resume=True,
        max_in_flight=1,
        max_consecutive_failures=None,
        progress=False,
        callbacks=[Strict()],
    )
    if raised:
        raise raised[0]
    return result


def by_config(result: Result) -> dict[str, list[Observation]]:
    found: dict[str, list[Observation]] = {}
    for seen in result.observations:
        found.setdefault(json.dumps(seen.config, sort_keys=True), []).append(seen)
    return found


class Listening(Tracker):
    """A tracker that remembers."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[tuple] = []

    def begin(self) -> None:
        self.events.append(("begin",))

    def tell(self, number, observation) -> None:
        self.events.append(("tell", number, observation.id))

    def end(self, result, report) -> None:
        self.events.append(("end", report is not None and "drbqo report" in report.read_text()))


def test_every_outcome_is_told_once_with_the_number_of_its_config(tmp_path):
    tracker = Listening()
    result = tracked(tracker, tmp_path)
    first, *told, last = tracker.events
    assert (first, last) == (("begin",), ("end", True))
    assert sorted(id for _, _, id in told) == list(range(9))
    configs = list(by_config(result))
    for _, number, id in told:
        (seen,) = [one for one in result.observations if one.id == id]
        assert configs[number] == json.dumps(seen.config, sort_keys=True)


def test_evaluations_before_a_resume_are_told_at_the_end(tmp_path):
    tracked(Listening(), tmp_path, 4)
    tracker = Listening()
    tracked(tracker, tmp_path, 7)
    assert sorted(event[2] for event in tracker.events if event[0] == "tell") == list(range(7))
    tracked(tracker, tmp_path, 7)
    assert tracker.events.count(("begin",)) == 2, "it can be used again"


def test_a_library_that_is_missing_is_named_with_the_cure():
    with pytest.raises(InvalidInput, match="pip install nowhere"):
        load("no_such_library", "nowhere")


# MLflow


@pytest.fixture
def mlflow_client(tmp_path, monkeypatch):
    pytest.importorskip("mlflow", reason="mlflow is not installed (extra: trackers)")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    from mlflow.tracking import MlflowClient

    return MlflowClient(tracking_uri=(tmp_path / "mlruns").as_uri())


def mlflow_tracker(tmp_path: Path, **more):
    from drbqo_ray.trackers.mlflow import MLflowTracker

    return MLflowTracker("svm", tracking_uri=(tmp_path / "mlruns").as_uri(), **more)


def test_mlflow_has_a_parent_and_a_child_for_every_config(mlflow_client, tmp_path):
    tracker = mlflow_tracker(tmp_path, tags={"team": "a"})
    result = tracked(tracker, tmp_path)
    experiment = mlflow_client.get_experiment_by_name("svm")
    runs = mlflow_client.search_runs([experiment.experiment_id])
    parent = mlflow_client.get_run(tracker.parent_run_id)
    children = [run for run in runs if run.info.run_id != tracker.parent_run_id]
    groups = by_config(result)
    assert len(children) == len(groups)
    for child in children:
        assert child.data.tags["mlflow.parentRunId"] == tracker.parent_run_id
        assert child.info.status == "FINISHED"
        seen = list(groups.values())[int(child.data.tags["drbqo.config"])]
        assert child.data.params == {name: str(v) for name, v in seen[0].config.items()}
        history = mlflow_client.get_metric_history(child.info.run_id, "score")
        expected = {(one.context, one.score) for one in seen if one.score is not None}
        assert {(point.step, point.value) for point in history} == expected
        failed = {one.context for one in seen if one.score is None}
        named = {tag for tag in child.data.tags if tag.startswith("failed.")}
        assert named == {f"failed.fold-{fold}" for fold in failed}
    best = result.recommendation
    assert parent.data.metrics["robust_value"] == best.robust_value
    assert parent.data.params["best.x"] == str(best.config["x"])
    assert parent.data.tags["team"] == "a"
    assert parent.data.tags["mlflow.runName"] == "run"
    assert parent.info.status == "FINISHED"
    artifacts = mlflow_client.list_artifacts(tracker.parent_run_id)
    assert [one.path for one in artifacts] == ["report.html"]


def test_mlflow_takes_hostile_names(mlflow_client, tmp_path):
    tracker = mlflow_tracker(tmp_path)
    config = {payload: payload for payload in PAYLOADS}
    asked = Suggestion(0, config, 0, 0)
    tracker.on_ask(asked)
    tracker.on_observation(Observation.of(asked, 0.5))
    experiment = mlflow_client.get_experiment_by_name("svm")
    runs = mlflow_client.search_runs([experiment.experiment_id])
    assert max(len(run.data.params) for run in runs) == len(PAYLOADS)


# Weights & Biases


def test_wandb_has_a_step_for_every_evaluation_and_the_answer(tmp_path, monkeypatch):
    wandb = pytest.importorskip("wandb", reason="wandb is not installed (extra: trackers)")
    from drbqo_ray.trackers.wandb import WandbTracker

    monkeypatch.setenv("WANDB_SILENT", "true")
    monkeypatch.setenv("WANDB_ERROR_REPORTING", "false")
    tracker = WandbTracker(
        "svm", group="glass", mode="offline", folder=tmp_path, tags=["t"], job_type="tuning"
    )
    result = tracked(tracker, tmp_path)
    run = tracker.run
    assert (run.group, run.job_type, run.project) == ("glass", "tuning", "svm")
    assert (Path(run.dir) / "report.html").exists()
    (folder,) = (tmp_path / "wandb").glob("offline-run-*")
    (kept,) = folder.glob("*.wandb")
    scores, summary = wandb_content(kept)
    assert scores == [seen.score for seen in result.observations if seen.score is not None]
    assert summary["robust_value"] == result.recommendation.robust_value
    assert summary["best/x"] == result.recommendation.config["x"]
    assert summary["stopped"] == "finished"
    assert summary["evaluations"] == 9
    assert wandb.run is None, "no run of the user's is touched"


def wandb_content(path: Path) -> tuple[list[float], dict[str, object]]:
    """The scores in order and the summary, from the file that an offline run leaves."""
    from wandb.proto import wandb_internal_pb2

    found: list[float] = []
    summary: dict[str, object] = {}
    for data in log_records(path.read_bytes()):
        record = wandb_internal_pb2.Record()
        record.ParseFromString(data)
        for item in record.history.item:
            if (item.key or "/".join(item.nested_key)) == "score":
                found.append(json.loads(item.value_json))
        for item in record.summary.update:
            summary[item.key or "/".join(item.nested_key)] = json.loads(item.value_json)
    return found, summary


def log_records(content: bytes, header: int = 7, block: int = 32768) -> Iterator[bytes]:
    """The records of a file in the log format of LevelDB, after a header of a few bytes."""
    place, whole = header, b""
    while place + header <= len(content):
        if block - place % block < header:
            place += block - place % block
            continue
        _, size, kind = struct.unpack_from("<IHB", content, place)
        whole += content[place + header : place + header + size]
        place += header + size
        if kind in (1, 4):  # a whole record, or the last piece of one
            yield whole
            whole = b""


# TensorBoard


def test_tensorboard_has_hparams_and_scores_of_every_config(tmp_path):
    pytest.importorskip("tensorboardX", reason="tensorboardX is not installed (ray[tune])")
    pytest.importorskip("tensorboard", reason="tensorboard is not installed (extra: trackers)")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.plugins.hparams.metadata import parse_session_start_info_plugin_data

    from drbqo_ray.trackers.tensorboard import TensorBoardTracker

    result = tracked(TensorBoardTracker(tmp_path / "board"), tmp_path)
    groups = list(by_config(result).values())
    folders = sorted((tmp_path / "board").glob("config-*"))
    assert len(folders) == len(groups)
    for folder, seen in zip(folders, groups, strict=True):
        board = EventAccumulator(str(folder)).Reload()
        content = board.PluginTagToContent("hparams")["_hparams_/session_start_info"]
        values = parse_session_start_info_plugin_data(content).hparams
        assert values["x"].number_value == pytest.approx(seen[0].config["x"])
        assert values["kind"].string_value == seen[0].config["kind"]
        scores = {one.context: one.score for one in seen if one.score is not None}
        if scores:
            shown = {point.step: point.value for point in board.Scalars("score")}
            assert shown == pytest.approx(scores, rel=1e-6)
            (mean,) = board.Scalars("hparams/mean_score")
            assert mean.value == pytest.approx(sum(scores.values()) / len(scores), rel=1e-6)
    search = EventAccumulator(str(tmp_path / "board")).Reload()
    (robust,) = search.Scalars("search/robust_value")
    assert robust.value == pytest.approx(result.recommendation.robust_value, rel=1e-6)
