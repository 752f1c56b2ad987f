"""A text that is sent under several roles under one: the most frequent (tier P3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from kvtool.diagnose.compare.messages import content_text
from kvtool.text.message import role_of
from kvtool.workload.turn import Turn

_ROLES = ("system", "developer", "user")
"""Roles under which an application sends text of its own; an answer or the output of a tool is bound to its own."""
_MOST_TEXTS = 10_000


@dataclass(frozen=True, slots=True)
class OneRole:
    """Gives messages of these texts these roles."""

    roles: dict[str, str]

    @classmethod
    def learn(cls, samples: Iterable[Turn]) -> OneRole | None:
        """From requests; None where no text came under two roles."""
        found: dict[str, Counter[str]] = {}
        for turn in samples:
            for message in turn.messages or ():
                text, role = content_text(message.get("content")), role_of(message)
                if role in _ROLES and text.strip() and (text in found or len(found) < _MOST_TEXTS):
                    found.setdefault(text, Counter())[role] += 1
        roles = {text: counts.most_common(1)[0][0] for text, counts in found.items() if len(counts) > 1}
        return cls(roles) if roles else None

    def __call__(self, turn: Turn) -> Turn:
        messages = list(turn.messages or ())
        changed = False
        for at, message in enumerate(messages):
            role = self.roles.get(content_text(message.get("content")))
            if role is not None and role_of(message) in _ROLES and role_of(message) != role:
                messages[at] = {**message, "role": role}
                changed = True
        return replace(turn, messages=messages) if changed else turn
