"""Thresholds of diagnosis: the numbers that decide between two findings. Bounds on work and memory are not here."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DiagnosisThresholds:
    """All thresholds of diagnosis, in one place; each says where its number comes from.

    Where it says "judged", the number separates the values of logs that were judged by hand, with room on both sides.
    """

    error_share: float = 0.05
    """Lost part of the prompt's tokens from which on a finding is an error: one token in twenty is a cost that users notice."""
    error_tokens: int = 64
    """Lost tokens of a request from which on a finding may be an error: four blocks of vLLM's default size, 16."""
    warning_share: float = 0.01
    """Lost part from which on a finding is a warning, and below which no finding is made: less is noise between runs."""
    warning_tokens: int = 16
    """Lost tokens of a request from which on a finding may be a warning: one block of vLLM's default size."""

    rules_differ: float = 0.05
    """Part of the prompt's tokens by which reported and predicted reads may differ for a gain by those rules to be proven: as much
    as makes an error."""

    explained: float = 0.95
    """Part of a slot's values that one shape must explain: one stray value in twenty. Judged."""
    majority: float = 0.6
    """Part of a slot's values by which a detector or a label names all of them: clearly more than half. Judged."""
    often_absent: float = 0.25
    """Part of requests without the value from which on it is an optional block. Judged."""
    even_steps: float = 0.8
    """Part of equal steps from which on integers are a counter: requests that others overtake break some steps. Judged."""
    rises: int = 6
    """Integers that only rise, or only fall, are a counter from so many steps on: by chance once in 360 times (2 / 6!)."""
    distinct: float = 0.8
    """Distinct part of numbers from which on they are the numbers of records: few records come twice. Judged."""
    fewest_ids: int = 3
    """Values from which on their shape says anything: two may be alike by chance."""
    fewest_letter_ids: int = 6
    """The same for values of letters alone, which may be words."""
    shortest_id: int = 6
    """Characters of the shortest random id with a digit: shorter ones are numbers of versions or rooms."""
    shortest_letter_id: int = 8
    """The same for values of letters alone."""
    numbered: float = 0.6
    """Part of names of hosts or builds that have a number. Judged."""
    vowels: float = 0.29
    """Part of vowels above which letters are words: by chance 5 of 26 are vowels (0.19), in English text 0.38."""
    alike: float = 0.3
    """Part of characters, place by place, that two random ids may share: by chance 1 of 16 hex digits are the same."""

    list_item_words: int = 4
    """Mean words of an item up to which a list on one line is one of names, and not of documents. Judged."""
    example_lines: int = 24
    """Lines of one example after its head: more are a document with examples in it. Judged."""


THRESHOLDS = DiagnosisThresholds()
