"""Uncertainty sets: one file a set."""
