"""Runs of evaluations of models and of load tests of servers."""
