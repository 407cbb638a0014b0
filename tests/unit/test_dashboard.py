"""The dashboard: who may ask, what it answers, and that it reads no journal twice."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import drbqo_ray as dr
from drbqo_ray.dashboard import shelf as shelf_module
from drbqo_ray.dashboard.server import Dashboard
from drbqo_ray.errors import InvalidInput
from drbqo_ray.runtime.run_report import journal_facts
from drbqo_ray.storage.checkpoint import JUDGMENT
from drbqo_ray.storage.journal import JOURNAL, Journal
from tests.support.injections import PAYLOADS
from tests.support.report_runs import write_run


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("dashboard") / "runs"
    write_run(root / "one", evaluations=8)
    write_run(root / "two", evaluations=8, seed=1)
    (root / "corrupt").mkdir()
    (root / "corrupt" / JOURNAL).write_bytes(b"nonsense\n")
    (root.parent / "secret.txt").write_text("secret")
    return root


@pytest.fixture(scope="module")
def dashboard(runs) -> Iterator[Dashboard]:
    served = Dashboard(runs)
    yield served
    served.close()


@pytest.fixture(scope="module")
def guarded(runs) -> Iterator[Dashboard]:
    served = Dashboard(runs, host="0.0.0.0")
    yield served
    served.close()


def get(
    dashboard: Dashboard, path: str = "/", method: str = "GET", **headers: str
) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", dashboard.port, timeout=20)
    try:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, headers=named)
        answer = connection.getresponse()
        return answer.status, dict(answer.headers), answer.read()
    finally:
        connection.close()


def listing(dashboard: Dashboard) -> dict[str, dict[str, Any]]:
    status, _, body = get(dashboard, "/api/runs")
    assert status == 200
    return {run["name"]: run for run in json.loads(body)["runs"]}


def wait_for(found: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + 20
    while not (value := found()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return value


def test_all_runs_are_listed_with_what_load_recommends(dashboard, runs):
    done = lambda: all(run["judged"] for run in listing(dashboard).values())  # noqa: E731
    wait_for(done)
    found = listing(dashboard)
    assert found.keys() == {"one", "two", "corrupt"}
    for name in ("one", "two"):
        best = dr.load(runs / name).recommendation
        assert (found[name]["best"], found[name]["best_config"]) == (best.robust_value, best.config)
    assert found["corrupt"]["state"] == "unreadable"


def test_the_report_of_a_run_is_the_page_of_the_report(dashboard, runs):
    id = listing(dashboard)["one"]["id"]
    status, _, page = get(dashboard, f"/run/{id}/")
    version = get(dashboard, f"/run/{id}/version")[2].decode()
    from drbqo_ray.report.page import render_page

    assert status == 200
    assert page.decode() == render_page(journal_facts(runs / "one", "one"), version)


def test_runs_are_compared(dashboard):
    found = listing(dashboard)
    query = f"run={found['one']['id']}&run={found['two']['id']}"
    status, _, body = get(dashboard, f"/api/compare?{query}")
    assert status == 200
    plain = json.loads(body)
    assert [run["name"] for run in plain["runs"]] == ["one", "two"]
    assert plain["differences"] == {"two": ["seed: 0 -> 1"]}


def test_a_comparison_that_cannot_be_made_says_why(dashboard):
    found = listing(dashboard)
    assert get(dashboard, "/api/compare")[0] == 400
    many = "&".join(["run=" + found["one"]["id"]] * 13)
    assert b"Choose fewer" in get(dashboard, f"/api/compare?{many}")[2]
    assert get(dashboard, "/api/compare?run=0123456789abcdef")[0] == 404
    status, _, body = get(dashboard, f"/run/{found['corrupt']['id']}/")
    assert status == 500
    assert b"header" in body


@pytest.mark.parametrize(
    "path",
    [
        "/../secret.txt",
        "/..%2fsecret.txt",
        "/run/../../secret.txt/",
        "/run/..%2f..%2fsecret.txt/",
        "/run/%2e%2e/",
        "/run/one/",
        "/run//",
        "/run/one/journal.jsonl",
        "/one/journal.jsonl",
        "//secret.txt",
        "/page.html",
        "/server.py",
        "/\x00".replace("\x00", "%00"),
        "/api/compare?run=../../secret.txt",
        "/run/" + "a" * 10_000 + "/",
    ],
)
def test_no_path_leads_to_a_file(dashboard, path):
    status, _, body = get(dashboard, path)
    assert status == 404
    assert b"secret" not in body


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "", "127.0.0.1", "localhost.evil:1"]
)
def test_a_foreign_host_is_refused(dashboard, host):
    assert get(dashboard, "/api/runs", Host=host)[0] == 403


def test_our_own_names_are_welcome(dashboard):
    for name in ("127.0.0.1", "localhost"):
        assert get(dashboard, "/api/runs", Host=f"{name}:{dashboard.port}")[0] == 200
        assert get(dashboard, "/api/runs", host=f"{name}:{dashboard.port}")[0] == 200


def test_a_foreign_origin_is_refused(dashboard):
    own = f"http://127.0.0.1:{dashboard.port}"
    assert get(dashboard, "/api/runs", Origin=own)[0] == 200
    for origin in ("http://evil.example", "null", f"https://127.0.0.1:{dashboard.port}", own + "0"):
        assert get(dashboard, "/api/runs", Origin=origin)[0] == 403
    site = {"Sec_Fetch_Site": "cross-site"}
    assert get(dashboard, "/api/runs", **site, Sec_Fetch_Mode="no-cors")[0] == 403
    assert get(dashboard, "/", **site, Sec_Fetch_Mode="navigate")[0] == 200, "a link may lead here"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE"])
def test_nothing_but_get_is_answered(dashboard, method):
    status, headers, _ = get(dashboard, "/api/runs", method)
    assert status == 501
    assert "Access-Control-Allow-Origin" not in headers


def test_this_machine_needs_no_token_and_every_other_address_does(dashboard, guarded):
    assert dashboard.token is None
    assert len(guarded.token) >= 32
    assert guarded.url.endswith(f"/?token={guarded.token}")
    for path in ("/", "/page.js", "/api/runs", "/run/0123456789abcdef/", "/api/compare?run=x"):
        status, _, body = get(guarded, path)
        assert status == 401
        assert guarded.token.encode() not in body


def test_a_token_opens_the_dashboard_by_cookie_or_bearer(guarded):
    status, headers, _ = get(guarded, f"/?token={guarded.token}")
    assert (status, headers["Location"]) == (303, "/")
    cookie = headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert get(guarded, "/api/runs", Cookie=cookie.partition(";")[0])[0] == 200
    assert get(guarded, "/api/runs", Authorization=f"Bearer {guarded.token}")[0] == 200


@pytest.mark.parametrize("given", ["x", "", "%C3%A9", "drbqo"])
def test_a_wrong_token_opens_nothing(guarded, given):
    assert get(guarded, f"/?token={given}")[0] == 401
    assert get(guarded, "/api/runs", Cookie=f"drbqo-token={given}")[0] == 401
    assert get(guarded, "/api/runs", Cookie=f"drbqo-token={guarded.token[:-1]}")[0] == 401
    assert get(guarded, "/api/runs", Authorization=f"Bearer {given}")[0] == 401


def test_a_token_never_leads_to_another_site(guarded):
    _, headers, _ = get(guarded, f"////evil.example/?token={guarded.token}")
    assert headers.get("Location", "/") == "/"


def test_headers_keep_the_page_to_itself(dashboard):
    _, headers, _ = get(dashboard, "/")
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert "Python" not in headers["Server"]


def test_what_has_not_changed_is_not_sent_again(dashboard):
    wait_for(lambda: all(run["judged"] for run in listing(dashboard).values()))
    _, headers, _ = get(dashboard, "/api/runs")
    status, _, body = get(dashboard, "/api/runs", If_None_Match=headers["ETag"])
    assert (status, body) == (304, b"")


@pytest.fixture
def fast(monkeypatch) -> None:
    monkeypatch.setattr(shelf_module, "PAUSE_SECONDS", 0.0)


def test_a_run_that_starts_appears_and_moves(tmp_path, fast):
    dashboard = Dashboard(tmp_path / "runs")
    try:
        assert listing(dashboard) == {}
        assert "does not exist" in dashboard.shelf.listing()["trouble"]
        directory = write_run(tmp_path / "runs" / "new", evaluations=6, finished=False)
        first = wait_for(lambda: listing(dashboard).get("new"))
        assert (first["state"], first["n_done"]) == ("cut off", 6)
        before = get(dashboard, f"/run/{first['id']}/version")[2]
        with Journal.open(directory) as journal:
            config = {"x": 0.5, "rate": 0.1, "kind": "a"}
            journal.append("ask", {"id": 6, "config": config, "context": 0, "seed": 1})
            assert listing(dashboard)["new"]["state"] == "running"
            assert listing(dashboard)["new"]["n_pending"] == 1
            journal.append("tell", {"id": 6, "score": 1.0})
            assert listing(dashboard)["new"]["n_done"] == 7
            assert get(dashboard, f"/run/{first['id']}/version")[2] != before
        wait_for(lambda: listing(dashboard)["new"]["judged"])
        shutil.rmtree(directory)
        assert listing(dashboard) == {}
        assert get(dashboard, f"/run/{first['id']}/")[0] == 404
    finally:
        dashboard.close()


def test_a_journal_is_read_once_while_it_does_not_change(tmp_path, fast, monkeypatch):
    directory = write_run(tmp_path / "one", evaluations=4)
    (directory / JUDGMENT).unlink(missing_ok=True)
    reads, summarize = [], shelf_module.summarize
    monkeypatch.setattr(shelf_module, "summarize", lambda *a: reads.append(a) or summarize(*a))
    dashboard = Dashboard(tmp_path)
    try:
        wait_for(lambda: listing(dashboard)["one"]["judged"])
        for _ in range(5):
            listing(dashboard)
        assert len(reads) == 1
        now = time.time() + 5
        os.utime(directory / JOURNAL, (now, now))
        listing(dashboard)
        assert len(reads) == 2
    finally:
        dashboard.close()


def test_only_a_few_pages_are_kept(tmp_path, fast, monkeypatch):
    monkeypatch.setattr(shelf_module, "MOST_PAGES", 2)
    for k in range(3):
        write_run(tmp_path / f"r{k}", evaluations=3)
    made, render = [], shelf_module.render_page
    monkeypatch.setattr(shelf_module, "render_page", lambda *a: made.append(1) or render(*a))
    dashboard = Dashboard(tmp_path)
    try:
        ids = [run["id"] for run in listing(dashboard).values()]
        for id in (ids[0], ids[0], ids[1]):
            get(dashboard, f"/run/{id}/")
        assert len(made) == 2
        get(dashboard, f"/run/{ids[2]}/")
        get(dashboard, f"/run/{ids[0]}/")
        assert len(made) == 4
    finally:
        dashboard.close()


def test_hostile_words_leave_as_json_text(tmp_path):
    for k, payload in enumerate(PAYLOADS):
        write_run(tmp_path / f"r{k}", evaluations=2, objective=payload)
    dashboard = Dashboard(tmp_path)
    try:
        _, headers, body = get(dashboard, "/api/runs")
        assert headers["Content-Type"] == "application/json"
        assert {run["objective"] for run in json.loads(body)["runs"]} == set(PAYLOADS)
    finally:
        dashboard.close()


def test_an_object_store_is_shown(tmp_path, monkeypatch):
    from drbqo_ray.storage.mirror import ObjectStoreMirror

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    store = (tmp_path / "store").as_uri()
    mirror = ObjectStoreMirror(store, "a")
    write_run(mirror.directory, evaluations=3)
    mirror.upload()
    dashboard = Dashboard(store)
    try:
        assert listing(dashboard)["a"]["n_done"] == 3
    finally:
        dashboard.close()


def test_a_port_in_use_is_refused(dashboard, runs):
    with pytest.raises(InvalidInput, match="--port"):
        Dashboard(runs, port=dashboard.port)
