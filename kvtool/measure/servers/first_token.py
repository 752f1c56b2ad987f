"""Sends one prompt of token ids, alone, and times its first token. Needs httpx, of the extra `live`."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kvtool.measure.servers.http_get import ServerError
from kvtool.measure.servers.server_address import ServerAddress

if TYPE_CHECKING:
    import httpx

_TIMEOUT = 60.0
_MOST_BYTES = 1 << 20
_OK = 200


@dataclass(frozen=True, slots=True)
class FirstToken:
    """Seconds from the request to its first token, and what the server says of its prompt; None: it does not."""

    seconds: float
    prompt_tokens: int | None
    cached_tokens: int | None


def prompt_client(address: ServerAddress) -> httpx.Client:
    """For prompts to one server, over one connection; nothing is sent twice, nor to another place."""
    import httpx

    headers = {**address.headers(), "Accept-Encoding": "identity", "User-Agent": "kvtool"}
    return httpx.Client(timeout=_TIMEOUT, follow_redirects=False, headers=headers)


def first_token(client: httpx.Client, address: ServerAddress, model: str, tokens: Sequence[int]) -> FirstToken:
    """One token is generated. ServerError where there is none; the prompt is sent once, whatever comes of it."""
    import httpx

    body = {
        "model": model,
        "prompt": list(tokens),
        "max_tokens": 1,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    url = address.url("/v1/completions")
    try:
        client.get(address.url("/version"))  # the connection is there before the clock runs
        begun = time.perf_counter()
        with client.stream("POST", url, json=body) as response:
            if response.status_code != _OK:
                raise ServerError(
                    f"{url} does not answer a prompt (HTTP {response.status_code})", status=response.status_code
                )
            return _read(response, begun, url)
    except httpx.TimeoutException as error:
        raise ServerError(f"{url} did not answer in {_TIMEOUT:g} s") from error
    except httpx.HTTPError as error:
        raise ServerError(f"{address.root} does not answer: {type(error).__name__}", hint="is it running?") from error


def _read(response: httpx.Response, begun: float, url: str) -> FirstToken:
    first: float | None = None
    usage: dict[str, object] = {}
    taken = 0
    for line in response.iter_lines():
        taken += len(line)
        now = time.perf_counter()
        if taken > _MOST_BYTES or now - begun > _TIMEOUT:
            break
        data = line.removeprefix("data:").strip() if line.startswith("data:") else ""
        if not data or data == "[DONE]":
            continue
        try:
            chunk = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise ServerError(f"{url} streams what is no JSON") from error
        if not isinstance(chunk, dict):
            continue
        if first is None and chunk.get("choices"):
            first = now - begun
        found = chunk.get("usage")
        if isinstance(found, dict):
            usage = found
    if first is None:
        raise ServerError(f"{url} streamed no token")
    details = usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else None
    return FirstToken(first, _count(usage.get("prompt_tokens")), _count(cached))


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
