"""Sends requests to one server, each once, and takes the answers as they stream."""

from __future__ import annotations

import asyncio
import json
import time
from typing import TYPE_CHECKING, Any, Self

from kvtool.measure.servers.exchange import Exchange
from kvtool.measure.servers.http_exchange import OK, TOO_MANY, Answered, HttpClient, ServerError
from kvtool.measure.servers.request_body import SentAs, ToSend
from kvtool.measure.servers.server_address import ServerAddress
from kvtool.measure.servers.streamed_answer import MAX_ANSWER, BrokenAnswerError, StreamedAnswer, WholeAnswer

if TYPE_CHECKING:
    from types import TracebackType

_MOST_VERSION = 1 << 16
_LONGEST_WAIT = 60.0
"""Seconds that a server may ask us to wait."""
_WRONG = {
    401: ("wants a key", "put it into the variable KVTOOL_API_KEY"),
    403: ("does not let us", "put a key that may into the variable KVTOOL_API_KEY"),
    404: ("knows no such page or model", "give the root of the server, like http://localhost:8000"),
    405: ("takes no request there", "give the root of the server, like http://localhost:8000"),
}
"""What no later request would fare better with."""


class Sender:
    """A request is sent once: what a server took in may be computed, whatever became of the answer. Only a connection that never
    came to be is tried once more."""

    def __init__(self, address: ServerAddress, how: SentAs, *, timeout: float, at_once: int) -> None:
        """`timeout` is for a request as a whole, in seconds."""
        self.address = address
        self.how = how
        self._client = HttpClient(address, timeout=timeout, at_once=at_once)
        self._began = time.monotonic()
        self._not_before = 0.0

    @property
    def now(self) -> float:
        """Seconds since the run began."""
        return time.monotonic() - self._began

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.close()

    async def connect(self) -> None:
        """Ask for a page that says nothing, so that the connection is there; ServerError where nobody answers."""
        await self._client.exchange("GET", "/version", limit=_MOST_VERSION)

    async def send(self, number: int, session_id: str, request: ToSend) -> tuple[Exchange, str]:
        """What came of it, with the text of the answer. ServerError where no later request would fare better."""
        await asyncio.sleep(max(self._not_before - self.now, 0.0))
        read = StreamedAnswer(request.endpoint) if request.streamed else WholeAnswer()
        sent = self.now
        first: float | None = None

        def take(data: bytes) -> None:
            nonlocal first
            read.take(data)
            if first is None and read.begun:
                first = self.now

        status: int | None = None
        response: dict[str, Any] | None = None
        trouble: str | None = None
        content = json.dumps(request.sent(session_id, self.how)).encode()
        try:
            answer = await self._client.exchange("POST", request.endpoint, content=content, limit=MAX_ANSWER, take=take)
            status = answer.status
            if status == OK:
                response = read.response()
            else:
                self._check(answer)
                trouble = f"HTTP {status}"
        except BrokenAnswerError as error:
            status, trouble = None, error.message
        except ServerError as error:
            if not error.reached or error.status not in (None, OK):
                raise
            status, trouble = None, error.trouble
        exchange = Exchange(
            number, request.body, request.endpoint, session_id, sent, first, self.now, status, response, trouble
        )
        return exchange, read.text if response is not None else ""

    def _check(self, answer: Answered) -> None:
        """What ends the run; how long to wait with the next request."""
        status = answer.status
        if answer.redirects:
            raise ServerError(
                self.address.root,
                "redirects, which is not followed: prompts go to no other place",
                hint="give the URL of the server itself",
                status=status,
            )
        if status in _WRONG:
            what, hint = _WRONG[status]
            raise ServerError(self.address.root, f"{what} (HTTP {status})", hint=hint, status=status)
        if status == TOO_MANY:
            seconds = 1.0 if answer.retry_after is None else answer.retry_after
            self._not_before = self.now + min(seconds, _LONGEST_WAIT)
