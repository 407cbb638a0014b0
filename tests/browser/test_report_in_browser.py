"""The report in headless Chromium: every panel, the slider, the table, no noise, no network."""

from __future__ import annotations

import csv
import json
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from drbqo_ray import ChiSquareBall, Choice, Float, KLBall
from drbqo_ray.records import BAND
from drbqo_ray.report.facts import Facts
from drbqo_ray.report.page import render_page, write_report
from drbqo_ray.report.watch import PageServer
from drbqo_ray.report.wording import count, percent, short
from drbqo_ray.runtime.run_report import journal_facts
from tests.support.injections import PAYLOADS
from tests.support.report_runs import two_peaks, write_run

RADII = (0.0, 0.05, 0.4, 1.1, 1.5)
PANELS = [
    "Verdict",
    "Mean against robust ranking",
    "Configs by folds",
    "Worst-case weights",
    "Robust score against radius",
    "Mean and spread",
    "The recommendation over time",
    "Parameters",
    "Slices",
    "Parallel coordinates",
    "Worker timeline",
    "Failures",
    "Reproduce",
]


@dataclass(frozen=True)
class Shown:
    """A run, its facts and its page on disk."""

    directory: Path
    facts: Facts
    url: str
    mode: str


@pytest.fixture(scope="module", params=["max", "min"])
def shown(request, tmp_path_factory) -> Shown:
    sign = 1 if request.param == "max" else -1
    directory = write_run(
        tmp_path_factory.mktemp(request.param) / "run",
        lambda c, f: sign * two_peaks(c, f),
        evaluations=30,
        uncertainty=0.7,
        mode=request.param,
        fails=lambda c, f, k: "Traceback\nValueError: a < b & c" if k in (4, 9) else None,
    )
    facts = journal_facts(directory, "two peaks")
    path = write_report(facts, directory / "report.html")
    return Shown(directory, facts, path.as_uri(), request.param)


def texts(browser, selector: str) -> list[str]:
    script = "return [...document.querySelectorAll(arguments[0])].map(e => e.textContent)"
    return browser.run(script, selector)


def rows(browser) -> list[dict[str, str]]:
    """The table as it stands, by the key of each column."""
    return browser.run("""
        const heads = [...document.querySelectorAll("#configs th")].map(e => e.dataset.key);
        return [...document.querySelectorAll("#configs tbody tr")].map(row =>
            Object.fromEntries(heads.map((key, i) => [key, row.cells[i].textContent])));
    """)


def test_every_panel_is_there_in_order_with_its_numbers(browser, shown):
    browser.open(shown.url)
    facts = shown.facts
    assert texts(browser, "section h2") == PANELS
    assert texts(browser, "h1") == ["two peaks"]
    assert texts(browser, ".sentences p") == list(facts.verdict.sentences)
    checks = texts(browser, ".checks li")
    for check in facts.checks:
        assert any(check.finding in words for words in checks)
    ranking = facts.ranking
    assert ranking is not None
    digits = ranking.digits
    chosen = ranking.row(ranking.chosen)
    assert chosen is not None
    key = texts(browser, ".key dd")
    assert key[0] == f"{digits.text(chosen.robust)} ± {short(BAND * chosen.std, 2)}"
    assert key[1] == digits.text(chosen.mean)
    timeline = facts.parts["timeline"]
    assert timeline is not None
    assert percent(timeline.utilization) in " ".join(texts(browser, "#timeline .reading"))
    assert texts(browser, "#failures summary") == ["ValueError: a < b & c"] * 2
    assert "2 of 30 evaluations failed" in texts(browser, "#failures .reading")[0]
    importance = facts.importance
    assert importance is not None
    for name, effect in importance.effects:
        assert name in texts(browser, "#parameters svg text.name")
        assert percent(effect) in texts(browser, "#parameters svg text.value")
    assert "dr.run(" in texts(browser, "#reproduce pre")[0]


def test_cells_of_the_heat_map_are_scores_of_the_journal(browser, shown):
    browser.open(shown.url)
    cells = browser.run("""
        return [...document.querySelectorAll("#heat-map [data-config]")].map(e => [
            Number(e.dataset.config), Number(e.dataset.fold), e.querySelector("text").textContent,
            e.querySelector(".untrained") !== null]);
    """)
    lines = (shown.directory / "journal.jsonl").read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    asks = {r["data"]["id"]: r["data"] for r in records if r["kind"] == "ask"}
    heat, ranking = shown.facts.parts["heat_map"], shown.facts.ranking
    assert heat is not None and ranking is not None  # noqa: PT018
    seen: dict[tuple[int, int], list[float]] = {}
    for record in records:
        if record["kind"] == "tell":
            ask = asks[record["data"]["id"]]
            number = next(row.number for row in ranking.rows if row.config == ask["config"])
            seen.setdefault((number, ask["context"]), []).append(record["data"]["score"])
    assert len(cells) == len(heat.configs) * len(heat.folds)
    for config, fold, words, untrained in cells:
        scores = seen.get((config, fold))
        assert untrained is (scores is None)
        if scores is not None:
            assert float(words.removeprefix("✕ ")) == pytest.approx(np.mean(scores), abs=6e-4)


