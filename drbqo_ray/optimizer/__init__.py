"""Algorithm 1: what to evaluate next, what to recommend, and how sure that is."""
