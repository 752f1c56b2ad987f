"""Sends prompts of token ids, each alone, and times their first tokens. Needs httpx, of the extra `live`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from kvtool.measure.servers.http_exchange import BackgroundLoop, ServerError
from kvtool.measure.servers.request_body import COMPLETIONS, SentAs, ToSend
from kvtool.measure.servers.sender import Sender
from kvtool.measure.servers.server_address import ServerAddress

if TYPE_CHECKING:
    from types import TracebackType

TIMEOUT = 60.0
"""Seconds for an answer as a whole."""


@dataclass(frozen=True, slots=True)
class FirstToken:
    """Seconds from the request to its first token, and what the server says of its prompt; None: it does not."""

    seconds: float
    prompt_tokens: int | None
    cached_tokens: int | None


class FirstTokenTimer:
    """Prompts to one server over one connection, while the block lasts; nothing is sent twice, nor to another place."""

    def __init__(self, address: ServerAddress, model: str, *, timeout: float = TIMEOUT) -> None:
        self.address = address
        self._model = model
        self._timeout = timeout
        self._number = 0

    def __enter__(self) -> Self:
        self._loop = BackgroundLoop()
        how = SentAs(self._model, token_ids=False)
        self._sender = Sender(self.address, how, timeout=self._timeout, at_once=1)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._loop.run(self._sender.__aexit__(kind, error, trace))
        finally:
            self._loop.close()

    def first_token(self, tokens: Sequence[int]) -> FirstToken:
        """One token is generated. ServerError where there is none; the prompt is sent once, whatever comes of it."""
        body = {"model": self._model, "prompt": list(tokens), "max_tokens": 1, "temperature": 0}
        return self._loop.run(self._timed(ToSend(COMPLETIONS, body)))

    async def _timed(self, request: ToSend) -> FirstToken:
        await self._sender.connect()  # the connection is there before the clock runs
        number, self._number = self._number, self._number + 1
        answer, _ = await self._sender.send(number, f"kvtool-bench-{number}", request)
        url = self.address.url(request.endpoint)
        if not answer.answered:
            raise ServerError(url, f"gave no token: {answer.trouble}", status=answer.status)
        if answer.first is None or answer.sent is None:
            raise ServerError(url, "streamed no token")
        usage = answer.usage
        return FirstToken(
            answer.first - answer.sent,
            None if usage is None else usage.prompt,
            None if usage is None else usage.cached,
        )
