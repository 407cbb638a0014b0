"""The search space: parameters, the space itself, foreign domains, and YAML files."""
