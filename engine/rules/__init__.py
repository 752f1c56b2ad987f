"""The prefix caches of other engines, each by its own rules: one file for each engine, with one interface."""
