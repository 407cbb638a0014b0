"""Sets as a user may add them, each in one class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from drbqo_ray.core.sets.base import Family, UncertaintySet, finish, share_of_ties, unit_rows


class Lowest(UncertaintySet):
    """The least a set can be: a kind and a solution."""

    kind: ClassVar[str] = "toy-lowest"

    def _solve_rows(self, values: Any, q: Any) -> Any:
        x, shift, scale = unit_rows(values)
        return finish(x, shift, scale, share_of_ties(x, q))


@dataclass(frozen=True)
class Contamination(UncertaintySet):
    """A share of the weight goes anywhere, the rest stays as it is."""

    share: float
    kind: ClassVar[str] = "toy-contamination"

    def _solve_rows(self, values: Any, q: Any) -> Any:
        x, shift, scale = unit_rows(values)
        p = (1.0 - self.share) * q + self.share * share_of_ties(x, q)
        return finish(x, shift, scale, p)


@dataclass(frozen=True)
class SizedContamination(Contamination):
    """The same, with words and a family of its own."""

    kind: ClassVar[str] = "toy-sized"
    words: ClassVar[str] = "contamination of share"

    def _family(self, q: Any) -> Any:
        return Family("share that goes anywhere", self.kind, 1.0, self.share, SizedContamination)
