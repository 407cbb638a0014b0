"""`drbqo report`, `Result.report` and the server that shows a run while it goes on."""

from __future__ import annotations

import html
import http.client
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from drbqo_ray.cli.main import cli
from drbqo_ray.errors import InvalidInput, JournalCorrupt
from drbqo_ray.report.watch import PageServer
from drbqo_ray.runtime.result import Result
from drbqo_ray.storage import stored_run
from drbqo_ray.storage.journal import JOURNAL
from tests.support.report_runs import write_run


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    return write_run(tmp_path_factory.mktemp("storage") / "sonar", evaluations=10, n_initial=10)


def test_the_report_goes_into_the_run_and_its_path_is_printed(run):
    before = (run / JOURNAL).read_bytes()
    done = CliRunner().invoke(cli, ["report", str(run)])
    assert (done.exit_code, done.output) == (0, f"{run / 'report.html'}\n")
    page = (run / "report.html").read_text(encoding="utf-8")
    assert "<h1>sonar</h1>" in page
    assert "connect-src" not in page
    assert (run / JOURNAL).read_bytes() == before


def test_a_report_replays_the_journal_once(run, tmp_path, monkeypatch):
    replays = []

    def counted(records, problem):
        replays.append(problem)
        return replay(records, problem)

    replay = stored_run.replay
    monkeypatch.setattr(stored_run, "replay", counted)
    done = CliRunner().invoke(cli, ["report", str(run), "--out", str(tmp_path / "x.html")])
    assert done.exit_code == 0
    assert len(replays) == 1
    Result("sonar", None, [], run, "finished").report(tmp_path / "y.html")
    assert len(replays) == 2


def test_the_report_goes_where_out_says(run, tmp_path):
    done = CliRunner().invoke(
        cli, ["report", str(run.parent), "--name", "sonar", "--out", str(tmp_path / "x.html")]
    )
    assert (done.exit_code, done.output) == (0, f"{tmp_path / 'x.html'}\n")
    assert (tmp_path / "x.html").is_file()


@pytest.mark.parametrize("watch", [[], ["--watch"]])
@pytest.mark.parametrize("place", ["missing", "."])
def test_a_directory_without_a_run_is_bad_usage(place, watch, tmp_path):
    done = CliRunner().invoke(cli, ["report", str(tmp_path / place), *watch])
    assert done.exit_code == 2
    assert "The directory of a run holds a journal.jsonl" in done.output
    assert list(tmp_path.iterdir()) == []


def test_a_result_writes_its_report(run, tmp_path):
    result = Result("sonar", None, [], run, "finished")
    assert result.report(tmp_path / "page.html") == tmp_path / "page.html"
    assert "<h1>sonar</h1>" in (tmp_path / "page.html").read_text(encoding="utf-8")


class Made:
    """A page that counts how often it was made."""

    def __init__(self) -> None:
        self.version = "one"
        self.count = 0

    def page(self, version: str) -> str:
        self.count += 1
        return f"<p>{version}</p>"


@pytest.fixture
def made():
    return Made()


@pytest.fixture
def server(made):
    server = PageServer(lambda: made.version, made.page)
    yield server
    server.close()


def get(server: PageServer, path: str, host: str | None = None, method: str = "GET"):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    connection.request(method, path, headers={"Host": host} if host else {})
    answer = connection.getresponse()
    body = answer.read().decode("utf-8")
    connection.close()
    return answer.status, body, dict(answer.getheaders())


def test_the_server_makes_a_page_once_a_version(server, made):
    assert get(server, "/")[:2] == (200, "<p>one</p>")
    assert get(server, "/?x=1")[:2] == (200, "<p>one</p>")
    assert made.count == 1
    assert get(server, "/version")[:2] == (200, "one")
    made.version = "two"
    assert get(server, "/version")[:2] == (200, "two")
    assert get(server, "/")[:2] == (200, "<p>two</p>")
    assert made.count == 2


def test_making_pages_takes_a_tenth_of_the_time_at_most(server, made, monkeypatch):
    clock = [100.0]
    monkeypatch.setattr("drbqo_ray.report.watch.monotonic", lambda: clock[0])

    def slow(version: str) -> str:
        clock[0] += 2.0
        return version

    monkeypatch.setattr(server, "_page", slow)
    assert get(server, "/")[1] == "one"
    made.version = "two"
    clock[0] += 17.0
    assert get(server, "/version")[1] == get(server, "/")[1] == "one"
    clock[0] += 1.0
    assert get(server, "/version")[1] == get(server, "/")[1] == "two"


def test_the_server_listens_on_loopback_and_sends_careful_headers(server):
    assert server._server.server_address[0] == "127.0.0.1"
    _, _, headers = get(server, "/")
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["Cache-Control"] == "no-store"
    assert "Access-Control-Allow-Origin" not in headers


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
def test_requests_that_name_this_machine_are_answered(server, name):
    assert get(server, "/", f"{name}:{server.port}")[0] == 200


@pytest.mark.parametrize(
    "host",
    [
        "attacker.invalid",
        "attacker.invalid:{port}",
        "127.0.0.1",
        "127.0.0.1:1",
        "localhost.attacker.invalid:{port}",
        "[::1]:{port}",
        "127.0.0.1:{port}.x",
    ],
)
def test_requests_that_name_another_host_are_refused(server, made, host):
    assert get(server, "/", host.format(port=server.port))[:2] == (403, "wrong host\n")
    assert made.count == 0


@pytest.mark.parametrize("path", ["/journal.jsonl", "/../journal.jsonl", "/etc/passwd"])
def test_there_is_nothing_but_the_page(server, path):
    assert get(server, path)[0] == 404


def test_only_get_is_answered(server):
    assert get(server, "/", method="POST")[0] == 501


def test_a_journal_that_cannot_be_read_gives_words_not_a_dead_server(made):
    def broken() -> str:
        raise JournalCorrupt("Record 3 is damaged.")

    server = PageServer(broken, made.page)
    try:
        status, body, _ = get(server, "/")
        assert status == 500
        assert "Record 3 is damaged." in body
        assert get(server, "/")[0] == 500
    finally:
        server.close()


def test_a_port_in_use_is_named(server, made):
    with pytest.raises(InvalidInput, match="port must be free"):
        PageServer(lambda: "x", made.page, server.port)


def test_watch_serves_the_run_as_it_grows_and_ends_cleanly(tmp_path):
    directory = write_run(tmp_path / "run", evaluations=4, finished=False)
    process = subprocess.Popen(
        [sys.executable, "-m", "drbqo_ray.cli.main", "report", str(directory), "--watch"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    try:
        assert process.stdout is not None
        words = process.stdout.readline()
        port = int(re.search(r"http://127\.0\.0\.1:(\d+)/", words).group(1))  # type: ignore[union-attr]
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("GET", "/version")
        version = connection.getresponse().read().decode("ascii")
        connection.request("GET", "/")
        page = connection.getresponse().read().decode("utf-8")
        assert f'name="drbqo-version" content="{version}"' in page
        assert "connect-src 'self'" in html.unescape(page)
        with (directory / JOURNAL).open("ab") as journal:
            journal.write(b"{")
        newer, deadline = version, time.monotonic() + 60
        while newer == version and time.monotonic() < deadline:
            connection.request("GET", "/version")
            newer = connection.getresponse().read().decode("ascii")
        assert newer != version
        connection.close()
        process.send_signal(signal.SIGINT)
        out, error = process.communicate(timeout=60)
    finally:
        process.kill()
        process.communicate()
    assert (process.returncode, out, error) == (0, "drbqo: stopped\n", "")
