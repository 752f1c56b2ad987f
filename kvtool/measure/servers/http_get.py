"""What a server answers to a GET: with limits of time and size, and never from another host. Needs httpx, of the extra `live`."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from kvtool.errors import EXIT_NOT_AVAILABLE, KvtoolError
from kvtool.measure.servers.server_address import ServerAddress

if TYPE_CHECKING:
    from types import TracebackType

    import httpx

TIMEOUT = 10.0
"""Seconds for an answer as a whole."""
_MOST_REDIRECTS = 3
_OK, _REDIRECTS, _FAILED = 200, range(300, 400), 500
_REASONS = {
    401: ("wants a key", "put it into the variable KVTOOL_API_KEY"),
    403: ("does not let us", "put a key that may into the variable KVTOOL_API_KEY"),
    404: ("has no such page", "give the root of the server, like http://localhost:8000"),
    429: ("has too much to do", "try again later"),
}


class ServerError(KvtoolError):
    """A server that does not answer, or not with what was asked for; `status` is that of HTTP, None where none came."""

    def __init__(
        self, message: str, *, hint: str | None = None, status: int | None = None, retry_after: float | None = None
    ) -> None:
        super().__init__(message, hint=hint, exit_code=EXIT_NOT_AVAILABLE)
        self.status = status
        self.retry_after = retry_after
        """Seconds that the server asks to wait."""

    @property
    def passes(self) -> bool:
        """Whether to ask again later may help: nobody answers, or too much is going on."""
        return self.status is None or self.status == 429 or self.status >= _FAILED


@dataclass(frozen=True, slots=True)
class Answered:
    """The body of an answer, and its headers by names in lower case."""

    body: bytes
    headers: Mapping[str, str]


class HttpGet:
    """A connection to one server, that reads."""

    def __init__(self, address: ServerAddress, *, timeout: float = TIMEOUT) -> None:
        import httpx

        self.address = address
        self._timeout = timeout
        self._client = httpx.Client(
            timeout=timeout,
            follow_redirects=False,
            headers={**address.headers(), "Accept-Encoding": "identity", "User-Agent": "kvtool"},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    def get(self, path: str, *, limit: int) -> Answered:
        """The page at a path, of at most `limit` bytes; ServerError where there is none."""
        import httpx

        url = self.address.url(path)
        ends = time.monotonic() + self._timeout
        try:
            for _ in range(_MOST_REDIRECTS + 1):
                with self._client.stream("GET", url) as response:
                    if response.status_code in _REDIRECTS and "location" in response.headers:
                        url = self._followed(response)
                        continue
                    if response.status_code != _OK:
                        raise _refused(self.address.url(path), response)
                    return Answered(self._body(response, ends, limit, path), dict(response.headers))
        except httpx.TimeoutException as error:
            raise self._late(path) from error
        except httpx.HTTPError as error:
            raise ServerError(f"{self.address.root} does not answer: {_said(error)}", hint="is it running?") from error
        except httpx.InvalidURL as error:
            raise ServerError(f"{self.address.root} is no URL that can be asked") from error
        raise ServerError(f"{self.address.url(path)} redirects more than {_MOST_REDIRECTS} times")

    def text(self, path: str, *, limit: int) -> str:
        """The page as text; what is no UTF-8 in it is replaced."""
        return self.get(path, limit=limit).body.decode("utf-8", "replace")

    def json(self, path: str, *, limit: int) -> object:
        """The page as JSON; ServerError where it is none."""
        body = self.get(path, limit=limit).body
        try:
            return json.loads(body)
        except (ValueError, RecursionError) as error:
            raise ServerError(f"{self.address.url(path)} answers with no JSON", status=_OK) from error

    def _followed(self, response: httpx.Response) -> str:
        url = str(response.url.join(response.headers["location"]))
        if not self.address.same_origin(url):
            raise ServerError(
                f"{self.address.root} redirects to another host, which is not followed",
                hint="give the URL of the server itself",
                status=response.status_code,
            )
        return url

    def _body(self, response: httpx.Response, ends: float, limit: int, path: str) -> bytes:
        found = bytearray()
        for part in response.iter_bytes():
            found += part
            if len(found) > limit:
                raise ServerError(
                    f"{self.address.url(path)} answers with more than {limit / 1e6:g} MB", status=response.status_code
                )
            if time.monotonic() > ends:
                raise self._late(path)
        return bytes(found)

    def _late(self, path: str) -> ServerError:
        return ServerError(f"{self.address.url(path)} did not answer in {self._timeout:g} s", hint="is it running?")


def _refused(url: str, response: httpx.Response) -> ServerError:
    status = response.status_code
    what, hint = _REASONS.get(status, ("failed" if status >= _FAILED else "refuses", None))
    return ServerError(
        f"{url} {what} (HTTP {status})", hint=hint, status=status, retry_after=_seconds(response.headers)
    )


def _seconds(headers: httpx.Headers) -> float | None:
    try:
        seconds = float(headers.get("retry-after", ""))
    except ValueError:
        return None
    return seconds if 0 <= seconds <= 3600 else None


def _said(error: Exception) -> str:
    """What a library says of a failure, in one short line; it names hosts and causes, no headers."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 160 else f"{text[:160]}…"
