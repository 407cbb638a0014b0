"""Contract suites that what you add can inherit: one module for each kind of part."""
