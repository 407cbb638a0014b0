"""The command line `drbqo`."""
