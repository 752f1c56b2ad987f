"""Sends requests to one server, each once, and takes the answers as they stream."""

from __future__ import annotations

import asyncio
import json
import time
from typing import TYPE_CHECKING, Any, Self

from kvtool.errors import KvtoolError
from kvtool.measure.servers.exchange import Exchange
from kvtool.measure.servers.http_exchange import OK, TOO_MANY, Answered, HttpClient, ServerError
from kvtool.measure.servers.key_redaction import redact_keys, redact_keys_in
from kvtool.measure.servers.request_body import CHAT, RESPONSES, SentAs, ToSend
from kvtool.measure.servers.server_address import ServerAddress
from kvtool.measure.servers.server_values import json_value
from kvtool.workload.logs.records.chat_records import answer_of
from kvtool.workload.request_fields import MOST_ANSWERS

if TYPE_CHECKING:
    from types import TracebackType


MAX_ANSWER = 64 << 20
"""Bytes of a stream."""
_MOST_LINE = 8 << 20  # bytes of one event: a bound for hostile servers, as are the next ones
_MOST_TOKENS = 1 << 22
_DATA = b"data:"
_DONE = b"[DONE]"
_COUNTS = ("timings", "meta_info")
"""What llama.cpp and SGLang say of a prompt beside `usage`."""
_FAILED = ("response.failed", "error")
_MOST_VERSION = 1 << 16
_LONGEST_WAIT = 60.0
"""Seconds that a server may ask us to wait."""
_WRONG = {
    401: ("requires an API key", "set the variable KVTOOL_API_KEY"),
    403: ("denies access", "set KVTOOL_API_KEY to a key with access"),
    404: ("has no such page or model", "pass the root URL of the server, like http://localhost:8000"),
    405: ("accepts no requests there", "pass the root URL of the server, like http://localhost:8000"),
}
"""What no later request would fare better with."""


class BrokenAnswerError(KvtoolError):
    """A stream that is none of an answer, or is cut off; the message has none of its text."""


class WholeAnswer:
    """An answer that comes in one piece: takes its bytes, and `response` is the answer when all have come."""

    begun = False

    def __init__(self) -> None:
        self._data = bytearray()
        self.text = ""
        """What the server said first."""

    def take(self, data: bytes) -> None:
        """Keep the bytes: the exchange bounds how many there are."""
        self._data += data

    def response(self) -> dict[str, Any]:
        """Return the answer, without the log probabilities of its prompt."""
        value = _object(bytes(self._data))
        choices = value.get("choices")
        for each in (value, *(choices if isinstance(choices, list) else ())):
            if isinstance(each, dict):
                each.pop("prompt_logprobs", None)
        whole = {redact_keys(name): redact_keys_in(each) for name, each in value.items()}
        self.text = answer_of(whole)[0] or ""
        return whole


def _object(data: bytes) -> dict[str, Any]:
    """Return the object of a JSON text; BrokenAnswerError for what is none."""
    try:
        value = json_value(data)
    except ValueError:
        raise BrokenAnswerError("an answer that is not JSON") from None
    if not isinstance(value, dict):
        raise BrokenAnswerError("an answer that is not an object")
    return value


