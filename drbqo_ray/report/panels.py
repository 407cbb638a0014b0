"""The panels of the page in their order: question, pictures, and how to read them."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from drbqo_ray.report.draw.effects import draw_importance, draw_slice
from drbqo_ray.report.draw.gantt import LANES, draw_gantt
from drbqo_ray.report.draw.heat import draw_heat
from drbqo_ray.report.draw.progress import draw_progress
from drbqo_ray.report.draw.radius import draw_radius, draw_shortfall
from drbqo_ray.report.draw.slope import draw_slope, slope_rows
from drbqo_ray.report.draw.trade_off import draw_trade_off, in_view
from drbqo_ray.report.draw.weights import draw_weights, shown_folds
from drbqo_ray.report.facts import Facts
from drbqo_ray.report.wording import count, name_text, percent, seconds, short

NOTHING = "Nothing to show yet: no config has a score and no failed fold."


@dataclass(frozen=True)
class Panel:
    """One panel.

    Attributes:
        key: its name in the page.
        title: its heading.
        question: what it answers.
        pictures: wide pictures.
        small: pictures side by side.
        reading: sentences below the pictures.
    """

    key: str
    title: str
    question: str
    pictures: tuple[Markup, ...] = ()
    small: tuple[Markup, ...] = ()
    reading: tuple[str, ...] = ()


def panels(facts: Facts) -> tuple[Panel, ...]:
    """All panels after the verdict."""
    return (
        _ranking(facts),
        _heat_map(facts),
        _weights(facts),
        _radius(facts),
        _pareto(facts),
        _incumbent(facts),
        _parameters(facts),
        _timeline(facts),
        _failures(facts),
        _reproduce(facts),
    )


def _ranking(facts: Facts) -> Panel:
    key, title = "ranking", "Mean against robust ranking"
    question = "Does robustness change the choice?"
    ranking = facts.ranking
    if ranking is None or ranking.chosen is None:
        return Panel(key, title, question, reading=(NOTHING,))
    rows = slope_rows(ranking)
    reading = [f"Shown: {count(len(rows), 'config')} among the first by either score."]
    if ranking.agreement is not None:
        reading[0] += (
            f" Over all {count(ranking.ranked, 'config')} Kendall's tau between both orders is"
            f" {ranking.agreement:.2f}; 1 means that they agree."
        )
    return Panel(key, title, question, (draw_slope(facts, ranking),), reading=tuple(reading))


def _heat_map(facts: Facts) -> Panel:
    key, title, question = "heat-map", "Configs by folds", "Which fold hurts?"
    heat = facts.heat_map
    if heat is None:
        return Panel(key, title, question, reading=(NOTHING,))
    reading = (
        f"The strongest color is the worst score; the hardest fold is {facts.fold(heat.hardest)}."
        " Hatched cells were not trained: the model fills them in. ✕ marks a failed evaluation."
    )
    beyond = sum(cell.beyond for row in heat.cells for cell in row)
    if beyond:
        reading += (
            f" All scores of this run are {facts.score_range.words}, which the model does not know:"
            f" {count(beyond, 'hatched cell')} with an estimate beyond show the end of that range."
        )
    assert facts.ranking is not None
    left = facts.ranking.total - len(heat.configs)
    if left:
        reading += f" {count(left, 'config')} further down the ranking are left out."
    if heat.n_folds > len(heat.folds):
        reading += f" Of {heat.n_folds:,} folds the {len(heat.folds)} with most weight are shown."
    return Panel(key, title, question, (draw_heat(facts, heat),), reading=(reading,))


def _weights(facts: Facts) -> Panel:
    key, title = "weights", "Worst-case weights"
    question = "Which folds does the adversary pick?"
    weights = facts.weights
    if weights is None:
        return Panel(key, title, question, reading=(NOTHING,))
    reading = [
        f"Weighted like this the folds of config {weights.config} give its robust score: no other"
        f" weights in the set ({facts.set_words}) give a worse one."
    ]
    if weights.measure is not None and weights.distance is not None and weights.limit is not None:
        reading[0] += (
            f" Their {weights.measure} is {short(weights.distance, 4)}; the set allows"
            f" {short(weights.limit, 4)}."
        )
    left = len(weights.weights) - len(shown_folds(weights))
    if left:
        reading.append(f"{count(left, 'fold')} with less weight are left out.")
    return Panel(key, title, question, (draw_weights(facts, weights),), reading=tuple(reading))


def _radius(facts: Facts) -> Panel:
    key, title = "radius", "Robust score against radius"
    question = "What does caution cost, and where does the winner change?"
    path = facts.radius_path
    if facts.ranking is None or facts.ranking.chosen is None:
        return Panel(key, title, question, reading=(NOTHING,))
    if path is None:
        alone = sum(weight > 0 for weight in facts.reference) == 1
        why = "There is one fold" if alone else "The set has one size"
        text = f"{why}, so the score does not depend on a radius."
        return Panel(key, title, question, reading=(text,))
    reading = [
        "The winner is the same at every size."
        if not path.changes
        else f"The winner changes at {count(len(path.changes), 'size')}: "
        + "; ".join(f"{short(c.size)} (config {c.before} to {c.after})" for c in path.changes[:8])
        + ("; and more." if len(path.changes) > 8 else ".")
    ]
    if not path.mean_minus_spread:
        reading.append(
            "The slider that ranks configs anew is made for chi-square balls and is left out; the"
            " curve above was solved for this run's own kind of set."
        )
    pictures = [draw_radius(facts, path)]
    if path.changes:
        pictures.append(draw_shortfall(facts, path))
    return Panel(key, title, question, tuple(pictures), reading=tuple(reading))


def _pareto(facts: Facts) -> Panel:
    key, title = "pareto", "Mean and spread"
    question = "What is the trade-off between a good mean and steady folds?"
    pareto = facts.pareto
    if pareto is None or facts.ranking is None:
        return Panel(key, title, question, reading=(NOTHING,))
    front = sum(point.on_front for point in pareto.points)
    reading = (
        f"{count(front, 'config')} on the front{', joined by a line' if front > 1 else ''}:"
        " no other has a better mean and less spread."
    )
    if facts.radius_path is not None and facts.radius_path.mean_minus_spread:
        reading += (
            " The dashed line joins points of equal robust score, as long as every fold keeps some"
            " weight."
        )
    hidden = pareto.left_out + len(pareto.points) - len(in_view(pareto, facts.minimize))
    if hidden:
        reading += f" {count(hidden, 'config')} with worse means are left out of the picture."
    return Panel(key, title, question, (draw_trade_off(facts, pareto),), reading=(reading,))


def _incumbent(facts: Facts) -> Panel:
    key, title, question = "incumbent", "The recommendation over time", "Has it converged?"
    incumbent = facts.incumbent
    if incumbent is None:
        return Panel(key, title, question, reading=(NOTHING,))
    pictures = [draw_progress(facts, incumbent, by_seconds=False)]
    timed = all(point.seconds is not None for point in incumbent.checkpoints)
    if timed:
        pictures.append(draw_progress(facts, incumbent, by_seconds=True))
    reading = (
        f"The recommendation last changed at {count(incumbent.last_change, 'evaluation')}. The"
        " band holds 95 % of the model's belief. All points use the final parameters of the model,"
        " so early ones can differ from what was shown while the run went on."
    )
    if not timed:
        reading += " No times were recorded, so there is no curve over seconds."
    return Panel(key, title, question, tuple(pictures), reading=(reading,))


def _parameters(facts: Facts) -> Panel:
    key, title, question = "parameters", "Parameters", "Which parameter matters, and how?"
    importance = facts.importance
    if importance is None:
        return Panel(key, title, question, reading=(NOTHING,))
    reading = (
        "Importance is the share of the variation of the modelled robust score over the whole"
        " space that a parameter has a hand in, alone or with others; shares can sum to more than"
        f" 100 %. It is estimated along {importance.lines} random lines for each parameter. In the"
        " slices the other parameters are as in the recommended config, whose place the upright"
        " line marks; short ticks are the values tried."
    )
    hidden = len(importance.effects) - 20
    if hidden > 0:
        rest = importance.effects[20][1]
        reading += f" {count(hidden, 'parameter')} of at most {percent(rest)} are left out."
    slices = tuple(draw_slice(facts, part) for part in importance.slices)
    return Panel(key, title, question, (draw_importance(importance),), slices, (reading,))


def _timeline(facts: Facts) -> Panel:
    key, title, question = "timeline", "Worker timeline", "Were the workers idle?"
    timeline = facts.timeline
    if timeline is None:
        return Panel(
            key,
            title,
            question,
            reading=("No times were recorded for this run, so there is no timeline.",),
        )
    reading = (
        f"The workers were busy {percent(timeline.utilisation)} of the time:"
        f" {seconds(timeline.busy)} of evaluations in {seconds(timeline.end - timeline.start)} on"
        f" {count(len(timeline.lanes), 'lane')}, the most that ran at a time. The journal has no"
        " start times: a bar ends when its outcome was recorded and is as long as the evaluation"
        " ran."
    )
    if not all(bar.ok for bar in timeline.bars):
        reading += " Bars of half the height failed."
    if timeline.untimed:
        reading += f" {count(timeline.untimed, 'evaluation')} without a time have no bar."
    if len(timeline.lanes) > LANES:
        reading += f" The first {LANES} lanes are shown."
    return Panel(key, title, question, (draw_gantt(facts, timeline),), reading=(reading,))


def _failures(facts: Facts) -> Panel:
    key, title, question = "failures", "Failures", "What broke?"
    failures = facts.failures
    if not failures.total:
        return Panel(key, title, question, reading=("No evaluation failed.",))
    folds = ", ".join(
        f"{facts.fold(fold)}: {number}" for fold, number in enumerate(failures.per_fold) if number
    )
    reading = (
        f"{failures.total:,} of {count(failures.evaluations, 'evaluation')} failed ({folds[:400]})."
        " A config with a failed fold is never recommended."
    )
    left = failures.total - len(failures.shown)
    if left:
        reading += f" The first {len(failures.shown)} are listed, {left:,} are left out."
    return Panel(key, title, question, reading=(reading,))


def _reproduce(facts: Facts) -> Panel:
    reading = (
        ()
        if facts.about.reproduce
        else (f"How to run {name_text(facts.about.name)} again was not recorded.",)
    )
    return Panel("reproduce", "Reproduce", "How is this run done again?", reading=reading)
