"""Find whose request a record is in what coding agents send with it: their session and, never as it is, their user."""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import blake2b
from typing import NamedTuple
from uuid import UUID

import orjson

_SESSION_HEADERS = ("x-claude-code-session-id", "session-id", "session_id", "x-session-id")
_SESSION_NAMES = ("session_id", "sessionId")
_USER_FIELDS = ("user_id", "userId", "user")
_WRITTEN = re.compile(r"user_(?P<user>[^\s{}]*)_account_(?P<account>[^\s{}]*?)_session_(?P<session>[^\s{}]+)")
"""A user's id as Claude Code wrote it before it was JSON."""


class CallerIds(NamedTuple):
    """The session of a caller, and a name of its user that does not tell who it is; None: not in the id."""

    session: str | None
    user: str | None


def read_user_id(value: object) -> CallerIds | None:
    """Return what a user's id of a coding agent says; None for any other id."""
    if not isinstance(value, str):
        return None
    if written := _WRITTEN.fullmatch(value):
        return CallerIds(written["session"], _name_of([written["user"], written["account"]]))
    try:
        fields = orjson.loads(value) if value[:1] == "{" else None
    except orjson.JSONDecodeError:
        return None
    if not isinstance(fields, dict):
        return None
    session = next((str(fields[name]) for name in _SESSION_NAMES if fields.get(name)), None)
    rest = [f"{name}={each}" for name, each in sorted(fields.items()) if name not in _SESSION_NAMES and each]
    return CallerIds(session, _name_of(rest))


def private_user(value: str | None) -> str | None:
    """Return the user of an id: in place of an agent's, which has ids of devices, a name made of it."""
    found = read_user_id(value)
    return value if found is None else found.user


def session_of_caller(fields: Mapping[str, object]) -> str | None:
    """Return the session that a request names for its provider: in the user's id, in a header, or as a cache key that is a UUID."""
    for holder in (fields.get("metadata"), fields):
        if not isinstance(holder, Mapping):
            continue
        for name in _USER_FIELDS:
            if (found := read_user_id(holder.get(name))) is not None and found.session is not None:
                return found.session
    for name in ("headers", "request_headers"):
        headers = fields.get(name)
        if isinstance(headers, Mapping):
            named = {str(key).lower(): value for key, value in headers.items()}
            session = next((named[each] for each in _SESSION_HEADERS if isinstance(named.get(each), str)), None)
            if isinstance(session, str) and session.strip():
                return session
    key = fields.get("prompt_cache_key")
    return key if isinstance(key, str) and _is_uuid(key) else None


def _is_uuid(text: str) -> bool:
    """Return whether a text is an id that was drawn for one conversation, and no name that many share."""
    try:
        return str(UUID(text)) == text.lower()
    except ValueError:
        return False


def _name_of(values: list[str]) -> str | None:
    plain = "\0".join(values)
    return f"user {blake2b(plain.encode(errors='replace'), digest_size=4).hexdigest()}" if plain.strip("\0") else None
