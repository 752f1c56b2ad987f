"""Thresholds from which on lint reports a loss, each chosen for the most right findings on packages that people judged.

The packages and the verdicts are in `benchmarks/data`, what the numbers give today is in `benchmarks/RESULTS.md`. A block is one
of the KV cache, 16 tokens unless options say otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass

from kvtool.diagnose.severity import UNSURE_BLOCKS


@dataclass(frozen=True, slots=True)
class LintThresholds:
    """Constant text in blocks, halves of blocks or tokens; `tests/lint/test_thresholds.py` has a prompt that needs each."""

    code_seen: int = 3
    """Blocks after a value in Python that is seen to vary."""
    code_used: int = 4
    """Blocks after a value in Python that varies by its use."""
    code_named: int = 8
    """Blocks after a value in Python that varies by its name only."""
    file_used: int = 6
    """Blocks after a value in a template that varies by its use; one block is enough after what is seen to vary."""
    file_named: int = 4
    """Blocks after a value in a template that varies by its name only."""
    walked: int = 2
    """Blocks after any value of a file in a folder: there a closing sentence is not worth a finding."""
    unknown: int = 16
    """Blocks in one piece after a value of which nothing is known."""
    warned: int = UNSURE_BLOCKS
    """Blocks that could be before a value that varies by its use or its name, for a warning."""
    whole_prompt: int = 8
    """Tokens before a value, up to which a prompt begins with another prompt."""
    known: int = 64
    """Tokens that could be before a sure value, from which on nothing is reported of doubtful ones."""
    evident_halves: int = 7
    """Half blocks that must always be after a value that differs per request; 5 of 8 parts of them must be movable."""
    text: int = 24
    """Tokens between two values, from which on they are more than a label."""
    label: int = 16
    """Tokens of the line before a value that are taken for its label, at most."""


THRESHOLDS = LintThresholds()
