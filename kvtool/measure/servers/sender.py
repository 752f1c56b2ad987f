"""Sends requests to one server, each once, and takes the answers as they stream; needs httpx, of the extra `live`."""

from __future__ import annotations

import asyncio
import json
import math
import time
from typing import TYPE_CHECKING, Self

from kvtool.measure.servers.exchange import Exchange
from kvtool.measure.servers.http_get import ServerError
from kvtool.measure.servers.request_body import SentAs, ToSend
from kvtool.measure.servers.server_address import ServerAddress
from kvtool.measure.servers.streamed_answer import BrokenAnswerError, StreamedAnswer, WholeAnswer

if TYPE_CHECKING:
    from types import TracebackType

    import httpx

_OK, _TOO_MANY = 200, 429
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
        import httpx

        self.address = address
        self.how = how
        self._timeout = timeout
        self._client = httpx.AsyncClient(
            transport=httpx.AsyncHTTPTransport(
                retries=1, limits=httpx.Limits(max_connections=at_once, max_keepalive_connections=at_once)
            ),
            timeout=httpx.Timeout(timeout, connect=min(timeout, 10.0)),
            follow_redirects=False,
            headers={**address.headers(), "Accept-Encoding": "identity", "User-Agent": "kvtool"},
        )
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
        await self._client.aclose()

    async def connect(self) -> None:
        """Ask for a page that says nothing, so that the connection is there; ServerError where nobody answers."""
        import httpx

        try:
            await self._client.get(self.address.url("/version"))
        except httpx.HTTPError as error:
            raise ServerError(f"{self.address.root} does not answer: {_why(error)}", hint="is it running?") from None

    async def send(self, number: int, session_id: str, request: ToSend) -> tuple[Exchange, str]:
        """What came of it, with the text of the answer. ServerError where no later request would fare better."""
        import httpx

        await asyncio.sleep(max(self._not_before - self.now, 0.0))
        answer = StreamedAnswer(request.endpoint) if request.streamed else WholeAnswer()
        sent = self.now
        first: float | None = None

        def failed(trouble: str, status: int | None = None) -> tuple[Exchange, str]:
            return (
                Exchange(
                    number,
                    request.body,
                    request.endpoint,
                    session_id,
                    sent,
                    first,
                    self.now,
                    status,
                    trouble=trouble,
                ),
                "",
            )

        try:
            async with (
                asyncio.timeout(self._timeout),
                self._client.stream(
                    "POST",
                    self.address.url(request.endpoint),
                    content=json.dumps(request.sent(session_id, self.how)).encode(),
                    headers={"Content-Type": "application/json"},
                ) as response,
            ):
                if response.status_code != _OK:
                    self._check(response)
                    return failed(f"HTTP {response.status_code}", response.status_code)
                async for data in response.aiter_bytes():
                    answer.take(data)
                    if first is None and answer.begun:
                        first = self.now
                whole = answer.response()
        except httpx.ConnectError as error:
            raise ServerError(f"{self.address.root} cannot be reached: {_why(error)}", hint="is it running?") from None
        except (TimeoutError, httpx.TimeoutException):
            return failed(f"no answer in {self._timeout:g} s")
        except BrokenAnswerError as error:
            return failed(str(error))
        except httpx.HTTPError as error:
            return failed(f"the connection broke: {type(error).__name__}")
        return (
            Exchange(number, request.body, request.endpoint, session_id, sent, first, self.now, _OK, whole),
            answer.text,
        )

    def _check(self, response: httpx.Response) -> None:
        """What ends the run; how long to wait with the next request."""
        status = response.status_code
        if response.is_redirect:
            raise ServerError(
                f"{self.address.root} redirects, which is not followed: prompts go to no other place",
                hint="give the URL of the server itself",
                status=status,
            )
        if status in _WRONG:
            what, hint = _WRONG[status]
            raise ServerError(f"{self.address.root} {what} (HTTP {status})", hint=hint, status=status)
        if status == _TOO_MANY:
            try:
                seconds = float(response.headers.get("retry-after", "1"))
            except ValueError:
                seconds = 1.0
            if math.isnan(seconds):
                seconds = 1.0
            self._not_before = self.now + min(max(seconds, 0.0), _LONGEST_WAIT)


def _why(error: Exception) -> str:
    """In one short line; it names hosts and causes, no headers."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 160 else f"{text[:160]}…"
