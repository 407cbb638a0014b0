"""How `drbqo status` words a recommendation."""

from drbqo_ray import Recommendation
from drbqo_ray.cli.saved_run import recommendation_lines, value_in_words
from drbqo_ray.optimizer.certainty import Certainty


def found(std: float) -> Recommendation:
    return Recommendation({"C": 2.0}, 0.75, 0.8, [0.5, 0.5], [0.7, 0.9], [std, std], std)


def test_a_band_is_half_of_a_95_percent_interval() -> None:
    best, config = recommendation_lines(found(0.01))
    assert best == "best       0.75 ± 0.02 robust, 0.8 mean"
    assert config.split() == ["C", "=", "2"]


def test_what_is_known_has_no_band() -> None:
    best, _, verdict, value = recommendation_lines(
        found(0.0), Certainty(0.5, (0.75, 0.75), 0.003, resolution=0.1, rival=4)
    )
    assert best == "best       0.75 robust, 0.8 mean"
    assert verdict == (
        "verdict    practically tied with config 4 (best of those seen with probability 0.50,"
        " expected loss of stopping 0.003)"
    )
    assert value == "value      robust value 0.75 by its own scores"


def test_what_is_not_known_has_an_interval() -> None:
    assert "robust value 0.7 to 0.8 (95%)" in value_in_words(Certainty(0.5, (0.7, 0.8), 0.003))
