"""The version of kvtool."""

__version__ = "0.1.0"