class StreamedAnswer:
    """Takes bytes as they come; `response` is the answer when all have come."""

    def __init__(self, endpoint: str) -> None:
        """`endpoint` is the page that was asked: the answers of each have a shape of their own."""
        self._endpoint = endpoint
        self._rest = b""
        self._texts: dict[int, list[str]] = {0: []}
        self._token_ids: dict[int, list[int]] = {}
        """Texts and tokens by the number of the answer, as a request may ask for several."""
        self._tokens = 0
        self._prompt_ids: list[int] | None = None
        self._finish: str | None = None
        self._usage: dict[str, Any] | None = None
        self._about: dict[str, Any] = {}
        self._done = False
        self.begun = False
        """Whether a first token has come."""

    def take(self, data: bytes) -> None:
        """Take an event; raise BrokenAnswerError for what is no event of an answer."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > _MOST_LINE:
            raise BrokenAnswerError(f"a line of more than {_MOST_LINE >> 20} MiB in an answer")
        for line in lines:
            self._line(line.strip())

    def _line(self, line: bytes) -> None:
        if not line.startswith(_DATA):
            return  # a comment, a name of an event, or what parts them
        data = line[len(_DATA) :].strip()
        if data == _DONE:
            self._done = True
            return
        value = _object(data)
        if value.get("error") is not None or value.get("type") in _FAILED:
            raise BrokenAnswerError("an error in the middle of an answer")
        self._counts(value)
        if self._endpoint == RESPONSES:
            self._event(value)
        else:
            self._chunk(value)

    def _counts(self, value: dict[str, Any]) -> None:
        self._about |= {name: value[name] for name in _COUNTS if isinstance(value.get(name), dict)}
        if isinstance(value.get("usage"), dict):
            self._usage = value["usage"]

    def _event(self, value: dict[str, Any]) -> None:
        """Take an event of the Responses API: the last one contains the whole answer."""
        kind, delta, whole = value.get("type"), value.get("delta"), value.get("response")
        if isinstance(delta, str) and delta:
            self.begun = True
            if kind == "response.output_text.delta":
                self._texts[0].append(delta)
        if kind in ("response.completed", "response.incomplete") and isinstance(whole, dict):
            self._finish = "stop" if kind == "response.completed" else "length"
            self.begun = True
            self._about |= {name: whole[name] for name in ("id", "status") if isinstance(whole.get(name), str)}
            self._counts(whole)

    def _chunk(self, value: dict[str, Any]) -> None:
        self._about |= {name: value[name] for name in ("id", "system_fingerprint") if isinstance(value.get(name), str)}
        self._prompt(value)
        choices = value.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            if isinstance(choice, dict):
                self._prompt(choice)
                self._choice(choice)

    def _prompt(self, value: dict[str, Any]) -> None:
        if self._prompt_ids is None and isinstance(ids := value.get("prompt_token_ids"), list):
            self._prompt_ids = ids

    def _choice(self, choice: dict[str, Any]) -> None:
        delta = choice.get("delta")
        text = delta.get("content") if isinstance(delta, dict) else choice.get("text")
        ids, index = choice.get("token_ids"), choice.get("index")
        index = index if type(index) is int and 0 <= index < MOST_ANSWERS else 0
        if isinstance(text, str) and text:
            self._texts.setdefault(index, []).append(text)
        if isinstance(ids, list):
            self._token_ids.setdefault(index, []).extend(ids)
            self._tokens += len(ids)
            if self._tokens > _MOST_TOKENS:
                raise BrokenAnswerError(f"an answer of more than {_MOST_TOKENS:,} tokens")
        if isinstance(choice.get("finish_reason"), str):
            self._finish = choice["finish_reason"]
        self.begun |= bool(text) or bool(ids) or self._finish is not None

    @property
    def text(self) -> str:
        """Return the first lines of the server's answer."""
        return self._text(0)

    def _text(self, index: int) -> str:
        return redact_keys("".join(self._texts.get(index, ())))

    @property
    def _kept(self) -> dict[str, Any]:
        """Return the other values of the server that are kept."""
        found: dict[str, Any] = {}
        for name, value in {**self._about, "usage": self._usage}.items():
            found[name] = redact_keys_in(value)
        return found

    def response(self) -> dict[str, Any]:
        """Return the answer in one piece; BrokenAnswerError where it was cut off."""
        if self._rest.strip():
            self._line(self._rest.strip())
            self._rest = b""
        if not self._done and self._finish is None:
            raise BrokenAnswerError("an answer that was cut off")
        if self._endpoint == RESPONSES:
            content = [{"type": "output_text", "text": self.text}]
            output = [{"type": "message", "role": "assistant", "content": content}]
            return {**self._kept, "output": output}
        choices = [self._whole(index) for index in sorted({*self._texts, *self._token_ids})]
        found: dict[str, Any] = {**self._kept, "choices": choices}
        if self._prompt_ids is not None:
            found["prompt_token_ids"] = self._prompt_ids
        return found

    def _whole(self, index: int) -> dict[str, Any]:
        """Return one of the answers."""
        text = self._text(index)
        said = {"message": {"role": "assistant", "content": text}} if self._endpoint == CHAT else {"text": text}
        choice: dict[str, Any] = {"index": index, "finish_reason": redact_keys_in(self._finish), **said}
        if ids := self._token_ids.get(index):
            choice["token_ids"] = ids
        return choice


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
        """Return seconds since the run began."""
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
        """Raise the error that ends the run, or return how long to wait with the next request."""
        status = answer.status
        if answer.redirects:
            raise ServerError(
                self.address.root,
                "redirects; kvtool does not follow, so that prompts reach no other server",
                hint="pass the URL of the server itself",
                status=status,
            )
        if status in _WRONG:
            what, hint = _WRONG[status]
            raise ServerError(self.address.root, f"{what} (HTTP {status})", hint=hint, status=status)
        if status == TOO_MANY:
            seconds = 1.0 if answer.retry_after is None else answer.retry_after
            self._not_before = self.now + min(seconds, _LONGEST_WAIT)
