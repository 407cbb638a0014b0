"""How many evaluations fit on nodes, counted without Ray."""

from __future__ import annotations

import pytest

from drbqo_ray.runtime.plan import check_resources
from drbqo_ray.runtime.slots import capacity


def node(**offer: float) -> dict[str, object]:
    return {"Alive": True, "Resources": offer}


@pytest.mark.parametrize(
    ("offer", "need", "fitting"),
    [
        (0.3, 0.1, 3),  # 0.3 / 0.1 is a little less than 3
        (0.7, 0.1, 7),  # 0.7 / 0.1 too
        (1.0, 0.1, 10),
        (4.35, 0.15, 29),
        (0.299, 0.1, 2),
        (0.9999, 1.0, 0),
    ],
)
def test_a_share_that_divides_an_offer_exactly_fits_as_often_as_it_does_on_paper(
    offer: float, need: float, fitting: int
) -> None:
    assert capacity([node(CPU=8.0, GPU=offer)], {"CPU": 0.0, "GPU": need}) == fitting


def test_the_scarcest_resource_of_each_living_node_counts() -> None:
    needs = check_resources({"CPU": 2, "GPU": 0.5})
    nodes = [node(CPU=8.0, GPU=1.0), node(CPU=3.0, GPU=4.0), node(CPU=8.0)]
    dead = {"Alive": False, "Resources": {"CPU": 64.0, "GPU": 8.0}}
    assert capacity([*nodes, dead], needs) == 2 + 1 + 0
