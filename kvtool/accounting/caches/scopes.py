"""The scopes of a provider's cache: never shared across models, organisations, workspaces, regions or keys."""

from __future__ import annotations

from collections.abc import Iterable

from kvtool.accounting.hosted_models import hosted_model
from kvtool.workload.turn import Turn

_APART = "\x1f"


def count_keys(scopes: Iterable[str]) -> int:
    """Count the cache keys of scopes by their names."""
    return len({scope.split(_APART)[-2] for scope in scopes if scope})


def scope_of(turn: Turn) -> str | None:
    """Return a name of the cache that a request can read; None for one of which nothing is known."""
    call, scope = turn.call, turn.call.scope
    parts = [scope.organisation, scope.workspace, scope.region, scope.key, turn.salt]
    if call.model is not None:
        model = hosted_model(call.model, call.provider)
        parts = [model.provider, call.model, *parts]
    if not any(parts):
        return None
    return _APART.join(part or "" for part in parts)
