"""The dashboard in headless Chromium: a run appears and moves, hostile words are words."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import drbqo_ray as dr
from drbqo_ray.dashboard.server import Dashboard
from drbqo_ray.storage.journal import JOURNAL
from tests.support.injections import PAYLOADS
from tests.support.report_runs import write_run

PATIENCE = 60.0


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("shown") / "runs"
    for method in ("drbqo", "foldwise"):
        for seed in (0, 1):
            write_run(root / f"svm-{method}-{seed}", evaluations=20, method=method, seed=seed)
    write_run(root / "half", evaluations=9, finished=False)
    write_run(root / "broken", evaluations=3, fails=lambda *_: "ValueError: no")
    (root / "damaged").mkdir()
    (root / "damaged" / JOURNAL).write_bytes(b"nonsense\n")
    return root


@pytest.fixture(scope="module")
def dashboard(folder) -> Iterator[Dashboard]:
    served = Dashboard(folder)
    yield served
    served.close()


def wait_for(found: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + PATIENCE
    while not (value := found()):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return value


def rows(browser) -> dict[str, list[str]]:
    """The cells of the table by the name of the run."""
    found = browser.run("""
        return [...document.querySelectorAll("#runs tbody tr")].map(row =>
            [row.querySelector(".name").firstChild.textContent,
             ...[...row.cells].slice(2).map(cell => cell.textContent)]);
    """)
    return {name: cells for name, *cells in found}


def test_the_list_shows_every_run_and_the_console_is_silent(browser, dashboard, folder):
    browser.open(dashboard.url, width=1400)
    wait_for(lambda: len(rows(browser)) == 7 and rows(browser)["svm-drbqo-0"][2] != "–")
    shown = rows(browser)
    best = dr.load(folder / "svm-drbqo-0").recommendation.robust_value
    assert shown["svm-drbqo-0"][0] == "finished"
    assert shown["svm-drbqo-0"][1] == "20 of 20"
    assert float(shown["svm-drbqo-0"][2]) == pytest.approx(best, rel=1e-4)
    assert shown["half"][0] == "cut off"
    assert shown["damaged"][0] == "unreadable"
    assert shown["broken"][1] == "3 of 3, 3 failed"
    assert browser.console() == []
    assert {url.split("/")[2] for url in browser.requests()} == {f"127.0.0.1:{dashboard.port}"}


def slow_objective(config, fold, seed) -> float:
    time.sleep(0.4)
    return config["x"] - 0.1 * fold


def test_a_run_that_starts_while_the_page_is_open_appears_and_moves(browser, tmp_path):
    dashboard = Dashboard(tmp_path / "runs")
    start = {"n_evaluations": 30, "storage": tmp_path / "runs" / "live", "backend": "local"}
    run = threading.Thread(
        target=lambda: dr.run(
            slow_objective, {"x": dr.Float(0, 1)}, 2, max_in_flight=1, progress=False, **start
        )
    )
    try:
        browser.open(dashboard.url)
        wait_for(lambda: not browser.run("return document.getElementById('empty').hidden"))
        run.start()
        wait_for(lambda: "live" in rows(browser))
        counts, bests, states = set(), set(), set()

        def moved() -> bool:
            state, done, best, *_ = rows(browser)["live"]
            states.add(state)
            counts.add(int(done.split()[0]))
            bests.add(best)
            return state == "finished"

        wait_for(moved)
        assert "running" in states
        assert len(counts) >= 3
        assert len(bests - {"–"}) >= 2
        final = dr.load(tmp_path / "runs" / "live").recommendation.robust_value
        wait_for(lambda: rows(browser)["live"][2] != "–")
        assert float(rows(browser)["live"][2]) == pytest.approx(final, rel=1e-4)
        assert browser.console() == []
    finally:
        if run.is_alive():
            run.join()
        dashboard.close()


def test_a_run_opens_as_its_report(browser, dashboard):
    browser.open(dashboard.url)
    wait_for(lambda: "svm-drbqo-0" in rows(browser))
    browser.run("""[...document.querySelectorAll("#runs a")]
        .find(link => link.textContent === "svm-drbqo-0").click()""")
    wait_for(
        lambda: browser.run("return document.querySelector('h1').textContent") == "svm-drbqo-0"
    )
    assert browser.run("return document.getElementById('verdict-title').textContent") == "Verdict"
    assert browser.console() == []


def test_chosen_runs_are_compared(browser, dashboard):
    browser.open(dashboard.url, width=1400)
    wait_for(lambda: len(rows(browser)) == 7)
    browser.run("""for (const box of document.querySelectorAll("#runs input:enabled"))
        if (box.getAttribute("aria-label").includes("svm")) box.click();
        document.getElementById("compare").click();""")
    script = "return document.querySelectorAll('#curves polyline').length"
    wait_for(lambda: browser.run(script) == 4)
    text = browser.run("return document.getElementById('comparison').textContent")
    assert "method drbqo minus method foldwise" in text or "method foldwise minus" in text
    assert "over the seeds 0, 1" in text
    assert browser.console() == []


@pytest.mark.parametrize("width", [1400, 800, 420])
@pytest.mark.parametrize("dark", [False, True])
def test_the_page_fits_its_window(browser, dashboard, width, dark):
    browser.open(dashboard.url, width=width, dark=dark)
    wait_for(lambda: len(rows(browser)) == 7)
    wide = browser.run("return document.documentElement.scrollWidth")
    assert wide <= width
    out = os.environ.get("DRBQO_SCREENSHOTS")
    if out:
        wait_for(lambda: rows(browser)["svm-drbqo-0"][2] != "–")
        browser.run("""for (const box of document.querySelectorAll("#runs input:enabled"))
            if (box.getAttribute("aria-label").includes("svm")) box.click();
            document.getElementById("compare").click();""")
        wait_for(lambda: browser.run("return document.querySelectorAll('#compared td').length"))
        browser.resize(width, browser.run("return document.documentElement.scrollHeight"))
        name = f"dashboard-{width}{'-dark' if dark else ''}.png"
        browser.driver.save_screenshot(str(Path(out) / name))


def test_hostile_words_are_shown_as_words(browser, tmp_path):
    for k, payload in enumerate(PAYLOADS):
        fails = lambda c, f, id, text=payload: text if id == 1 else None  # noqa: E731
        space = {payload: dr.Float(0, 1), "kind": dr.Choice([payload, "b"])}
        write_run(
            tmp_path / f"run-{k}",
            lambda config, fold: 1.0 if config["kind"] != "b" else 0.0,
            space,
            2,
            4,
            objective=payload,
            fails=fails,
        )
    (tmp_path / "<img src=x onerror=alert(1)>").mkdir()
    (tmp_path / "<img src=x onerror=alert(1)>" / JOURNAL).write_bytes(
        b"<script>alert(1)</script>\n"
    )
    dashboard = Dashboard(tmp_path)
    try:
        browser.open(dashboard.url)
        browser.run("window.alert = () => { document.title = 'acted'; }")
        wait_for(lambda: len(rows(browser)) == len(PAYLOADS) + 1)
        wait_for(lambda: rows(browser)["run-0"][2] != "–")
        names = browser.run(
            "return [...document.querySelectorAll('.objective')].map(e => e.textContent)"
        )
        clipped = {text if len(text) <= 160 else text[:159] + "…" for text in PAYLOADS}
        assert clipped <= set(names)
        assert "<img src=x onerror=alert(1)>" in rows(browser)
        browser.run("""
            const boxes = [...document.querySelectorAll("#runs input:enabled")];
            for (const box of boxes.slice(0, 12)) box.click();
            document.getElementById("compare").click();""")
        wait_for(lambda: browser.run("return document.querySelectorAll('#compared td').length"))
        strange = "img, iframe, object, main script, main a[href^=javascript]"
        assert browser.run("return document.querySelectorAll(arguments[0]).length", strange) == 0
        assert browser.run("return document.title") == "Runs · drbqo dashboard"
        assert browser.console() == []
    finally:
        dashboard.close()
