"""The figures of the paper, drawn from the CSV files of an experiment alone."""
