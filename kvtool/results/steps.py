"""Steps of sessions: a request that goes on with the one before it, and whether it begins with all of its text."""

from __future__ import annotations

from pydantic import Field

from kvtool.results.document_base import Count, Model


class BrokenStep(Model):
    """A request that does not begin with the one before it.

    `was` and `now` are their names for `kvtool diff-prompts`, which `command` calls; null where they are in no file. `place` is the
    first field that differs; `kept_tokens` come before it. Of as many tokens as the request before had, this one computed
    `lost_tokens`, as it read no cache up to them.
    """

    request: str
    session: str | None
    was: str | None
    now: str | None
    command: str | None
    place: str
    code: str
    what: str
    kept_tokens: Count
    lost_tokens: Count


class Steps(Model):
    """`steps` of `sessions`; `broken` of them lose `lost_tokens`. `breaks` are the costliest ones.

    `read_past` more differ in text that their server reports to have read past: it is no part of what the server compares.
    """

    sessions: Count
    steps: Count
    broken: Count
    lost_tokens: Count
    read_past: Count = 0
    breaks: list[BrokenStep] = Field(default_factory=list)
