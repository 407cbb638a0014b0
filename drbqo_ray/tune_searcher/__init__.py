"""`DRBQOSearch`: the search of this package as a search algorithm of Ray Tune."""

from drbqo_ray.tune_searcher.searcher import DRBQOSearch, RobustValueCallback

__all__ = ["DRBQOSearch", "RobustValueCallback"]
