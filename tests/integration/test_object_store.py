"""Runs whose journal is copied to an S3 server that fails, lies, is slow, or has other writers."""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from drbqo_ray.cli.main import cli
from drbqo_ray.errors import InvalidInput, JournalError
from drbqo_ray.runtime.result import Result, load
from drbqo_ray.runtime.run import run
from drbqo_ray.storage import location, mirror
from drbqo_ray.storage.listing import find_run, list_runs
from drbqo_ray.storage.mirror import ForeignCopy, ObjectStoreMirror
from tests.support.fold_objectives import SPACE, smooth
from tests.support.s3_server import S3, Faults, s3_server

ROOT = Path(__file__).parents[2]


@pytest.fixture
def s3() -> Iterator[S3]:
    with s3_server() as server:
        yield server


@pytest.fixture(autouse=True)
def machine(tmp_path, monkeypatch):
    """Call it to be on another machine; copies are looked after often."""

    def be(name: str) -> None:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / name))

    be("one")
    often = functools.partial(ObjectStoreMirror, interval_seconds=0.02)
    monkeypatch.setattr(location, "ObjectStoreMirror", often)
    monkeypatch.setattr(mirror, "CLOSING_SECONDS", 1.0)
    monkeypatch.setattr(mirror, "_RETRY_SECONDS", 0.1)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    return be


def evaluate(storage: str, n_evaluations: int, objective: Any = smooth, **options: Any) -> Result:
    return run(
        objective,
        SPACE,
        3,
        n_evaluations=n_evaluations,
        method="random",
        storage=storage,
        backend="inline",
        progress=False,
        **options,
    )


def local_journal(s3: S3) -> bytes:
    return (cache_of(s3) / "journal.jsonl").read_bytes()


def cache_of(s3: S3) -> Path:
    return location.find_location(s3.storage, None).directory


def settled(s3: S3) -> bool:
    """Whether no upload is under way."""
    return not any(key.endswith(".part") for key in s3.objects)


def command(*arguments: str) -> Any:
    return CliRunner().invoke(cli, [str(argument) for argument in arguments])


def test_a_run_goes_on_elsewhere_from_the_bucket_alone(s3, machine):
    evaluate(s3.storage, 3)
    assert s3.journal() == local_journal(s3)
    machine("two")
    result = evaluate(s3.storage, 6, resume=True)
    assert [seen.id for seen in result.observations] == list(range(6))
    assert result.not_uploaded is None
    assert s3.journal() == local_journal(s3)
    assert sorted(key for key in s3.objects if "." in key) == ["runs/run/journal.jsonl"]
    machine("three")
    assert [found.n_done for found in list_runs(s3.storage)] == [6]


@pytest.mark.skipif(importlib.util.find_spec("moto") is None, reason="moto is not installed")
def test_the_same_against_motos_server(machine):
    import boto3
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        endpoint = f"http://{host}:{port}"
        key = {"aws_access_key_id": "key", "aws_secret_access_key": "secret"}
        client = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1", **key)
        client.create_bucket(Bucket="bucket")
        options = f"scheme=http&endpoint_override={host}:{port}&region=us-east-1"
        options += "&allow_delayed_open=true"  # Arrow cannot read how moto ends an upload in parts
        storage = f"s3://key:secret@bucket/runs?{options}"
        evaluate(storage, 3)
        machine("two")
        result = evaluate(storage, 6, resume=True)
        assert len(result.observations) == 6
        assert result.not_uploaded is None
        body = client.get_object(Bucket="bucket", Key="runs/run/journal.jsonl")["Body"].read()
        assert body == (result.storage / "journal.jsonl").read_bytes()
        assert [found.n_done for found in list_runs(storage)] == [6]
    finally:
        server.stop()


