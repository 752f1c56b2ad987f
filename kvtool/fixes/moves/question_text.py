"""The question of a prompt: text that differs in nearly every request, with only a few fixed words after it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache, partial

from kvtool.diagnose.causes.slot_cause import SlotCause
from kvtool.diagnose.codes.layout.kv201 import OTHER
from kvtool.diagnose.word_lists import word_pattern
from kvtool.fixes.fix_thresholds import THRESHOLDS
from kvtool.fixes.moves.move_target import MoveTarget, places_at, value_in, with_value
from kvtool.fixes.turn_texts import TextAt, role_of_part, texts_of
from kvtool.text.structure.sentences import words_in
from kvtool.text.structure.tag_name import TAG_NAME
from kvtool.text.traced import Traced, line_around
from kvtool.workload.turn import Turn

_pattern = partial(word_pattern, __file__)
"""Return a pattern of the TOML file beside this module."""

ASKED = "asked"
"""The kind of the advice for a question."""
BEFORE_IT = (
    "move the constant text of the last message before the question, if the wording allows (kvtool moves no question)"
)
"""What may be done where the tail of a question costs hits."""

_LOOKED_AT = 24
_WORDS_OF_A_QUESTION = 3
_HEADS = re.compile(rf"#{{1,6}}[ \t]+[^\n]*[^\W_]\W*|<{TAG_NAME}>|<\|[\w-]+\|>|\[/INST\]")
"""A heading, an opening tag or a mark of a chat template that nothing is after."""


def cue_begin(text: str) -> int:
    """Return where the end of a text begins that stays its end: last line ends, and a line that leads over to the answer
    (`Label:`).
    """
    plain = str.__str__(text)
    end = len(plain.rstrip("\r\n"))
    begin = plain.rfind("\n", 0, end) + 1
    if begin and leads_over(plain[begin:end]) and plain[:begin].strip():
        return len(plain[:begin].rstrip("\r\n"))
    return end


def leads_over(text: str) -> bool:
    """Return whether the last line of a text is a label, a heading or an opening tag for what the model is to write."""
    last = str.__str__(text).rstrip().rsplit("\n", 1)[-1].strip()
    return len(last) <= THRESHOLDS.cue_length and (last.endswith((":", "\uff1a")) or _HEADS.fullmatch(last) is not None)


def nearly_all_differ(values: Sequence[str]) -> bool:
    """Return whether a text is another one in nearly every request."""
    return len(values) >= THRESHOLDS.question_samples and len(set(values)) >= THRESHOLDS.question_share * len(values)


def is_question(cause: SlotCause, target: MoveTarget, samples: Sequence[Turn]) -> bool:
    """Return whether a value is what requests ask, or a part of that: it must not go after the words that say how to answer."""
    looked = [last for turn in with_value(samples, target, _LOOKED_AT) if (last := _last_text(turn)) is not None]
    lines = Counter(line for at, _ in looked for line in dict.fromkeys(str.__str__(at.text).split("\n")))
    found: list[tuple[str, list[str], int]] = []
    values: list[str] = []
    questions = 0
    for at, words in looked:
        text = Traced(at.text)
        place = next(iter(places_at(text, target)), None)
        if place is not None:
            start, stop = value_in(text, *place, target)
            values.append(text[start:stop])
            low, high = line_around(text, start)
            questions += _pattern("question").search(str.__getitem__(text, slice(low, high))) is not None
            found.append((*_behind(text, stop), words))
    if not nearly_all_differ(values):
        return False
    if (
        cause.slot.logged
        and role_of_part(cause.slot.part) == "user"
        and questions >= THRESHOLDS.question_share * len(values)
    ):
        return True
    rests = Counter(rest for rest, _, _ in found)
    asked = 0
    for rest, behind, words in found:
        fixed = [line for line in behind if lines[line] > 1] + ([rest] if rests[rest] > 1 else [])
        others = sum(map(words_in, behind)) - sum(words_in(line) for line in behind if lines[line] > 1)
        within = rests[rest] == 1 and words_in(rest) >= _WORDS_OF_A_QUESTION
        is_last = cause.kind is OTHER or within or others < _WORDS_OF_A_QUESTION
        asked += is_last and is_tail(sum(map(words_in, fixed)), words)
    return asked >= THRESHOLDS.question_share * len(values)


def _behind(text: str, at: int) -> tuple[str, list[str]]:
    """Return what is after a place on its line, and the lines after that."""
    rest, *lines = str.__str__(text)[at:].split("\n")
    return rest, lines


def is_tail(words: int, of: int) -> bool:
    """Return whether so many constant words after a question, of so many in the prompt, are only its tail."""
    return words <= THRESHOLDS.tail_words or (
        words <= THRESHOLDS.long_tail_words and words <= THRESHOLDS.tail_part * of
    )


def _last_text(turn: Turn) -> tuple[TextAt, int] | None:
    """Return the text that ends a request, where a user or nobody said it, and the words of all texts."""
    texts = list(texts_of(turn))
    if not texts or texts[-1].role not in ("", "user"):
        return None
    return texts[-1], sum(_words_in(str.__str__(at.text)) for at in texts)


@lru_cache(maxsize=256)
def _words_in(text: str) -> int:
    """Count words; each cause of a group asks for those of the same first requests."""
    return words_in(text)
