"""What a server is asked for beside answers: the tokens that it reads of a prompt, and to empty its cache."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from kvtool.measure.servers.http_get import TIMEOUT, ServerError
from kvtool.measure.servers.request_body import RESPONSES, ToSend
from kvtool.measure.servers.server_address import ServerAddress
from kvtool.workload.request_fields import REQUEST_FIELDS

if TYPE_CHECKING:
    import httpx

_OK = 200
_MOST_ANSWER = 64 << 20
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
    status, value = _posted(address, "/tokenize", body)
    tokens = value.get("tokens") if status == _OK and isinstance(value, dict) else None
    if not isinstance(tokens, list) or not tokens:
        return None  # none at all: it did not take what was sent for a prompt
    return tokens if all(type(token) is int for token in tokens) else None


def empty_cache(address: ServerAddress) -> None:
    """ServerError where the server does not let us."""
    status, _ = _posted(address, "/reset_prefix_cache", None)
    if status != _OK:
        raise ServerError(
            f"{address.root} does not empty its cache (HTTP {status})",
            hint="vLLM does it with VLLM_SERVER_DEV_MODE=1; --salt needs no such mode",
            status=status,
        )


def _posted(address: ServerAddress, path: str, body: dict[str, Any] | None) -> tuple[int, object]:
    """The status, and the JSON of the answer; None where it is none."""
    import httpx

    headers = {**address.headers(), "Accept-Encoding": "identity", "User-Agent": "kvtool"}
    try:
        with (
            httpx.Client(timeout=3 * TIMEOUT, follow_redirects=False, headers=headers) as client,
            client.stream("POST", address.url(path), json=body) as response,
        ):
            return response.status_code, _json(response)
    except httpx.HTTPError as error:
        raise ServerError(f"{address.root} does not answer: {type(error).__name__}", hint="is it running?") from None


def _json(response: httpx.Response) -> object:
    data = bytearray()
    for part in response.iter_bytes():
        data += part
        if len(data) > _MOST_ANSWER:
            return None
    try:
        return json.loads(bytes(data))
    except (ValueError, RecursionError):
        return None
