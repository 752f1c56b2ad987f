"""What varies in a URL: a session, a random id, a date."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kvtool.diagnose.codes.layout.kv201 import KV201
from kvtool.diagnose.compare.units import common_prefix
from kvtool.diagnose.difference_kind import DifferenceKind
from kvtool.diagnose.values.classify import classify
from kvtool.diagnose.values.labels import kind_of_label
from kvtool.diagnose.values.value_shapes import shape_of

_ENDS = "/?&=#;,:@."
"""What parts a URL."""
_NAME = re.compile(r"(?:[?&#;]|\A|/)([A-Za-z][\w.-]{0,40})[=/]\Z")
_MAJORITY = 0.6


def kind_in_urls(urls: Sequence[str]) -> DifferenceKind | None:
    """The kind of the one part in which URLs differ: by the parameter or the folder before it, else by its form; None where
    neither says it, or they are of several hosts."""
    texts = [url for url in urls if url]
    if len(texts) < 2:
        return None
    low, high = min(texts), max(texts)
    begin = low[: common_prefix(low, high)]
    begin = begin[: max(begin.rfind(end) for end in _ENDS) + 1]
    if "://" not in begin or "/" not in begin.partition("://")[2]:
        return None
    rests = [text[len(begin) :] for text in texts]
    low, high = (pick(rest[::-1] for rest in rests) for pick in (min, max))
    end = low[: common_prefix(low, high)][::-1]
    at = min((place for sign in _ENDS if (place := end.find(sign)) >= 0), default=len(end))
    parts = [rest[: len(rest) - (len(end) - at)] for rest in rests]
    named = _NAME.search(begin)
    said = None if named is None else kind_of_label(named[1]) or kind_of_label(named[1].removesuffix("s"))
    if said is not None:
        return said
    shape = shape_of(parts)
    if shape is not None:
        return shape[0]
    kinds = [kind for part in parts if (kind := classify(part)).code != KV201.code and kind.key != "number"]
    return max(kinds, key=kinds.count) if kinds and len(kinds) >= _MAJORITY * len(parts) else None
