"""Take tokens out of a reported prompt that it counts twice: some programs add cached tokens to an input that contains them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kvtool.workload.call import FEWER, Call, Usage

_FITS = 0.1
"""Largest part by which the tokens of a prompt may be off those that its text lets expect."""
_TOO_MANY = 1.25
"""Reported tokens for each expected one, from which on a prompt is more than its text and a difference of tokenizers."""
_OF_TEXT = (0.6, 1.5)
"""Tokens of any provider for each of ours: tokenizers of the same text differ by less."""
_SAME = 0.002
"""Part by which tokens of the input may differ from written ones that they are: nothing but the last question is neither."""
_LEAST = 256
"""Tokens of a text that says how many the provider counts for each of ours."""
_MOST_MODELS = 256


@dataclass(slots=True)
class _Counted:
    """Sums of a model's prompts without cached tokens, ours and the provider's. `twice`: a prompt was surely counted twice."""

    own: int = 0
    theirs: int = 0
    twice: bool = False


class CountedTwice:
    """Learn, by model, what a provider counts for a text from requests that use no cache, and judge the others by that.

    Where all requests use it, an input that is just the written tokens of a text half as long is those tokens again.
    """

    def __init__(self) -> None:
        self._models: dict[str | None, _Counted] = {}

    def mended(self, call: Call, own: int) -> Call:
        """Return a call with each token counted once. `own`: tokens of its prompt by our tokenizer."""
        usage = call.usage
        if usage is None or usage.prompt is None or usage.cached is None or call.incomplete not in (None, FEWER):
            return call
        known = self._models.get(call.model)
        if known is None and len(self._models) < _MOST_MODELS:
            known = self._models.setdefault(call.model, _Counted())
        if known is None or own < _LEAST:
            return call
        twice = _tokens_twice(known, usage, usage.prompt, own)
        if not twice:
            return call
        return replace(call, usage=replace(usage, prompt=usage.prompt - twice), counted_twice=True)


def _tokens_twice(known: _Counted, usage: Usage, prompt: int, own: int) -> int:
    """Return how many tokens of a prompt are counted twice."""
    cached, written = usage.cached or 0, usage.all_written or 0
    if not cached and not written:
        known.own, known.theirs = known.own + own, known.theirs + prompt
        return 0
    expected, plain = own * known.theirs / max(known.own, 1), prompt - cached - written
    for twice in (written, cached + written, cached):
        if not twice or plain < twice:
            continue
        if expected:
            fits = prompt >= _TOO_MANY * expected and abs(prompt - twice - expected) <= _FITS * expected
        else:
            least, most = _OF_TEXT
            is_same = plain - twice <= max(_SAME * prompt, 8) and least * own <= prompt - twice <= most * own
            known.twice = known.twice or (is_same and prompt > most * own)
            fits = is_same and known.twice
        if fits:
            return twice
    return 0
