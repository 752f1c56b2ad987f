"""Requests of a workload before and after a fix, and whether an edited workload makes the same ones."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from kvtool.fixes.edits.edits_template import NotEditableError
from kvtool.fixes.fix import Fix, Transform, combined
from kvtool.workload.drive import Rewrite, rewritten
from kvtool.workload.turn import Output, Turn
from kvtool.workload.yaml.yaml_source import YamlSource

_LEAST = 50
"""Requests of a group that are compared."""
_CHANGED = 3
_MOST = 2_000
"""Requests that are rendered to find as many that the fix changes."""
_MOST_CHARACTERS = 64 * 1024 * 1024
"""Of prompts that are rendered for it, in each group."""
_ANSWER = Output("An answer.")

Said = bytes
"""The digest of everything of a request that a server would get."""


@dataclass(slots=True)
class Sample:
    """For each group: what its turns were made of and made into (in a session, without the history), and what was then sent."""

    pairs: dict[str, list[tuple[Turn, Turn]]] = field(default_factory=dict)
    sent: dict[str, list[Said]] = field(default_factory=dict)
    changed: bool = False


class _Recorder:
    """A transformation that counts what it changed, and remembers what the part of it did that `texts` are."""

    def __init__(self, transform: Transform, texts: Transform) -> None:
        self._transform = transform
        self._texts = texts
        self.pairs: list[tuple[Turn, Turn]] = []
        self.changed = 0

    def __call__(self, turn: Turn) -> Turn:
        after, edited = self._transform(turn), self._texts(turn)
        self.changed += after is not turn
        if edited is not turn:  # a session goes on to put its history into it
            messages = None if edited.messages is None else list(edited.messages)
            self.pairs.append((turn, replace(edited, messages=messages)))
        return after


def sampled(source: YamlSource, fixes: Sequence[Fix], texts: Sequence[Fix], *, exact: bool) -> Sample:
    """The first requests of each group that is written in the workload, with the fixes; those of other groups as they are.

    The pairs show what those fixes did that change `texts`. `exact` counts line ends. NotEditableError where none of many
    requests shows what the fixes change.
    """
    sample = Sample()
    many = False
    for group in source.spec.groups:
        if group.import_ is not None or group.generate is not None:
            continue
        recorder = _Recorder(combined(fixes), combined(texts))
        meant = any(fix.group in (None, group.name) for fix in fixes)
        sent = sample.sent[group.name] = []
        characters = 0
        for turn in _turns(source, group.name, recorder):
            text = _text(turn, exact)
            characters += len(text)
            sent.append(_digest(text))
            if characters > _MOST_CHARACTERS or len(sent) >= (
                _LEAST if not meant or recorder.changed >= _CHANGED else _MOST
            ):
                break
        sample.pairs[group.name] = recorder.pairs
        sample.changed = sample.changed or recorder.changed > 0
        many = many or len(sent) == _MOST
    if many and not sample.changed:
        raise NotEditableError(f"none of the first {_MOST:,} requests shows what it would change")
    return sample


def differing_group(source: YamlSource, sample: Sample, *, exact: bool) -> str | None:
    """The first group whose requests are not those of the sample; `exact` counts line ends."""
    for name, expected in sample.sent.items():
        turns = _turns(source, name, None)
        for want in expected:
            turn = next(turns, None)
            if turn is None or _digest(_text(turn, exact)) != want:
                return name
    return None


def _turns(source: YamlSource, group: str, rewrite: Rewrite | None) -> Iterator[Turn]:
    for conversation in rewritten(source.select([group]).conversations(), rewrite):
        turn = conversation.next_turn(None)
        while turn is not None:
            yield turn
            turn = conversation.next_turn(_ANSWER)


def _text(turn: Turn, exact: bool) -> str:
    """Everything of a request that a server would get, as JSON."""
    said = [
        turn.id,
        turn.session,
        turn.salt,
        turn.output_text,
        turn.output_tokens,
        turn.tools,
        turn.messages,
        turn.text,
    ]
    text = json.dumps(said)
    return text if exact else text.replace("\\r\\n", "\\n")


def _digest(text: str) -> Said:
    return hashlib.sha256(text.encode()).digest()
