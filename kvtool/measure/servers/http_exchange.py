"""Every exchange with a server over HTTP: a limit of time and of size, no error but ServerError, and no key in what comes back.

Needs httpx, of the extra `live`.
"""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from math import isnan
from typing import TYPE_CHECKING, Any, Self, TypeVar

from kvtool.errors import EXIT_NOT_AVAILABLE, KvtoolError
from kvtool.measure.servers.key_redaction import redact_keys, redact_keys_in
from kvtool.measure.servers.server_address import ServerAddress
from kvtool.measure.servers.server_values import json_value

if TYPE_CHECKING:
    from types import TracebackType

    import httpx

TIMEOUT = 10.0
"""Seconds for an answer as a whole."""
_CONNECT = 10.0
"""Seconds for a connection."""
_MOST_REDIRECTS = 3  # of one request
_MOST_CAUSES = 8  # causes of an error that are looked through
OK, TOO_MANY = 200, 429
_REDIRECTS, _FAILED = range(300, 400), 500
_LONGEST_WAIT = 3600.0  # seconds of a `retry-after` that are believed
_REASONS = {
    401: ("requires an API key", "set the variable KVTOOL_API_KEY"),
    403: ("denies access", "set KVTOOL_API_KEY to a key with access"),
    404: ("has no such page", "pass the root URL of the server, like http://localhost:8000"),
    TOO_MANY: ("is overloaded", "try again later"),
}
T = TypeVar("T")


class ServerError(KvtoolError):
    """A server that does not answer, or not with what was asked for; `status` is that of HTTP, None where none came.

    `trouble` says what is wrong without the URL; `reached` whether there was a connection, so that something may have been sent.
    """

    def __init__(
        self,
        subject: str,
        trouble: str,
        *,
        hint: str | None = None,
        status: int | None = None,
        retry_after: float | None = None,
        reached: bool = True,
    ) -> None:
        super().__init__(f"{subject} {trouble}", hint=hint, exit_code=EXIT_NOT_AVAILABLE)
        self.trouble = trouble
        self.status = status
        self.retry_after = retry_after
        """Seconds that the server asks to wait."""
        self.reached = reached

    @property
    def passes(self) -> bool:
        """Return whether to ask again later may help: nobody answers, or too much is going on."""
        return self.status is None or self.status == TOO_MANY or self.status >= _FAILED


@dataclass(frozen=True, slots=True)
class Answered:
    """An answer: its status, its body where that is wanted, and its headers by names in lower case."""

    status: int
    body: bytes
    headers: Mapping[str, str]

    @property
    def redirects(self) -> bool:
        """Return whether the server sends us elsewhere."""
        return self.status in _REDIRECTS

    @property
    def retry_after(self) -> float | None:
        """Return seconds that the server asks to wait."""
        try:
            seconds = float(self.headers.get("retry-after", ""))
        except ValueError:
            return None
        return None if isnan(seconds) else min(max(seconds, 0.0), _LONGEST_WAIT)


class HttpClient:
    """Connections to one server."""

    def __init__(self, address: ServerAddress, *, timeout: float = TIMEOUT, at_once: int = 1) -> None:
        """`timeout` is for an exchange as a whole, in seconds."""
        import httpx

        self.address = address
        self._timeout = timeout
        self._client = httpx.AsyncClient(
            timeout=httpx.Timeout(None, connect=min(timeout, _CONNECT)),
            limits=httpx.Limits(max_connections=at_once, max_keepalive_connections=at_once),
            follow_redirects=False,
            headers={**address.headers(), "Accept-Encoding": "identity", "User-Agent": "kvtool"},
        )

    async def close(self) -> None:
        """End all connections."""
        await self._client.aclose()

    async def exchange(
        self,
        method: str,
        path: str,
        *,
        limit: int,
        content: bytes | None = None,
        take: Callable[[bytes], None] | None = None,
        redirects: int = 0,
    ) -> Answered:
        """Send a request once, and take its answer. ServerError where no answer comes that can be read; its status may be any.

        The body of an answer with status 200 may have `limit` bytes; `take` gets it as it comes, instead of `Answered.body`.
        So many `redirects` are followed, on the same host. Errors of libraries are named by their type: their texts may quote the
        server, which knows the key.
        """
        import httpx

        failed = self._error
        try:
            async with asyncio.timeout(self._timeout):
                return await self._followed(method, path, content, limit, take, redirects)
        except (KvtoolError, MemoryError):
            raise
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError) as error:
            raise failed(None, f"does not answer: {_cause(error)}", hint="is it running?", reached=False) from None
        except TimeoutError:
            raise failed(path, f"did not answer in {self._timeout:g} s", hint="is it running?") from None
        except Exception as error:  # all that parsers of hostile answers, names and URLs may raise
            raise failed(None, f"gave an unreadable answer ({_cause(error)})") from None

    async def _followed(
        self,
        method: str,
        path: str,
        content: bytes | None,
        limit: int,
        take: Callable[[bytes], None] | None,
        redirects: int,
    ) -> Answered:
        url = self.address.url(path)
        for _ in range(redirects + 1):
            async with self._begun(method, url, content) as response:
                location = response.headers.get("location")
                if redirects and location is not None and response.status_code in _REDIRECTS:
                    url = self._next_url(response, location)
                    continue
                body = await self._body(response, path, limit, take) if response.status_code == OK else b""
                return Answered(response.status_code, body, dict(response.headers))
        raise self._error(path, f"redirects more than {redirects} times")

    def _begun(self, method: str, url: str, content: bytes | None) -> _Begun:
        headers = {} if content is None else {"Content-Type": "application/json"}
        return _Begun(self._client, self._client.build_request(method, url, content=content, headers=headers))

    def _next_url(self, response: httpx.Response, location: str) -> str:
        url = str(response.url.join(location))
        if not self.address.same_origin(url):
            raise self._error(
                None,
                "redirects to another host; kvtool does not follow",
                hint="pass the URL of the server itself",
                status=response.status_code,
            )
        return url

    async def _body(
        self, response: httpx.Response, path: str, limit: int, take: Callable[[bytes], None] | None
    ) -> bytes:
        if response.headers.get("content-encoding", "identity").strip().lower() != "identity":
            raise self._error(
                path, "sends compressed answers although kvtool asked for none", status=response.status_code
            )
        found, size = bytearray(), 0
        async for part in response.aiter_raw():
            size += len(part)
            if size > limit:
                raise self._error(path, f"answers with more than {limit / 1e6:.3g} MB", status=response.status_code)
            if take is None:
                found += part
            else:
                take(part)
        return bytes(found)

    def _error(self, path: str | None, trouble: str, **more: Any) -> ServerError:
        return ServerError(self.address.root if path is None else self.address.url(path), trouble, **more)


