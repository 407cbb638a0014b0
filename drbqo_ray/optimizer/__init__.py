"""Algorithm 1: what to evaluate next, what to recommend, and how sure that is."""

DEFAULT = "foldwise"
"""The method wherever folds are trained; a bare `Optimizer` is the paper's algorithm."""
