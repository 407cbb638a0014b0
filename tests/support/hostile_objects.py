"""Objects that a user's code may hand over by mistake, and that fail when they are looked at."""

from __future__ import annotations


class WithoutRepr:
    """An object whose `repr` raises."""

    def __repr__(self) -> str:
        raise RuntimeError("no repr")


class WithoutEquals:
    """An object whose `==` raises."""

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no ==")


class WithoutFloat(float):
    """A number that cannot be read."""

    def __float__(self) -> float:
        raise RuntimeError("no float")
