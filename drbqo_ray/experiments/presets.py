"""The experiments and their settings: the paper's, and small ones that finish soon.

Where the paper is silent (horizon and start of appendix C, radii of the SVM) the presets say so
in their notes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from drbqo_ray.errors import InvalidInput
from drbqo_ray.experiments.problems import ProblemSpec

PRESETS = ("paper", "small")

_BASELINES = ("bqo-ts", "maximin-bqo-ts", "bqo-ei", "maximin-bqo-ei")
_RANDW = ("drbqo-randw", "bqo-ts-randw", "bqo-ei-randw")
_TABLE_METHODS = ("drbqo", "mtbo", "bqo-ei", "bqo-ts")


@dataclass(frozen=True)
class Preset:
    """The settings of one experiment.

    Attributes:
        experiment: name of the experiment.
        name: "paper" or "small".
        problem: what is tuned.
        methods: series to show, see `drbqo_ray.experiments.series`.
        radii: chi-square radii.
        n_initial: pairs every method starts from.
        horizon: evaluations after those.
        n_seeds: repetitions.
        notes: what the reader of a table must know.
    """

    experiment: str
    name: str
    problem: ProblemSpec
    methods: tuple[str, ...]
    radii: tuple[float, ...]
    n_initial: int
    horizon: int
    n_seeds: int
    notes: tuple[str, ...] = ()

    @property
    def seeds(self) -> range:
        """The seeds, counted from 0."""
        return range(self.n_seeds)


_LOGISTIC = Preset(
    "logistic",
    "paper",
    ProblemSpec("surface", "logistic"),
    ("drbqo", "emp-drbqo", *_BASELINES, *_RANDW, "random"),
    (0.1, 0.3, 0.5, 1.0, 3.0),
    n_initial=12,
    horizon=100,
    n_seeds=30,
    notes=("box of x is [-2, 2]^2 and w from numpy RandomState(84); the paper gives neither",),
)

_APPENDIX = (
    "the paper gives no horizon and no number of initial points here; those of the"
    " logistic example are used",
)
_HARTMANN = (
    "w has standard deviation 0.1: with 1, as printed, every robust value in the unit"
    " cube is close to 0",
)


def _surface(name: str, notes: tuple[str, ...] = ()) -> Preset:
    methods = ("drbqo", "emp-drbqo", *_BASELINES, "random")
    spec = ProblemSpec("surface", name)
    return Preset(name, "paper", spec, methods, (1.0,), 12, 100, 30, _APPENDIX + notes)


def _svm(dataset: str) -> Preset:
    spec = ProblemSpec("workers.svm:SVMFolds", dataset, (("n_folds", 5),), split_by_seed=True)
    notes = (
        "the paper gives no radius, horizon or number of initial points here; each seed has"
        " a train/test split and folds of its own, shared by all methods",
    )
    methods = (*_TABLE_METHODS, "maximin-bqo-ts", "maximin-bqo-ei", "emp-drbqo", "random")
    radii = (0.1, 0.3, 0.5, 1.0, 2.0)
    return Preset(f"svm-{dataset}", "paper", spec, methods, radii, 6, 60, 30, notes)


def _mnist(experiment: str, kind: str, options: dict[str, Any], start: int, horizon: int) -> Preset:
    spec = ProblemSpec(kind, "mnist", tuple({"n_folds": 10, **options}.items()), judge_all=False)
    notes = (
        "stratified folds of the training images; the test error is that of a model"
        " trained on all folds",
    )
    radii = (0.1, 0.3, 0.5, 1.0, 3.0, 5.0)
    return Preset(experiment, "paper", spec, _TABLE_METHODS, radii, start, horizon, 20, notes)


PAPER = {
    preset.experiment: preset
    for preset in (
        _LOGISTIC,
        _surface("beale"),
        _surface("eggholder"),
        _surface("hartmann3", _HARTMANN),
        _surface("hartmann6", _HARTMANN),
        _surface("levy"),
        _svm("glass"),
        _svm("sonar"),
        _mnist("elasticnet", "workers.elasticnet:ElasticNetFolds", {}, 6, 60),
        _mnist("cnn", "workers.cnn:CNNFolds", {"preset": "paper"}, 9, 90),
    )
}

GROUPS = {
    "synthetic": ("beale", "eggholder", "hartmann3", "hartmann6", "levy"),
    "svm": ("svm-glass", "svm-sonar"),
    "mnist": ("elasticnet", "cnn"),
}

_SMALL: dict[str, dict[str, Any]] = {
    "elasticnet": {"subset": 1000, "n_seeds": 10, "horizon": 40, "radii": (0.3, 1.0, 5.0)},
    "cnn": {
        "subset": 400,
        "epochs": 3,
        "batch_size": 32,
        "n_seeds": 10,
        "horizon": 20,
        "radii": (1.0, 5.0),
    },
}
_SMALL_DEFAULT: dict[str, Any] = {"n_seeds": 5, "horizon": 40}


def find_preset(experiment: str, name: str = "paper", seeds: int | None = None) -> Preset:
    """The settings of an experiment.

    Args:
        experiment: its name.
        name: "paper" or "small".
        seeds: number of repetitions instead of the preset's.
    """
    if experiment not in PAPER:
        raise InvalidInput(
            "The experiment must be one we know.",
            experiment,
            f"Use one of {[*PAPER, *GROUPS, 'theory']}.",
        )
    if name not in PRESETS:
        raise InvalidInput("The preset must be one we know.", name, f"Use one of {PRESETS}.")
    if seeds is not None and (isinstance(seeds, bool) or not isinstance(seeds, int) or seeds < 2):
        raise InvalidInput(
            "The number of seeds is a whole number of at least 2.", seeds, "Pass e.g. 10."
        )
    preset = PAPER[experiment] if name == "paper" else _small(PAPER[experiment])
    return preset if seeds is None else replace(preset, n_seeds=seeds)


def members(name: str) -> tuple[str, ...]:
    """The experiments of a group, or the experiment itself."""
    return GROUPS.get(name, (name,))


def _small(paper: Preset) -> Preset:
    settings = dict(_SMALL.get(paper.experiment, _SMALL_DEFAULT))
    options = dict(paper.problem.options)
    for key in ("subset", "epochs", "batch_size"):
        if key in settings:
            options[key] = settings.pop(key)
    problem = replace(paper.problem, options=tuple(options.items()))
    return replace(paper, name="small", problem=problem, **settings)


def difference(preset: Preset) -> str:
    """How the settings differ from the paper's, as one phrase for captions."""
    paper = PAPER[preset.experiment]
    parts = []
    for field, label in (("n_seeds", "seeds"), ("horizon", "horizon"), ("radii", "radii")):
        here, there = getattr(preset, field), getattr(paper, field)
        if here != there:
            parts.append(f"{label} {_plain(here)} (paper {_plain(there)})")
    usual = {"subset": "all", "epochs": 20, "batch_size": 128}
    before = dict(paper.problem.options)
    for key, value in preset.problem.options:
        if before.get(key) != value:
            what = "training images" if key == "subset" else key
            parts.append(f"{what} {value} (paper {before.get(key, usual.get(key))})")
    return f"{preset.name} preset: " + (", ".join(parts) if parts else "the paper's settings")


def _plain(value: object) -> str:
    return ", ".join(f"{v:g}" for v in value) if isinstance(value, tuple) else str(value)