class _Begun:
    """A response whose body comes piece by piece; a connection that did not come to be is tried once more."""

    def __init__(self, client: httpx.AsyncClient, request: httpx.Request) -> None:
        self._client, self._request = client, request

    async def __aenter__(self) -> httpx.Response:
        import httpx

        with suppress(httpx.ConnectError):
            self._response = await self._client.send(self._request, stream=True)
            return self._response
        self._response = await self._client.send(self._request, stream=True)
        return self._response

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._response.aclose()


class BackgroundLoop:
    """An event loop in a thread of its own, so that who waits for it can be interrupted, and may itself run in a loop."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of the work, which is cancelled where a signal's exception ends the waiting; `close` waits for its
        end."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        """End the loop; work that is left is cancelled."""
        self.run(_cancelled())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _cancelled() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class ServerConnection:
    """A connection to one server, whose answers are waited for."""

    def __init__(self, address: ServerAddress, *, timeout: float = TIMEOUT) -> None:
        self.address = address
        self._client = HttpClient(address, timeout=timeout)
        self._loop = BackgroundLoop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._loop.run(self._client.close())
        finally:
            self._loop.close()

    def get(self, path: str, *, limit: int) -> Answered:
        """Return the page at a path, of at most `limit` bytes; ServerError where there is none."""
        answer = self._loop.run(self._client.exchange("GET", path, limit=limit, redirects=_MOST_REDIRECTS))
        if answer.status != OK:
            raise self._refused(path, answer)
        return answer

    def text(self, path: str, *, limit: int) -> str:
        """Return the page as text; what is no UTF-8 in it is replaced."""
        return page_text(self.get(path, limit=limit))

    def json(self, path: str, *, limit: int) -> object:
        """Return the page as JSON; ServerError where it is none."""
        return self._json(path, self.get(path, limit=limit))

    def post(self, path: str, value: object, *, limit: int) -> tuple[int, object]:
        """Return the status and the JSON of the answer; None where it is none."""
        content = b"" if value is None else json.dumps(value).encode()
        answer = self._loop.run(self._client.exchange("POST", path, limit=limit, content=content))
        try:
            return answer.status, self._json(path, answer)
        except ServerError:
            return answer.status, None

    def _json(self, path: str, answer: Answered) -> object:
        try:
            return redact_keys_in(json_value(answer.body))
        except ValueError:
            raise ServerError(self.address.url(path), "does not answer with JSON", status=answer.status) from None

    def _refused(self, path: str, answer: Answered) -> ServerError:
        status = answer.status
        what, hint = _REASONS.get(status, ("failed" if status >= _FAILED else "refuses", None))
        return ServerError(
            self.address.url(path),
            f"{what} (HTTP {status})",
            hint=hint,
            status=status,
            retry_after=answer.retry_after,
        )


def page_text(answer: Answered) -> str:
    """Return the text of an answer, without keys."""
    return redact_keys(answer.body.decode("utf-8", "replace"))


def _cause(error: BaseException) -> str:
    """Return the cause of an error, in words of the operating system or of TLS; else only the kind of error, as a server may have
    worded it."""
    for each in _chain(error):
        if isinstance(each, ssl.SSLCertVerificationError):
            return f"certificate verify failed ({redact_keys(each.verify_message)})"
        if isinstance(each, ssl.SSLError):
            return "the TLS handshake failed"
        if isinstance(each, OSError) and each.errno is not None:
            return each.strerror if each.errno < 0 and each.strerror else os.strerror(each.errno)
    return type(error).__name__


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    for _ in range(_MOST_CAUSES):
        if error is None:
            return
        yield error
        error = error.exceptions[0] if isinstance(error, BaseExceptionGroup) else error.__cause__ or error.__context__