def test_weights_shown_lie_in_the_ball(browser, shown):
    browser.open(shown.url)
    values = texts(browser, "#weights svg text.value")
    weights = np.array([float(words) for words in values[0::2]])
    assert weights.sum() == pytest.approx(1, abs=5e-4)
    assert 0.5 * np.sum((weights - 0.25) ** 2 / 0.25) <= 0.7 + 1e-3


@pytest.mark.parametrize("radius", RADII)
def test_the_slider_ranks_like_the_core(browser, shown, radius):
    browser.open(shown.url)
    browser.run(
        """
        const field = document.getElementById("radius-number");
        field.value = arguments[0];
        field.dispatchEvent(new Event("input"));
    """,
        radius,
    )
    ranking = shown.facts.ranking
    assert ranking is not None
    sign = 1 if shown.mode == "max" else -1
    ranked = [row for row in ranking.rows if row.robust_rank is not None]
    gains = sign * np.array([row.fold_means for row in ranked])
    values, weights = ChiSquareBall(radius).worst_case(gains)
    order = np.argsort(-values, kind="stable")
    table = [row for row in rows(browser) if row["rank"] != "failed"]
    place = {row.number: k for k, row in enumerate(ranked)}
    in_table = [place[int(row["config"])] for row in table]
    assert sorted(in_table) == sorted(order)
    np.testing.assert_allclose(values[in_table], values[order], rtol=0, atol=1e-12)
    assert [row["rank"] for row in table] == [str(k + 1) for k in range(len(ranked))]
    for row, k in zip(table, in_table, strict=True):
        assert row["robust"] == ranking.digits.text(float(sign * values[k]))
    winner = texts(browser, "#radius-winner")[0]
    assert f"config {ranked[order[0]].number} is best" in winner
    for k in range(len(ranked)):
        found = browser.run(
            "return window.drbqo.worstCase(arguments[0], arguments[1], arguments[2])",
            gains[k].tolist(),
            [0.25] * 4,
            radius,
        )
        assert found["value"] == pytest.approx(values[k], abs=1e-12)
        np.testing.assert_allclose(found["weights"], weights[k], atol=1e-9)


def test_the_scripts_solver_is_the_cores_for_any_reference(browser, shown):
    browser.open(shown.url)
    rng = np.random.default_rng(0)
    for k in range(60):
        n = int(rng.integers(1, 9))
        q = rng.dirichlet(np.ones(n))
        if n > 2 and k % 3 == 0:
            q[0] = 0
            q /= q.sum()
        x = rng.normal(size=n) * 10.0 ** rng.integers(-6, 6)
        if n > 1 and k % 4 == 0:
            x[1] = x[0]
        radius = float(rng.choice([0, 0.01, 0.3, (n - 1) / 2, 5]))
        value, weights = ChiSquareBall(radius).worst_case(x, q)
        found = browser.run(
            "return window.drbqo.worstCase(...arguments)", x.tolist(), q.tolist(), radius
        )
        scale = np.ptp(x) or 1.0
        assert (found["value"] - value) / scale == pytest.approx(0, abs=1e-9)
        np.testing.assert_allclose(found["weights"], weights, atol=1e-7)


def test_the_slider_itself_moves_the_ranking_and_resets(browser, shown):
    browser.open(shown.url)
    before = rows(browser)
    browser.run("""
        const slider = document.getElementById("radius-slider");
        slider.value = 0;
        slider.dispatchEvent(new Event("input"));
    """)
    ranking = shown.facts.ranking
    assert ranking is not None
    assert int(rows(browser)[0]["config"]) == ranking.mean_choice
    browser.run('document.getElementById("radius-reset").click()')
    assert rows(browser) == before


