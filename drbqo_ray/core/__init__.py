"""The mathematics: pure functions of arrays and a random generator.

Sign, for the whole package: we maximize scores, the adversary minimizes. It is flipped only
at the edges, where the user asked for `mode="min"`.

Nothing here knows of Ray, files, clocks or global random state. Equation numbers in the
docstrings point to docs/maths.md.
"""
