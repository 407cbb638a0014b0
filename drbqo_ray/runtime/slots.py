"""How many evaluations fit on the cluster at a time, followed as nodes join and leave."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Iterable, Mapping
from typing import Any

from drbqo_ray.errors import InvalidInput

REFRESH_SECONDS = 1.0
ANSWER_SECONDS = 2.0
"""How long the loop waits for the table of nodes before it goes on with the last one."""
_WARN_SECONDS = 60.0
_logger = logging.getLogger(__name__)


def task_options(resources: Mapping[str, float]) -> dict[str, Any]:
    """The same as options of a Ray task."""
    options: dict[str, Any] = {"num_cpus": resources["CPU"]}
    if resources.get("GPU"):
        options["num_gpus"] = resources["GPU"]
    if resources.get("memory"):
        options["memory"] = int(resources["memory"])
    special = ("CPU", "GPU", "memory")
    options["resources"] = {k: v for k, v in resources.items() if k not in special and v > 0}
    return options


def capacity(nodes: Iterable[Mapping[str, Any]], resources: Mapping[str, float]) -> int:
    """How many evaluations fit side by side on the living nodes.

    An evaluation that needs nothing at all counts as one CPU, so that there is a limit.
    """
    needs = {name: amount for name, amount in resources.items() if amount > 0} or {"CPU": 1.0}
    total = 0
    for node in nodes:
        if node["Alive"]:
            offer = node["Resources"]
            fits = (offer.get(name, 0.0) / amount + 1e-9 for name, amount in needs.items())
            total += math.floor(min(fits))
    return total


def _nodes() -> list[dict[str, Any]]:
    import ray

    nodes: list[dict[str, Any]] = ray.nodes()
    return nodes


class NodeTable:
    """The nodes of the cluster, asked for in a thread: a head that is silent holds up nobody."""

    def __init__(self) -> None:
        self._last: list[dict[str, Any]] = []
        self._asking: threading.Thread | None = None
        self._trouble: str | None = None
        self._silent = False

    def read(self) -> list[dict[str, Any]]:
        """The nodes as they are, or as they were last known when no answer comes in time."""
        if self._asking is None or not self._asking.is_alive():
            self._trouble = "no answer"
            self._asking = threading.Thread(target=self._ask, name="node-table", daemon=True)
            self._asking.start()
            self._asking.join(ANSWER_SECONDS)
            if self._trouble is not None and not self._silent:
                _logger.warning(
                    "The head of the cluster cannot be asked for its nodes (%s); the run goes on"
                    " with those it knew.",
                    self._trouble,
                )
            self._silent = self._trouble is not None
        return self._last

    def _ask(self) -> None:
        try:
            self._last = _nodes()
            self._trouble = None
        except Exception as error:  # whatever Ray raises, what was known last is used
            self._trouble = str(error)


class Slots:
    """The number of evaluations to run at a time.

    Args:
        resources: what one evaluation needs.
        limit: an upper limit set by the user, None for all that fits.
        local: whether the cluster is this machine alone and will not grow.
    """

    def __init__(self, resources: Mapping[str, float], limit: int | None, local: bool) -> None:
        self._resources = resources
        self._limit = limit
        self._next_refresh = 0.0
        self._next_warning = 0.0
        self._table = NodeTable()
        self.count = 1
        self.refresh()
        if local and capacity(nodes := _nodes(), resources) == 0:
            offered = {k: v for node in nodes for k, v in node["Resources"].items() if ":" not in k}
            raise InvalidInput(
                f"One evaluation must fit on this machine, which offers {offered}.",
                dict(resources),
                "Ask for less, or connect to a cluster with ray.init(address=...) first.",
            )

    def refresh(self) -> None:
        """Ask the cluster again if the last answer is old; what was known last holds without one.

        There is always one slot: a cluster that grows on demand has to see a demand.
        """
        now = time.monotonic()
        if now < self._next_refresh:
            return
        self._next_refresh = now + REFRESH_SECONDS
        fitting = capacity(self._table.read(), self._resources)
        if fitting == 0 and now >= self._next_warning:
            if self._next_warning > 0:
                _logger.warning(
                    "No node of the cluster offers %s; waiting for one.", dict(self._resources)
                )
            self._next_warning = now + _WARN_SECONDS
        bounded = fitting if self._limit is None else min(fitting, self._limit)
        self.count = max(1, bounded)
