"""Whether what differs in a list of rules is rules of their own, that some requests have, or a value in one that all have."""

from __future__ import annotations

from collections.abc import Sequence
from os.path import commonprefix

from kvtool.text.structure.sentences import is_sentence, words_in

_WORDS_OF_A_RULE = 4


def are_other_rules(values: Sequence[str]) -> bool:
    """Whether most values are whole sentences: other rules, not other values in one."""
    said = [value for value in values if value.strip()]
    if len(said) > 1 and 2 * _same_end(said) >= min(map(len, said)):
        return False  # one sentence with another value at its beginning
    whole = (is_sentence(value.rpartition(":")[2]) and words_in(value) >= _WORDS_OF_A_RULE for value in said)
    return 2 * sum(whole) > len(said)


def _same_end(texts: Sequence[str]) -> int:
    """Characters in which all texts end alike."""
    return len(commonprefix([text[::-1] for text in texts]))  # noqa: RUF071 - of texts, character by character
