"""The facts as one HTML file that works offline, with scripts off, and under a strict policy."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import tempfile
from collections.abc import Iterator
from importlib.metadata import version as installed_version
from importlib.resources import files
from pathlib import Path

from markupsafe import Markup, escape

from drbqo_ray.errors import InvalidInput
from drbqo_ray.records import BAND
from drbqo_ray.report.draw import fill
from drbqo_ray.report.facts import Facts
from drbqo_ray.report.panels import all_panels
from drbqo_ray.report.panels.radius import slider_data
from drbqo_ray.report.wording import LONG_VALUE, name_text, seconds, short, with_band
from drbqo_ray.runtime.terminal import printable

CONFIG = re.compile(r"\bconfig (\d{1,9})\b", re.ASCII)
VALUES_ARE = {
    True: "Values are scores, filled in by the model where a fold was not trained",
    False: "Values are posterior means of the model on the scale of your scores",
}

VERDICTS = {"clear": "clear", "tied": "practically tied", "open": "not settled"}


def render_page(facts: Facts, watch_version: str | None = None) -> str:
    """The page.

    Args:
        facts: what to show.
        watch_version: a word that changes with the run when the page is served while the run goes
            on; the page then asks for it and loads itself anew.
    """
    style, script = (Markup(_resource(name)) for name in ("page.css", "page.js"))
    page = fill(
        _resource("page.html"),
        facts=facts,
        name=name_text(facts.about.name),
        tiles=list(_tiles(facts)),
        key_numbers=list(_key_numbers(facts)),
        recommended=_recommended(facts),
        panels=all_panels(),
        data=json_block(slider_data(facts)),
        style=style,
        script=script,
        policy=_policy(style, script, watch_version is not None),
        version=watch_version,
        drbqo_version=installed_version("drbqo_ray"),
        values_are=VALUES_ARE[facts.filled],
        named=lambda words: _named(facts, words),
    )
    return page.encode("utf-8", "backslashreplace").decode("utf-8")


def _named(facts: Facts, words: str) -> Markup:
    """A sentence in which every config says its hyperparameters when the pointer rests on it."""

    def name(found: re.Match[str]) -> str:
        number = int(found[1])
        if number >= len(facts.configs):
            return found[0]
        marked = Markup('<span class="named" title="{}">{}</span>')
        return marked.format(facts.config(number), found[0])

    return Markup(CONFIG.sub(name, str(escape(words))))


def write_report(facts: Facts, path: str | Path) -> Path:
    """Write the page to `path`, replacing what is there in one step; returns the path.

    The file is readable by its owner alone, like the run itself.
    """
    return write_page(render_page(facts), path)


def write_page(page: str, path: str | Path) -> Path:
    """Write a page to `path` in one step; InvalidInput when that cannot be done."""
    target = Path(os.path.abspath(os.path.expanduser(path)))
    if target.is_dir():
        raise InvalidInput("A report is a file.", str(target), "Add a name such as report.html.")
    try:
        handle, name = tempfile.mkstemp(prefix=".report-", suffix=".html", dir=target.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(page)
            os.replace(name, target)
        except BaseException:
            os.unlink(name)
            raise
    except OSError as error:
        raise InvalidInput(
            f"The report must be written to a place that exists and is writable: "
            f"{error.strerror or error}.",
            str(target),
            "Choose another file.",
        ) from None
    return target


def _resource(name: str) -> str:
    return files("drbqo_ray.report").joinpath(name).read_text(encoding="utf-8")


def _policy(style: str, script: str, watched: bool) -> str:
    """Nothing but the style and the script of this very page, and its own server when watched."""
    rules = ["default-src 'none'", f"style-src '{_hash(style)}'", f"script-src '{_hash(script)}'"]
    rules += ["base-uri 'none'", "form-action 'none'"]
    return "; ".join([*rules, "connect-src 'self'"] if watched else rules)


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"sha256-{base64.b64encode(digest).decode('ascii')}"


def json_block(plain: object) -> Markup:
    """Plain data as JSON in which no character can end the block it stands in."""
    text = json.dumps(plain, allow_nan=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def _tiles(facts: Facts) -> Iterator[tuple[str, str]]:
    about = facts.about
    done = f"{facts.evaluations:,}"
    done += f" of {about.budget:,}" if about.budget is not None else ""
    yield "state", about.state or "under way or cut off"
    yield "evaluations", done
    if facts.failures.total:
        yield "failed", f"{facts.failures.total:,}"
    if facts.pending:
        yield "pending", f"{facts.pending:,}"
    yield "folds", f"{facts.n_folds:,}"
    yield "scores", facts.better
    yield "uncertainty set", facts.set_words
    if about.method is not None:
        yield "method", name_text(about.method)
    if about.objective is not None:
        yield "objective", name_text(about.objective)
    if about.seconds is not None:
        yield "time", seconds(about.seconds)


def _key_numbers(facts: Facts) -> Iterator[tuple[str, str]]:
    ranking, weights = facts.ranking, facts.weights
    row = ranking.row(ranking.chosen) if ranking is not None else None
    if row is None or weights is None:
        return
    digits, expects = facts.digits, facts.verdict.forecast
    if expects is not None:
        low, high = (digits.text(end) for end in expects.interval)
        yield "in a new environment", digits.text(expects.expected)
        yield f"{100 * expects.level:g} % interval there", f"{low} to {high}"
    yield "robust score", with_band(digits.text(row.robust), BAND * row.std)
    yield "mean score", digits.text(row.mean)
    yield f"worst fold ({facts.fold(row.worst_fold)})", digits.text(row.worst)
    yield "spread between folds", digits.text(row.spread)
    sure = facts.verdict.certainty
    if sure is not None:
        yield "verdict", VERDICTS[sure.verdict.kind]
        yield "probability of being best", f"{sure.probability:.2f}"
        yield "expected loss of stopping", short(sure.loss, 2)


def _recommended(facts: Facts) -> list[tuple[str, str]]:
    row = facts.ranking.row(facts.ranking.chosen) if facts.ranking is not None else None
    if row is None:
        return []
    return [(name_text(name), printable(value, LONG_VALUE)) for name, value in row.config.items()]
