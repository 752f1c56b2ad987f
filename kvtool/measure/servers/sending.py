"""A workload, sent to a server: one request at a time, or several, or as they arrive; sessions go on with the server's answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from kvtool.errors import KvtoolError
from kvtool.measure.servers.exchange import Exchange
from kvtool.measure.servers.http_exchange import OK, TIMEOUT, BackgroundLoop, ServerConnection, ServerError
from kvtool.measure.servers.request_body import RESPONSES, ToSend, to_send
from kvtool.measure.servers.sender import Sender
from kvtool.measure.servers.server_address import ServerAddress
from kvtool.text.terminal.ended import EndedError
from kvtool.workload.drive import NO_ANSWER
from kvtool.workload.request_fields import REQUEST_FIELDS
from kvtool.workload.turn import Conversation, Output, Turn

_MOST_FAILED = 5
"""Requests in a row without an answer, after which nothing more is sent."""
_MOST_ANSWER = 8 << 20
"""Bytes; a million tokens take less."""
_READ = frozenset(("model", "messages", "prompt", "tools", "chat_template_kwargs")) | {
    each.name for each in REQUEST_FIELDS.values() if each.tokenized
}
_CHANGES_PROMPT = frozenset(each.name for each in REQUEST_FIELDS.values() if each.changes == "prompt") - _READ


@dataclass(slots=True)
class Sent:
    """Exchanges that were sent, in order; `stopped` says why not all of it was."""

    exchanges: list[Exchange] = field(default_factory=list)
    stopped: str | None = None
    interrupted: bool = False
    ended: EndedError | None = None
    """What is to be raised once all of it is kept, where the process is ended from outside."""


class Sending:
    """Sends the turns of conversations."""

    def __init__(
        self,
        sender: Sender,
        run: str,
        *,
        at_once: int,
        use_arrivals: bool,
        max_tokens: Callable[[Sequence[Turn]], int],
        advance: Callable[[], None] = lambda: None,
    ) -> None:
        """`run` names the run in the sessions of its requests; `max_tokens` says how long the answers of a call may be."""
        self._sender = sender
        self._run = run
        self._at_once = at_once
        self._use_arrivals = use_arrivals
        self._max_tokens = max_tokens
        self._advance = advance
        self._number = 0
        self._failed = 0
        self.sent = Sent()

    async def all_of(self, conversations: Iterator[Conversation]) -> None:
        """Until all are over, or one cannot be sent: the server is not to be had, or its answer makes no next turn.

        KvtoolError where no request was answered before.
        """
        async with self._sender:
            try:
                if self._use_arrivals:
                    async with asyncio.TaskGroup() as group:
                        room = asyncio.Semaphore(self._at_once)
                        for conversation in conversations:
                            group.create_task(self._timed(conversation, room))
                else:
                    async with asyncio.TaskGroup() as group:
                        for _ in range(self._at_once):
                            group.create_task(self._send_in_order(conversations))
            except* KvtoolError as errors:
                error = next(iter(_leaves(errors)))
                if not any(each.answered for each in self.sent.exchanges):
                    raise error from None
                self.sent.stopped = error.message

    async def _send_in_order(self, conversations: Iterator[Conversation]) -> None:
        for conversation in conversations:
            previous: Output | None = None
            while self.sent.stopped is None and (turn := conversation.next_turn(previous)) is not None:
                previous = await self._send(turn, conversation)
            if self.sent.stopped is not None:
                return

    async def _timed(self, conversation: Conversation, room: asyncio.Semaphore) -> None:
        previous: Output | None = None
        while self.sent.stopped is None and (turn := conversation.next_turn(previous)) is not None:
            await asyncio.sleep(max((turn.arrival or 0.0) - self._sender.now, 0.0))
            async with room:
                previous = await self._send(turn, conversation)

    async def _send(self, turn: Turn, conversation: Conversation) -> Output:
        """Send a turn, with the other prompts of its call."""
        number, self._number = self._number, self._number + 1
        left = (conversation.next_turn(NO_ANSWER) for _ in range(turn.call.prompts - 1))
        others = [each for each in left if each is not None]
        request = to_send(turn, self._sender.how, self._max_tokens([turn, *others]), others)
        exchange, text = await self._sender.send(number, f"kvtool-{self._run}-{number}", request)
        self.sent.exchanges.append(exchange)
        self._advance()
        self._failed = 0 if exchange.answered or exchange.refused else self._failed + 1
        if self._failed >= _MOST_FAILED:
            self.sent.stopped = f"{_MOST_FAILED} requests in a row without an answer ({exchange.trouble})"
        return Output(text) if exchange.answered else NO_ANSWER


def _leaves(errors: BaseExceptionGroup[KvtoolError]) -> Iterator[KvtoolError]:
    for each in errors.exceptions:
        if isinstance(each, BaseExceptionGroup):
            yield from _leaves(each)
        else:
            yield each


def send_all(sending: Sending, conversations: Iterator[Conversation]) -> Sent:
    """Send all requests. Ctrl-C and other signals end it: connections are closed, and what was answered until then is there."""
    loop = BackgroundLoop()
    try:
        loop.run(sending.all_of(conversations))
    except KeyboardInterrupt:
        sending.sent.interrupted = True
    except EndedError as error:
        sending.sent.interrupted = True
        sending.sent.ended = error
    finally:
        loop.close()
    sending.sent.exchanges.sort(key=lambda each: (each.sent or 0.0, each.number))
    return sending.sent


def has_tokens_to_read(request: ToSend) -> bool:
    """Return whether /tokenize can say how the server reads this prompt: not of tokens, nor with a field that it does not take."""
    return not isinstance(request.body.get("prompt"), list) and _CHANGES_PROMPT.isdisjoint(request.body)


def tokens_read(address: ServerAddress, request: ToSend) -> list[int] | None:
    """Return the tokens of a prompt as the server reads them; None where it does not say."""
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
    """Raise ServerError where the server does not let us."""
    with ServerConnection(address, timeout=3 * TIMEOUT) as connection:
        status, _ = connection.post("/reset_prefix_cache", None, limit=_MOST_ANSWER)
    if status != OK:
        raise ServerError(
            address.root,
            f"did not clear its cache (HTTP {status})",
            hint="start vLLM with VLLM_SERVER_DEV_MODE=1, or use --salt",
            status=status,
        )
