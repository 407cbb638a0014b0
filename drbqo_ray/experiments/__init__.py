"""The experiments of the paper: problems, presets, a grid of runs on Ray, tables and figures.

    presets -> cells (problem x trace x radius x seed) -> grid on Ray -> journals -> CSV -> figures

Methods that differ only in what they report share one trace, and a trace at one radius with one
seed is one run: see `cell`.
"""
