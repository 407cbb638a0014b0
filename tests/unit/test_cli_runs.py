"""`drbqo list | status | export | compare`: tables, JSON, files, exit codes."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import drbqo_ray as dr
from drbqo_ray.cli.main import cli
from drbqo_ray.storage.journal import JOURNAL
from tests.support.injections import PAYLOADS
from tests.support.report_runs import write_run

ESCAPE = "\x1b[31mred"


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("cli") / "runs"
    for method in ("drbqo", "random"):
        for seed in (0, 1):
            write_run(root / f"{method}-{seed}", evaluations=12, method=method, seed=seed)
    write_run(root / "other", evaluations=8, uncertainty=0.3, finished=False)
    write_run(root / "bad", evaluations=3, objective=ESCAPE, fails=lambda *_: ESCAPE)
    (root / "corrupt").mkdir()
    whole = (root / "other" / JOURNAL).read_bytes()
    (root / "corrupt" / JOURNAL).write_bytes(whole[:600] + b"#" + whole[601:])
    return root


def invoke(*words: object, code: int = 0) -> Result:
    result = CliRunner().invoke(cli, [str(word) for word in words])
    assert result.exit_code == code, result.output
    return result


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.split("  ") if cell.strip()]


def test_list_has_a_head_and_one_line_a_run(runs):
    lines = invoke("list", runs).stdout.splitlines()
    assert cells(lines[0])[:3] == ["run", "state", "done"]
    found = {cells(line)[0]: cells(line)[1:] for line in lines[1:]}
    assert found.keys() == {path.name for path in runs.iterdir()}
    assert found["drbqo-0"][:2] == ["finished", "12/12"]
    best = dr.load(runs / "drbqo-0").recommendation.robust_value
    assert f"{best:.5g}" in found["drbqo-0"]
    assert found["other"][0] == "cut off"
    assert found["bad"][:3] == ["finished", "3/3", "3"]
    assert found["corrupt"][0] == "unreadable"
    assert "byte" in found["corrupt"][-1]


@pytest.mark.parametrize("command", ["list", "compare", "status"])
def test_nothing_in_a_journal_acts_on_the_terminal(runs, command):
    output = invoke(command, runs if command != "compare" else runs / "bad").output
    assert "\x1b" not in output
    assert r"\x1b[31mred" in output or command == "compare"


def test_list_of_nothing_says_so(tmp_path):
    result = invoke("list", tmp_path)
    assert result.stdout == ""
    assert "no runs" in result.stderr
    assert json.loads(invoke("list", tmp_path, "--json").stdout) == []


def test_list_without_a_folder_means_runs(runs, monkeypatch):
    monkeypatch.chdir(runs.parent)
    assert invoke("list").stdout.splitlines()[1:]


@pytest.mark.parametrize("words", [("list", "no"), ("export", "no"), ("compare", "no")])
def test_a_place_that_is_not_there_is_bad_usage(words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = invoke(*words, code=2)
    assert result.stdout == ""
    assert "Got" in result.stderr
    assert "Traceback" not in result.stderr


def test_list_as_json_is_what_list_runs_returns(runs):
    plain = json.loads(invoke("list", runs, "--json").stdout)
    expected = {run.name: run for run in dr.list_runs(runs)}
    assert {one["name"]: one["best"] for one in plain} == {n: r.best for n, r in expected.items()}
    assert {one["state"] for one in plain} == {"finished", "cut off", "unreadable"}


def test_status_as_json_has_the_answer(runs):
    plain = json.loads(invoke("status", runs / "other", "--json").stdout)
    found = dr.load(runs / "other")
    assert plain["recommendation"]["config"] == found.recommendation.config == plain["best_config"]
    assert plain["certainty"]["loss"] == found.certainty.loss
    assert (plain["state"], plain["n_done"]) == ("cut off", 8)
    assert len(json.loads(invoke("status", runs, "--json").stdout)) == 7


def test_status_as_json_without_an_answer_says_none(runs):
    plain = json.loads(invoke("status", runs / "bad", "--json").stdout)
    assert plain["recommendation"] is None
    assert plain["best"] is None


def test_export_writes_every_evaluation(runs, tmp_path):
    found = dr.load(runs / "drbqo-0")
    rows = list(csv.DictReader(io.StringIO(invoke("export", runs / "drbqo-0").stdout)))
    assert [float(row["score"]) for row in rows] == [seen.score for seen in found.observations]
    assert [float(row["config.x"]) for row in rows] == [
        seen.config["x"] for seen in found.observations
    ]
    plain = json.loads(invoke("export", runs / "drbqo-0", "--json").stdout)
    assert [seen["score"] for seen in plain["observations"]] == [
        seen.score for seen in found.observations
    ]
    assert plain["recommendation"]["config"] == found.recommendation.config
    same = invoke("export", runs / "drbqo-0", "--format", "json", "--out", tmp_path / "x.json")
    assert same.stdout == ""
    assert json.loads((tmp_path / "x.json").read_text()) == plain


def test_export_to_parquet_reads_back(tmp_path):
    import pandas as pd

    space = {"x": dr.Float(0, 1), "kind": dr.Choice(["a", None, 3, True])}
    score = lambda config, fold: config["x"]  # noqa: E731
    directory = write_run(tmp_path / "r", score, space, 2, 12)
    invoke("export", directory, "--format", "parquet", "--out", tmp_path / "x.parquet")
    frame = pd.read_parquet(tmp_path / "x.parquet")
    found = dr.load(directory)
    assert list(frame["score"]) == [seen.score for seen in found.observations]
    told = [None if pd.isna(t) else json.loads(t) for t in frame["config.kind"]]
    assert told == [seen.config["kind"] for seen in found.observations]


def test_export_to_parquet_needs_a_file_and_a_file_must_be_writable(runs, tmp_path):
    assert "--out" in invoke("export", runs / "other", "--format", "parquet", code=2).stderr
    target = tmp_path / "none" / "x.csv"
    assert "No such file" in invoke("export", runs / "other", "--out", target, code=2).stderr


def test_compare_shows_answers_differences_seeds_and_curves(runs):
    names = [f"{method}-{seed}" for method in ("drbqo", "random") for seed in (0, 1)]
    text = invoke("compare", *(runs / name for name in names)).stdout
    found = {name: dr.load(runs / name).recommendation for name in names}
    best = max(names, key=lambda name: found[name].robust_value)
    (starred,) = [line for line in text.splitlines() if line.startswith("* ")]
    assert starred.split()[1] == best
    for name in names:
        assert f"{found[name].robust_value:.5g}" in text
    assert "random-1: method: 'drbqo' -> 'random'; seed: 0 -> 1" in text
    gaps = [found[f"drbqo-{k}"].robust_value - found[f"random-{k}"].robust_value for k in (0, 1)]
    assert f"method drbqo minus method random: {sum(gaps) / 2:.5g} (" in text
    assert f"2 seeds, better in {sum(g > 0 for g in gaps)} and worse in" in text


def test_runs_about_different_problems_are_not_ranked(runs):
    text = invoke("compare", runs / "drbqo-0", runs / "other").stdout
    assert "do not mean the same" in text
    assert not [line for line in text.splitlines() if line.startswith("* ")]
    assert "uncertainty.radius: 1.0 -> 0.3" in text
    assert "the same seeds" not in text


def test_smaller_is_better_where_it_is(tmp_path):
    for seed in (0, 1):
        write_run(tmp_path / f"r{seed}", evaluations=8, mode="min", seed=seed)
    plain = json.loads(invoke("compare", tmp_path, "--json").stdout)
    lowest = min(plain["runs"], key=lambda run: run["robust_value"])
    text = invoke("compare", tmp_path).stdout
    assert f"* {lowest['name']}" in text


def test_comparing_a_folder_names_what_it_leaves_out(runs):
    result = invoke("compare", runs, "--json")
    names = {run["name"] for run in json.loads(result.stdout)["runs"]}
    assert names == {path.name for path in runs.iterdir()} - {"corrupt"}
    assert "left out corrupt" in result.stderr


def test_comparing_a_damaged_run_by_name_is_refused(runs):
    assert "byte" in invoke("compare", runs / "corrupt", code=2).stderr


def test_a_curve_ends_at_what_is_recommended(runs):
    (run,) = json.loads(invoke("compare", runs / "drbqo-1", "--json").stdout)["runs"]
    sizes = [size for size, _ in run["curve"]]
    assert sizes == sorted(set(sizes))
    assert sizes[-1] == 12
    assert run["curve"][-1][1] == pytest.approx(run["robust_value"], rel=1e-9)


def test_curves_are_written_to_a_picture_or_a_table(runs, tmp_path):
    pair = runs / "drbqo-0", runs / "random-0"
    invoke("compare", *pair, "--out", tmp_path / "c.png")
    assert (tmp_path / "c.png").read_bytes().startswith(b"\x89PNG")
    invoke("compare", *pair, "--out", tmp_path / "c.csv")
    rows = list(csv.DictReader(io.StringIO((tmp_path / "c.csv").read_text())))
    assert {row["run"] for row in rows} == {"drbqo-0", "random-0"}
    assert ".csv" in invoke("compare", *pair, "--out", tmp_path / "c.xyz", code=2).stderr


def test_hostile_names_are_written_to_a_picture(tmp_path):
    directories = [
        write_run(tmp_path / f"r{k}", evaluations=3, objective=text)
        for k, text in enumerate(PAYLOADS[:3])
    ]
    invoke("compare", *directories, "--out", tmp_path / "c.svg")
    assert "<script>alert" not in (tmp_path / "c.svg").read_text()


def test_the_shell_completes_commands_and_options():
    done = subprocess.run(
        [sys.executable, "-m", "drbqo_ray.cli.main"],
        env={"_DRBQO_COMPLETE": "bash_complete", "COMP_WORDS": "drbqo li", "COMP_CWORD": "1"},
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    assert done.stdout.split() == ["plain,list"]