@pytest.mark.parametrize(
    "faults",
    [
        Faults(status=403, code="ExpiredToken"),
        Faults(status=500),
        Faults(status=403, code="AccessDenied", after=True),
    ],
    ids=["expired", "broken", "done but denied"],
)
def test_a_store_that_fails_in_the_middle_third_costs_nothing(s3, faults, caplog):
    seen = []

    def objective(config, fold, seed):
        seen.append(fold)
        if len(seen) == 5:
            s3.faults = faults
            wait_for(lambda: s3.requests > before + 3)
        if len(seen) == 9:
            s3.faults = Faults()
        return smooth(config, fold, seed)

    before = s3.requests
    result = evaluate(s3.storage, 12, objective)
    assert result.stopped == "finished"
    assert result.not_uploaded is None
    assert len(seen) == 12
    assert s3.journal() == local_journal(s3)
    assert "hunter2" not in caplog.text


def wait_for(condition) -> None:
    for _ in range(500):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("waited 5 s in vain")


def test_slow_answers_hold_up_nothing(s3):
    s3.faults = Faults(seconds=0.2)
    assert evaluate(s3.storage, 4).recommendation is not None
    wait_for(lambda: s3.journal() == local_journal(s3))


def test_a_bucket_that_vanishes_and_returns_gets_the_whole_journal(s3):
    def objective(config, fold, seed):
        s3.has_bucket = len(told) != 2
        told.append(fold)
        if len(told) == 4:
            s3.objects.clear()
        return smooth(config, fold, seed)

    told: list[int] = []
    assert evaluate(s3.storage, 6, objective).not_uploaded is None
    assert s3.journal() == local_journal(s3)


def test_errors_until_the_end_leave_a_result_and_say_what_is_missing(s3, caplog):
    def objective(config, fold, seed):
        if s3.faults.status is None:
            wait_for(lambda: s3.journal() == local_journal(s3) and settled(s3))
            s3.faults = Faults(status=403, code="ExpiredToken")
        return smooth(config, fold, seed)

    result = evaluate(s3.storage, 4, objective)
    assert result.recommendation is not None
    total, there = local_journal(s3).count(b"\n"), s3.journal().count(b"\n")
    assert there < total
    assert f"{total - there} of {total} records" in result.not_uploaded
    assert "s3://bucket/runs/run/journal.jsonl" in result.not_uploaded
    assert re.search(r"`drbqo resume '?s3://bucket/runs/run\?", caplog.text)
    assert "hunter2" not in caplog.text
    s3.faults = Faults()
    again = evaluate(s3.storage, 4, objective, resume=True)  # nothing is left to evaluate
    assert again.not_uploaded is None
    assert s3.journal() == local_journal(s3)


def test_failing_uploads_are_warned_of_once_while_the_run_goes_on(s3, caplog, monkeypatch):
    monkeypatch.setattr("drbqo_ray.runtime.session.UPLOAD_SECONDS", 0.01)
    warned: list[int] = []

    def objective(config, fold, seed):
        s3.faults = Faults(status=403, code="AccessDenied")
        time.sleep(0.1)
        warned.append(caplog.text.count("The run goes on, and the upload is tried again"))
        return smooth(config, fold, seed)

    evaluate(s3.storage, 8, objective)
    assert warned[0] == 0
    assert warned[-1] == 1


def test_an_actor_that_restarts_does_not_overwrite_what_another_machine_wrote(s3, machine):
    evaluate(s3.storage, 3)
    ours = cache_of(s3)
    copy = s3.journal()
    lines = copy.splitlines(keepends=True)
    other = b"".join(lines[:-1]) + b"x" * (len(lines[-1]) - 1) + b"\n"
    s3.objects["runs/run/journal.jsonl"] = other  # of the same size
    with open(ours / "journal.jsonl", "ab") as journal:
        journal.write(b"{}\n")
    restarted = ObjectStoreMirror(s3.storage, "run", ours)
    with pytest.raises(ForeignCopy, match="another writer"):
        restarted.upload()
    assert "another writer" in restarted.close()
    assert s3.journal() == other