def test_the_table_sorts_by_every_column_both_ways(browser, shown):
    browser.open(shown.url)
    keys = browser.run(
        'return [...document.querySelectorAll("#configs th")].map(e => e.dataset.key)'
    )
    for key in keys:
        found = {}
        for way in ("ascending", "descending"):
            browser.run(f"document.querySelector('th[data-key=\"{key}\"] button').click()")
            state = f"return document.querySelector('th[data-key=\"{key}\"]').ariaSort"
            assert browser.run(state) == way
            found[way] = [row[key] for row in rows(browser)]
        if key in ("robust", "mean", "worst", "spread", "config"):
            numbers = [float(words) for words in found["ascending"]]
            assert numbers == sorted(numbers)
            numbers = [float(words) for words in found["descending"]]
            assert numbers == sorted(numbers, reverse=True)


def test_hovering_shows_the_value(browser, shown):
    from selenium.webdriver import ActionChains
    from selenium.webdriver.common.by import By

    browser.open(shown.url)
    mark = browser.driver.find_element(By.CSS_SELECTOR, "#heat-map [data-config]")
    ActionChains(browser.driver).move_to_element(mark).perform()
    words = browser.run(
        'const t = document.getElementById("tip"); return [t.hidden, t.textContent]'
    )
    assert words[0] is False
    assert words[1].startswith(f"config {mark.get_attribute('data-config')}, fold 0: ")


@pytest.mark.parametrize(
    ("look", "width", "dark"),
    [
        ("light", 1100, False),
        ("dark", 1100, True),
        ("wide", 1400, False),
        ("middle", 900, False),
        ("narrow", 420, False),
        ("narrower", 375, False),
    ],
)
def test_no_console_noise_no_network_no_sideways_scrolling(
    browser, shown, look, width, dark, tmp_path
):
    browser.open(shown.url, width=width, dark=dark)
    size = browser.run(
        "const e = document.documentElement; return [e.scrollWidth, e.clientWidth, e.scrollHeight]"
    )
    assert size[0] <= size[1]
    browser.run("""
        document.getElementById("radius-slider").dispatchEvent(new Event("input"));
        document.querySelectorAll("th button").forEach(button => button.click());
    """)
    assert browser.console() == []
    assert browser.requests() == [shown.url]
    assert browser.run("return performance.getEntriesByType('resource').length") == 0
    paper = browser.run("return getComputedStyle(document.body).backgroundColor")
    assert (sum(int(part) for part in paper[4:-1].split(",")) < 200) is dark
    browser.resize(width, size[2])
    target = tmp_path / f"{shown.mode}-{look}.png"
    assert browser.driver.save_screenshot(str(target))
    assert target.stat().st_size > 50_000


def test_a_wide_window_is_used(browser, shown):
    browser.open(shown.url, width=1400)
    box = "return document.querySelector(arguments[0]).getBoundingClientRect().toJSON()"
    picture, words = (browser.run(box, f"#pareto {part}") for part in (".shown", ".words"))
    assert picture["right"] > 1340
    assert picture["width"] > 900
    assert words["right"] < picture["left"]
    assert browser.run(box, "#configs")["width"] > 1300
    browser.open(shown.url, width=900)
    picture, words = (browser.run(box, f"#pareto {part}") for part in (".shown", ".words"))
    assert words["top"] >= picture["bottom"]


