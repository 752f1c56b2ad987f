"""Jinja and chat templates whose output knows where each character was written."""
