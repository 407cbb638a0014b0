"""What survives: the journal of a run, its directory and copies, and the one replay."""