def test_on_paper_the_page_is_light_whole_and_without_knobs(browser, tmp_path):
    write_run(tmp_path / "run", evaluations=60, n_initial=60, method="random")
    path = write_report(journal_facts(tmp_path / "run", "paper"), tmp_path / "report.html")
    browser.open(path.as_uri(), dark=True)
    media = {"media": "print", "features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    try:
        shown = """
            const seen = (e) => getComputedStyle(e).display !== "none";
            return [seen(document.getElementById("slider")),
                seen(document.getElementById("save-table")),
                [...document.querySelectorAll("#configs tbody tr")].filter(seen).length,
                getComputedStyle(document.body).backgroundColor,
                getComputedStyle(document.querySelector(".tall")).maxHeight,
                document.querySelector(".print-only").offsetHeight > 0];
        """
        assert browser.run(shown) == [False, False, 40, "rgb(255, 255, 255)", "none", True]
        assert texts(browser, ".print-only") == [
            "The first 40 rows are printed, of 60 in the file."
        ]
    finally:
        browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def test_every_named_config_says_its_hyperparameters(browser, shown):
    browser.open(shown.url)
    ranking = shown.facts.ranking
    assert ranking is not None
    own = shown.facts.config(ranking.chosen)
    assert own.startswith(f"config {ranking.chosen}: x = ")
    named = browser.run(
        'return [...document.querySelectorAll(".named")].map(e => [e.textContent, e.dataset.tip])'
    )
    assert named
    assert all(tip.startswith(f"{words}: x = ") for words, tip in named)
    script = """
        return [...document.querySelectorAll("svg [data-tip]")].map(e => e.dataset.tip)
            .filter(tip => /config \\d/.test(tip) && !/x = /.test(tip))"""
    assert browser.run(script) == []
    for panel in ("ranking", "heat-map", "pareto", "incumbent", "slices", "parallel"):
        tips = (
            f'return [...document.querySelectorAll("#{panel} [data-tip]")].map(e => e.dataset.tip)'
        )
        assert any(own.partition(": ")[2] in tip for tip in browser.run(tips)), panel


FORMULAS = ["=1+1", "+7 and more", "-2+3", "@SUM(A1)", "\t=x", 'plain, "quoted"', "＝1+1", "-0.5"]


def test_the_table_is_saved_whole_and_no_cell_is_a_formula(browser, tmp_path):
    space = {"x": Float(0.0, 1.0), "=cmd|' /C calc'!A0": Choice(FORMULAS)}
    write_run(
        tmp_path / "run", lambda c, f: c["x"] - f, space, 3, 45, method="random", n_initial=45
    )
    facts = journal_facts(tmp_path / "run", "../=run")
    path = write_report(facts, tmp_path / "report.html")
    folder = tmp_path / "saved"
    where = {"behavior": "allow", "downloadPath": str(folder)}
    browser.driver.execute_cdp_cmd("Browser.setDownloadBehavior", where)
    browser.open(path.as_uri())
    browser.run('document.getElementById("save-table").click()')
    deadline = time.monotonic() + 30
    while not list(folder.glob("*.csv")) and time.monotonic() < deadline:
        threading.Event().wait(0.1)
    (saved,) = folder.glob("*.csv")
    assert saved.name == "run-configs.csv"
    with saved.open(encoding="utf-8-sig", newline="") as file:
        head, *lines = csv.reader(file)
    ranking = facts.ranking
    assert ranking is not None
    assert len(lines) == len(ranking.rows)
    option, robust = head.index("'=cmd|' /C calc'!A0"), head.index("Robust")
    assert [float(line[robust]) for line in lines] == [row.robust for row in ranking.rows]
    assert [float(line[head.index("x")]) for line in lines] == [
        row.config["x"] for row in ranking.rows
    ]
    values = {line[option] for line in lines}
    assert {"'=1+1", "'-2+3", "'@SUM(A1)", "'＝1+1", 'plain, "quoted"', "-0.5"} <= values
    for cell in (cell for line in (head, *lines) for cell in line):
        assert cell[:1] not in "=+@\t\r＝" or cell == ""
        assert not cell.startswith("-") or float(cell)
    assert browser.console() == []
    assert {url for url in browser.requests() if not url.startswith("blob:")} == {path.as_uri()}


MISPLACED = """
    const found = [];
    for (const picture of document.querySelectorAll("svg")) {
        const frame = picture.getBoundingClientRect();
        const name = picture.getAttribute("aria-label").slice(0, 30);
        const words = [...picture.querySelectorAll("text")].filter(each => each.textContent);
        const boxes = words.map(each => each.getBoundingClientRect());
        boxes.forEach((box, i) => {
            if (box.left < frame.left - 1 || box.right > frame.right + 1 ||
                box.top < frame.top - 1 || box.bottom > frame.bottom + 1)
                found.push([name, words[i].textContent, "leaves the picture"]);
            boxes.slice(0, i).forEach((other, j) => {
                const across = Math.min(box.right, other.right) - Math.max(box.left, other.left);
                const down = Math.min(box.bottom, other.bottom) - Math.max(box.top, other.top);
                if (across > 0.5 && down > 3)
                    found.push([name, words[i].textContent, "over " + words[j].textContent]);
            });
        });
    }
    return found;
"""
MODELS = [
    f"{kind} {model}"
    for kind in ("random", "boosted", "plain", "deep", "linear")
    for model in ("forest", "regression")
]
CROWDED = {
    "ten folds": {"folds": 10, "uncertainty": 1.0},
    "ten folds, a small radius": {"folds": 10, "uncertainty": 0.05},
    "ten folds, only the mean": {"folds": 10, "uncertainty": 0.0},
    "twelve folds, only the worst": {"folds": 12, "uncertainty": 100.0},
    "a hundred folds": {"folds": 100},
    "unequal weights": {"folds": 4, "reference": [0.97, 0.01, 0.01, 0.01]},
    "kl": {"folds": 10, "uncertainty": KLBall(0.4)},
    "many options": {
        "space": {"model": Choice(MODELS), "big": Float(1e5, 3e7)},
        "score": lambda c, f: MODELS.index(c["model"]) + 0.1 * f,
    },
    "huge": {"score": lambda c, f: -1e9 * two_peaks(c, f), "mode": "min", "evaluations": 300},
    "far from zero": {"score": lambda c, f: -12345.678 - two_peaks(c, f), "folds": 10},
}


def test_words_stay_in_their_picture_and_off_each_other(browser, shown):
    browser.open(shown.url)
    assert browser.run(MISPLACED) == []


@pytest.mark.parametrize("case", list(CROWDED))
def test_words_stay_apart_where_there_is_little_room(browser, case, tmp_path):
    write_run(tmp_path / "run", **{"evaluations": 20, "method": "random", **CROWDED[case]})
    path = write_report(journal_facts(tmp_path / "run", case), tmp_path / "report.html")
    for width in (1400, 420):
        browser.open(path.as_uri(), width=width)
        assert browser.run(MISPLACED) == []


def test_everything_but_the_slider_is_there_without_scripts(browser, shown):
    browser.scripts(on=False)
    try:
        browser.open(shown.url)
        from selenium.webdriver.common.by import By

        page = browser.driver.find_element(By.TAG_NAME, "body").text
        assert browser.driver.find_element(By.ID, "slider").is_displayed() is False
        assert "With scripts on, a slider here" in page
    finally:
        browser.scripts(on=True)
    for title in PANELS:
        assert title in page
    for sentence in shown.facts.verdict.sentences:
        assert sentence in page


def test_a_set_without_a_slider_says_so(browser, tmp_path):
    write_run(tmp_path / "run", evaluations=12, method="random", uncertainty=KLBall(0.2))
    path = write_report(journal_facts(tmp_path / "run", "kl"), tmp_path / "report.html")
    browser.open(path.as_uri())
    assert browser.run('return document.getElementById("slider").hidden') is True
    assert "made for chi-square balls" in " ".join(texts(browser, "#radius .reading"))
    assert browser.console() == []


def test_a_thousand_evaluations_open_at_once(browser, tmp_path, monkeypatch):
    monkeypatch.setattr("drbqo_ray.core.surrogate.EXACT_LIMIT", 200)
    monkeypatch.setattr("drbqo_ray.core.surrogate.FIT_ROWS", 100)
    write_run(tmp_path / "run", evaluations=1000, method="random")
    path = write_report(journal_facts(tmp_path / "run", "long"), tmp_path / "report.html")
    assert path.stat().st_size <= 1_000_000
    browser.open(path.as_uri())
    assert len(rows(browser)) == 300
    assert f"{count(1000, 'evaluation')}" in texts(browser, ".checks li")[0]
    assert browser.console() == []


def test_payloads_do_nothing_but_stand_there(browser, tmp_path):
    space = {"x": Float(0.0, 1.0)} | {text: Choice([text, text + "2"]) for text in PAYLOADS}
    failing = iter(PAYLOADS)
    write_run(
        tmp_path / "run",
        lambda c, f: c["x"] + 0.1 * f,
        space,
        3,
        40,
        n_initial=40,
        objective=PAYLOADS[1],
        fails=lambda c, f, k: next(failing) if k >= 20 else None,
    )
    facts = journal_facts(tmp_path / "run", PAYLOADS[0])
    path = write_report(facts, tmp_path / "report.html")
    browser.open(path.as_uri())
    from selenium.common.exceptions import NoAlertPresentException

    with pytest.raises(NoAlertPresentException):
        _ = browser.driver.switch_to.alert
    assert browser.console() == []
    assert browser.requests() == [path.as_uri()]
    assert browser.run("return document.querySelectorAll('script').length") == 2
    assert texts(browser, "h1") == [PAYLOADS[0]]
    assert len(texts(browser, "#failures summary")) == 20
    handlers = """
        return [...document.querySelectorAll("*")].flatMap(e => [...e.attributes])
            .filter(a => a.name.startsWith("on") || /^(href|src|style)$/.test(a.name)).length"""
    assert browser.run(handlers) == 0


def test_a_watched_page_loads_itself_anew_when_the_run_goes_on(browser, shown):
    version = ["one"]
    server = PageServer(
        lambda: version[0], lambda word: render_page(shown.facts, word).replace("two peaks", word)
    )
    try:
        browser.open(server.url)
        assert texts(browser, "h1") == ["one"]
        version[0] = "two"
        deadline = time.monotonic() + 60
        while texts(browser, "h1") != ["two"] and time.monotonic() < deadline:
            threading.Event().wait(0.2)
        assert texts(browser, "h1") == ["two"]
        assert [line for line in browser.console() if "favicon" not in line] == []
        assert {url for url in browser.requests() if "favicon" not in url} == {
            server.url,
            f"{server.url}version",
        }
    finally:
        browser.driver.get("about:blank")
        server.close()
