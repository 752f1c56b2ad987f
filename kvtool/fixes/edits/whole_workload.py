"""All groups of a workload whose files are edited: what its requests say before an edit, with a fix, and after the edit."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from kvtool.fixes.edits.edits_template import NotEditableError
from kvtool.fixes.fix import Fix, Transform, combined
from kvtool.fixes.turn_texts import blocks_apart
from kvtool.text.traced import Traced
from kvtool.workload.drive import Rewrite, rewritten
from kvtool.workload.turn import Output, Turn
from kvtool.workload.yaml.schema import GroupSpec
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
    """Requests of groups that fixes change: for each group what its turns were made of and made into (in a session, without the
    history), and what was then sent. `exact`: line ends count."""

    exact: bool
    pairs: dict[str, list[tuple[Turn, Turn]]] = field(default_factory=dict)
    sent: dict[str, list[Said]] = field(default_factory=dict)
    changed: bool = False


class _Unchanged(NamedTuple):
    """What a group sends without any fix. `paths` are the files that its texts come from; None where not all are known."""

    sent: list[Said]
    paths: frozenset[str] | None


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


class _Changed(NamedTuple):
    """What a group sends with some fixes, and what those did to its turns."""

    fixes: Sequence[Fix]
    sent: list[Said]
    recorder: _Recorder


class WholeWorkload:
    """A workload with all its groups, as its files are; what a group sends, without fixes or with some, is rendered once."""

    def __init__(self, source: YamlSource) -> None:
        self.source = source
        self._unchanged: dict[tuple[str, bool], _Unchanged] = {}
        self._changed: dict[tuple[object, ...], _Changed] = {}
        """By the identities of the fixes, which it keeps."""

    def sampled(self, fixes: Sequence[Fix], texts: Sequence[Fix], *, exact: bool) -> Sample:
        """Return the first requests of each group that the fixes are for and that is written in the workload, with the fixes.

        The pairs show what those fixes did that change `texts`. `exact` counts line ends. NotEditableError where none of many
        requests shows what the fixes change.
        """
        sample = Sample(exact)
        many = False
        for group in self._written():
            of_group = [fix for fix in fixes if fix.group in (None, group.name)]
            if not of_group:
                continue
            of_texts = [fix for fix in of_group if any(fix is each for each in texts)]
            key = group.name, exact, len(of_texts), *map(id, of_group)
            known = self._changed.get(key)
            if known is None:
                made = self._recorded(group.name, of_group, of_texts, exact)
                known = self._changed[key] = _Changed(of_group, *made)
            sample.sent[group.name], recorder = known.sent, known.recorder
            sample.pairs[group.name] = recorder.pairs
            sample.changed = sample.changed or recorder.changed > 0
            many = many or len(known.sent) == _MOST
        if many and not sample.changed:
            raise NotEditableError(f"it changes none of the first {_MOST:,} requests")
        return sample

    def _recorded(
        self, name: str, fixes: Sequence[Fix], texts: Sequence[Fix], exact: bool
    ) -> tuple[list[Said], _Recorder]:
        """Return what the first requests of a group say with fixes, and what those did to its turns."""
        recorder = _Recorder(combined(fixes), combined(texts))
        sent: list[Said] = []
        characters = 0
        for turn in _turns(self.source, name, recorder):
            text = _text(turn, exact)
            characters += len(text)
            sent.append(_digest(text))
            enough = len(sent) >= (_LEAST if recorder.changed >= _CHANGED else _MOST)
            if enough or characters > _MOST_CHARACTERS:
                break
        return sent, recorder

    def differing_group(self, edited: YamlSource, sample: Sample, paths: Collection[str]) -> str | None:
        """Return the first group whose requests are not what they should be in the workload with edited files, `paths`.

        Groups of the sample should say what it has; all others that may read one of the paths, what they said before.
        """
        for group in self._written():
            expected = sample.sent.get(group.name)
            if expected is None:
                before = self._before(group, sample.exact)
                if before.paths is not None and before.paths.isdisjoint(paths):
                    continue
                expected = before.sent
            turns = _turns(edited, group.name, None)
            for want in expected:
                turn = next(turns, None)
                if turn is None or _digest(_text(turn, sample.exact)) != want:
                    return group.name
        return None

    def _written(self) -> Iterator[GroupSpec]:
        """Yield the groups that are written in the workload."""
        return (group for group in self.source.spec.groups if group.import_ is None and group.generate is None)

    def _before(self, group: GroupSpec, exact: bool) -> _Unchanged:
        """Return what the first requests of a group say without any fix."""
        known = self._unchanged.get((group.name, exact))
        if known is not None:
            return known
        sent: list[Said] = []
        paths: set[str] = {self.source.path}
        characters = 0
        for turn in _turns(self.source, group.name, None):
            text = _text(turn, exact)
            characters += len(text)
            sent.append(_digest(text))
            paths |= _paths_in([turn.text, turn.messages, turn.tools])
            if len(sent) >= _LEAST or characters > _MOST_CHARACTERS:
                break
        traced = (
            group.output is None and group.tenant is None
        )  # what templates wrote there does not say where it is from
        found = _Unchanged(
            sent,
            frozenset(map(os.path.realpath, paths))
            if traced and (group.tools or self.source.spec.tools) is None
            else None,
        )
        self._unchanged[group.name, exact] = found
        return found


def _paths_in(value: object) -> set[str]:
    """Return the files that the texts of a value come from."""
    paths: set[str] = set()
    left = [value]
    while left:
        one = left.pop()
        if isinstance(one, Traced):
            paths |= {origin.path for _, origin, _ in one.marks if origin is not None}
        elif isinstance(one, dict):
            left += one.values()
        elif isinstance(one, list):
            left += one
    return paths


def _turns(source: YamlSource, group: str, rewrite: Rewrite | None) -> Iterator[Turn]:
    for conversation in rewritten(source.select([group]).conversations(), rewrite):
        turn = conversation.next_turn(None)
        while turn is not None:
            yield turn
            turn = conversation.next_turn(_ANSWER)


def _text(turn: Turn, exact: bool) -> str:
    """Return everything of a request that a server would get, as JSON."""
    said = [
        turn.id,
        turn.session,
        turn.salt,
        turn.output_text,
        turn.output_tokens,
        turn.tools,
        blocks_apart(turn.messages),
        turn.text,
    ]
    text = json.dumps(said)
    return text if exact else text.replace("\\r\\n", "\\n")


def _digest(text: str) -> Said:
    return hashlib.sha256(text.encode()).digest()
