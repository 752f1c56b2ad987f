"""What a server is asked for beside answers: the tokens that it reads of a prompt, and to empty its cache."""

from __future__ import annotations

from kvtool.measure.servers.http_exchange import OK, TIMEOUT, ServerConnection, ServerError
from kvtool.measure.servers.request_body import RESPONSES, ToSend
from kvtool.measure.servers.server_address import ServerAddress
from kvtool.workload.request_fields import REQUEST_FIELDS

_MOST_ANSWER = 8 << 20
"""Bytes; a million tokens take less."""
_READ = frozenset(("model", "messages", "prompt", "tools", "chat_template_kwargs")) | {
    each.name for each in REQUEST_FIELDS.values() if each.tokenized
}
_CHANGES_PROMPT = frozenset(each.name for each in REQUEST_FIELDS.values() if each.changes == "prompt") - _READ


def has_tokens_to_read(request: ToSend) -> bool:
    """Whether /tokenize can say how the server reads this prompt: not of tokens, nor with a field that it does not take."""
    return not isinstance(request.body.get("prompt"), list) and _CHANGES_PROMPT.isdisjoint(request.body)


def tokens_read(address: ServerAddress, request: ToSend) -> list[int] | None:
    """The tokens of a prompt as the server reads them; None where it does not say."""
    body = {name: value for name, value in request.body.items() if name in _READ}
    if request.endpoint == RESPONSES:
        return None  # /tokenize knows no such request
    with ServerConnection(address, timeout=3 * TIMEOUT) as connection:
        status, value = connection.post("/tokenize", body, limit=_MOST_ANSWER)
    tokens = value.get("tokens") if status == OK and isinstance(value, dict) else None
    if not isinstance(tokens, list) or not tokens:
        return None  # none at all: it did not take what was sent for a prompt
    return tokens if all(type(token) is int for token in tokens) else None


def empty_cache(address: ServerAddress) -> None:
    """ServerError where the server does not let us."""
    with ServerConnection(address, timeout=3 * TIMEOUT) as connection:
        status, _ = connection.post("/reset_prefix_cache", None, limit=_MOST_ANSWER)
    if status != OK:
        raise ServerError(
            address.root,
            f"does not empty its cache (HTTP {status})",
            hint="vLLM does it with VLLM_SERVER_DEV_MODE=1; --salt needs no such mode",
            status=status,
        )
