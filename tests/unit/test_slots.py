"""How many evaluations fit on nodes, counted without Ray."""

from __future__ import annotations

import threading
import time

import pytest

from drbqo_ray.problem import check_resources
from drbqo_ray.runtime import slots
from drbqo_ray.runtime.slots import Slots, capacity


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


def test_a_head_that_is_silent_or_fails_does_not_hold_up_the_loop(monkeypatch, caplog) -> None:
    answers = [node(CPU=3.0)]
    speaks = threading.Event()
    speaks.set()

    def nodes() -> list[dict[str, object]]:
        speaks.wait(30)
        if not answers:
            raise ConnectionError("gone")
        return answers[:]

    monkeypatch.setattr(slots, "_nodes", nodes)
    monkeypatch.setattr(slots, "REFRESH_SECONDS", 0.0)
    monkeypatch.setattr(slots, "ANSWER_SECONDS", 0.05)
    found = Slots({"CPU": 1.0}, None, local=True)
    assert found.count == 3
    speaks.clear()
    begun = time.monotonic()
    for _ in range(20):
        found.refresh()
    assert time.monotonic() - begun < 5
    assert found.count == 3
    assert caplog.text.count("no answer") == 1
    answers.append(node(CPU=2.0))
    speaks.set()
    wait_until(lambda: (found.refresh(), found.count)[1] == 5)
    answers.clear()
    for _ in range(5):
        found.refresh()
    assert found.count == 5
    assert caplog.text.count("gone") == 1


def wait_until(condition) -> None:
    for _ in range(500):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("waited 5 s in vain")
