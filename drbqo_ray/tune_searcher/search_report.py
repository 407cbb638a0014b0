"""A Tune search as one HTML page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from pprint import pformat

from drbqo_ray.errors import NothingObserved, short_repr
from drbqo_ray.report.facts import About, Snippet, gather
from drbqo_ray.report.page import write_report
from drbqo_ray.report.wording import count
from drbqo_ray.tune_searcher.problem import TuneProblem
from drbqo_ray.tune_searcher.running import RunningSearch
from drbqo_ray.tune_searcher.space import MARKERS, Branch, Constant, Node, Objects, Options


def write_search_report(running: RunningSearch, path: str | Path) -> Path:
    """Write the page of a search with results to `path`; returns the path."""
    return write_report(gather(running.ledger.optimizer, _about(running)), path)


def _about(running: RunningSearch) -> About:
    problem, live = running.problem, len(list(running.live))
    details = [("metric", f"{problem.metric} ({problem.mode}), {problem.reported} report")]
    details += [("stopped", running.stopped)] if running.stopped is not None else []
    details += [
        (f"options of {node.name}", _legend(node, running.objects))
        for node in _numbered(running.space.root)
    ]
    snippets = [Snippet("Searcher", _searcher(problem))]
    try:
        found = pformat(running.recommend().config, sort_dicts=False)
        snippets.insert(0, Snippet("Recommended config", found))
    except NothingObserved:
        pass
    return About(
        name="DRBQOSearch",
        objective=problem.metric,
        method=problem.settings["method"],
        state=f"{count(live, 'trial')} under way" if live else "no trial under way",
        fold_labels=("all data",) if problem.folds.key is None else (),
        details=tuple(details),
        reproduce=tuple(snippets),
    )


def _numbered(node: Node) -> Iterator[Options]:
    """The choices that are searched by number."""
    inside: tuple[Node, ...] = ()
    if isinstance(node, Options):
        yield node
        inside = node.nodes
    elif isinstance(node, Branch):
        inside = tuple(child for _, child in node.children)
    for child in inside:
        yield from _numbered(child)


def _legend(node: Options, objects: Objects) -> str:
    texts = [
        short_repr(objects[node.name, k], 60) if (node.name, k) in objects else _text(option)
        for k, option in enumerate(node.nodes)
    ]
    return "; ".join(f"{k} = {text}" for k, text in enumerate(texts))


def _text(node: Node) -> str:
    """A part of the space in words; what is searched in it stands there by name."""
    if isinstance(node, Branch):
        return ", ".join(f"{key}: {_text(child)}" for key, child in node.children)
    if not isinstance(node, Constant):
        return node.name
    hidden = isinstance(node.value, tuple) and node.value[:1] in [(mark,) for mark in MARKERS]
    return "an object that Tune keeps" if hidden else short_repr(node.value, 60)


def _searcher(problem: TuneProblem) -> str:
    """Code that makes the searcher again; the search space is that of the Tuner."""
    plain = problem.to_dict()
    before, uncertainty = problem.settings["uncertainty"].to_python()
    folds = list(problem.folds.names) or problem.folds.count
    given = {
        "n_folds": None if problem.folds.key is None else folds,
        "fold_key": problem.folds.key or "fold",
        "metric": problem.metric,
        "mode": problem.mode,
        "reported": problem.reported,
        **{name: value for name, value in plain["settings"].items() if value is not None},
    }
    lines = [
        f"    {name}={uncertainty if name == 'uncertainty' else repr(value)},"
        for name, value in given.items()
    ]
    return "\n".join(
        [
            before,
            "from drbqo_ray.tune_searcher import DRBQOSearch",
            "",
            "search = DRBQOSearch(",
            *lines,
            ")",
        ]
    )
