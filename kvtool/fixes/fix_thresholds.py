"""Thresholds of fixes: the numbers that decide what may move. Bounds on work and memory are not here."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FixThresholds:
    """All thresholds of fixes, in one place; each says where its number comes from.

    Where it says "judged", the number separates prompts of logs that were judged by hand, with room on both sides.
    """

    fact_words: int = 14
    """Words beside a value up to which a sentence only states the value: longer ones say what to do. Judged."""
    role_words: int = 4
    """Words beside a value from which on a sentence such as `You are …` gives the model its role: fewer are a name. Judged."""
    duty_words: int = 10
    """Words beside a value from which on a sentence with a duty (`you must …`) says more than the value. Judged."""
    rules: int = 3
    """Sentences without a value that may move with it: a note of a few lines is data, more are instructions. Judged."""
    listed_rules: int = 1
    """The same for items of a list, which is all rules or all data."""
    data_lines: int = 2
    """Lines of an element above which it may be data as a whole: one or two lines are a sentence and its tags."""
    lines_of_a_rule: int = 4
    """Lines with a value for each sentence without one, in an element that is data as a whole. Judged."""
    many_places: int = 4
    """Lines or sentences with the value from which on none of them moves: the text is about the value. Judged."""

    question_samples: int = 3
    """Requests from which on it shows whether a text is another one in each: two always differ or never."""
    question_share: float = 0.75
    """Part of requests in which a question is another one: some users ask the same. Judged."""
    tail_words: int = 12
    """Constant words after a question that are its tail in any prompt: one sentence (`Answer in one word.`)."""
    long_tail_words: int = 80
    """Constant words after a question that are its tail in a long prompt: a paragraph. Judged."""
    tail_part: float = 0.15
    """Part of all words of the prompt that a long tail may have. Judged."""
    cue_length: int = 40
    """Characters of a last line that leads over to the answer: `Label:`, and no sentence."""

    content_words: int = 8
    """Words of an inserted value from which on it is free text of a user or a document: names, dates and paths have fewer."""

    passage_samples: int = 5
    """Requests from which on it shows which lines all of them have."""
    passage_share: float = 0.5
    """Part of a block's lines that are passages, and that other requests do not have: more than what joins them. Judged."""
    passage_often: float = 0.6
    """Part of requests that may have a line for it to be a passage: some documents are found for most questions. Judged."""
    passage_requests: float = 0.8
    """Part of requests that have a block of passages: a few find nothing. Judged."""
    mark_saving: float = 0.01
    """Part of the cost that other cache breakpoints must save to be advised: the search for them is as exact as that."""

    context_requests: float = 0.3
    """Part of requests with a block of context under one line for that line to be the application's: some turns find nothing, and
    first turns may have none. Judged."""
    passage_gain: int = 200
    """Characters of instructions after passages from which on a move is worth it: about 50 tokens, three blocks."""


THRESHOLDS = FixThresholds()