def test_a_writer_that_comes_between_two_uploads_is_noticed(s3):
    evaluate(s3.storage, 3)
    ours = cache_of(s3)
    running = ObjectStoreMirror(s3.storage, "run", ours)
    with open(ours / "journal.jsonl", "ab") as journal:
        journal.write(b"{}\n")
        journal.flush()
        assert running.upload()
        other = s3.journal()[:-3] + b"[]\n"
        s3.objects["runs/run/journal.jsonl"] = other
        journal.write(b"{}\n")
        journal.flush()
    with pytest.raises(ForeignCopy):
        running.upload()
    assert s3.journal() == other


def test_status_reads_the_bucket_and_names_the_address(s3, machine):
    evaluate(s3.storage, 3)
    machine("two")
    first = command("status", s3.storage)
    assert "3 of 3 done" in first.output
    machine("one")
    evaluate(s3.storage, 5, resume=True)
    machine("two")
    second = command("status", s3.storage)
    assert second.exit_code == 0
    assert "5 of 5 done" in second.output
    assert "run        s3://bucket/runs/run?" in second.output
    assert "hunter2" not in second.output
    assert os.environ["XDG_CACHE_HOME"] not in second.output
    s3.faults = Faults(status=403)
    assert command("status", s3.storage).exit_code != 0


def test_status_says_what_only_this_machine_has(s3):
    evaluate(s3.storage, 3)
    lines = s3.journal().splitlines(keepends=True)
    s3.objects["runs/run/journal.jsonl"] = b"".join(lines[:-2])
    found = command("status", s3.storage)
    assert (
        f"2 of {len(lines)} records of the journal are not known to be in s3://bucket"
        in found.output
    )
    assert "copy " not in command("status", cache_of(s3)).output


def test_the_address_of_a_run_is_a_run(s3, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    result = evaluate(s3.storage, 3, name="first")
    assert result.address.startswith("s3://bucket/runs/first?")
    assert find_run(result.address).name == "first"
    assert len(load(result.address).observations) == 3
    assert find_run(s3.storage).name == "first"  # the only one there
    evaluate(s3.storage, 3, name="second")
    with pytest.raises(InvalidInput, match="hold one run"):
        find_run(s3.storage)
    with pytest.raises(InvalidInput, match=r"journal\.jsonl"):
        find_run(s3.storage, "third")


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A directory with an objective and a space, for the command line."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    Path("store_folds.py").write_text("def good(config, fold, seed):\n    return config['C']\n")
    Path("space.yaml").write_text("C: float 0.1 1\n")
    yield
    sys.modules.pop("store_folds", None)


START = ("run", "--objective", "store_folds:good", "--space", "space.yaml", "--folds", 3)
START = (*START, "--evaluations", 4, "--method", "random", "--backend", "local", "-q")


@pytest.mark.usefixtures("here")
def test_the_command_line_tells_the_truth_and_a_resume_uploads_the_rest(s3):
    only_copies = Faults(status=403, only=lambda method, key: method in ("PUT", "POST"))
    s3.faults = only_copies
    found = command(*START, "--storage", s3.storage)
    assert found.exit_code == 1
    assert "best       " in found.output
    total = local_journal(s3).count(b"\n")
    assert f"copy       {total} of {total} records" in found.output
    pattern = r"drbqo: the run is done, but .* `drbqo resume '(\S+)' --objective "
    advice = re.search(pattern, found.output)
    assert advice is not None
    assert advice[1].startswith("s3://bucket/runs/run?")
    again = command("resume", s3.storage)
    assert again.exit_code == 1
    s3.faults = Faults()
    last = command("resume", s3.storage)
    assert last.exit_code == 0, last.output
    assert s3.journal() == local_journal(s3)
    second = command(*START, "--storage", s3.storage)
    assert second.exit_code == 2
    assert "drbqo resume" in second.output
    assert "hunter2" not in found.output + again.output + last.output + second.output


def test_a_store_that_cannot_be_read_refuses_a_run_before_it_begins(s3):
    s3.faults = Faults(status=403)
    with pytest.raises(JournalError, match="s3://bucket/runs/run"):
        evaluate(s3.storage, 3)
    assert not cache_of(s3).exists()
