"""Traces of tools that observe calls of models."""
