"""A turn as the body of a request to a server with OpenAI's API."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from kvtool.errors import KvtoolError
from kvtool.measure.servers.key_redaction import REDACTED
from kvtool.text.message import Message, role_of
from kvtool.workload.request_fields import is_streamed, requested_answers
from kvtool.workload.turn import Turn

CHAT, COMPLETIONS, RESPONSES = "/v1/chat/completions", "/v1/completions", "/v1/responses"


@dataclass(frozen=True, slots=True)
class SentAs:
    """Fields that go into every request of a run. `model` is the name that the server serves it under."""

    model: str | None = None
    salt: str | None = None
    """A `cache_salt` beside a turn's own."""
    token_ids: bool = True
    """Whether the server is asked for the tokens that it read and sampled; others than vLLM may refuse to hear of it."""

    def __post_init__(self) -> None:
        """Raise KvtoolError for a name that cannot be sent as the server wrote it."""
        if self.model is not None and REDACTED in self.model:
            raise KvtoolError("the server's model name contains a part of the API key", hint="use another key")


@dataclass(frozen=True, slots=True)
class ToSend:
    """A path below the server's root, and the body; `session_id` goes beside what is recorded as the body."""

    endpoint: str
    body: dict[str, Any]

    @property
    def streamed(self) -> bool:
        """Return whether the answer comes as a stream."""
        return is_streamed(self.body)

    def sent(self, session_id: str, how: SentAs) -> dict[str, Any]:
        """Return all that is sent under the name of a session: streaming where it can be, with usage at the end."""
        beside: dict[str, Any] = {"stream": self.streamed}
        if self.endpoint == RESPONSES:  # has its usage at the end without being asked, and no way to ask for tokens
            beside["store"] = False
        else:
            if self.streamed:
                beside["stream_options"] = {"include_usage": True}
            if how.token_ids:
                beside["return_token_ids"] = True
        if how.token_ids:
            beside["session_id"] = session_id
        return {**self.body, **beside}


def to_send(turn: Turn, how: SentAs, max_tokens: int, others: Sequence[Turn] = ()) -> ToSend:
    """Return the request of a turn; `others` are further prompts of its call. KvtoolError where only hashes are known."""
    body: dict[str, Any] = {} if how.model is None else {"model": how.model}
    endpoint = CHAT
    if turn.messages is not None and turn.call.responses:
        endpoint, body["input"] = RESPONSES, [item for message in turn.messages for item in _items(message)]
        if turn.tools:
            body["tools"] = [_tool(tool) for tool in turn.tools]
            body["tool_choice"] = "none"
    elif turn.messages is not None:
        body["messages"] = turn.messages
        if turn.tools:
            body["tools"] = turn.tools
            body["tool_choice"] = "none"  # an answer in words, whatever the server can parse
        if turn.extra:
            body["chat_template_kwargs"] = turn.extra
    else:
        prompts = [_prompt(each) for each in (turn, *others)]
        endpoint, body["prompt"] = COMPLETIONS, prompts if others else prompts[0]
    body |= turn.fields
    body |= {"max_output_tokens" if endpoint == RESPONSES else "max_tokens": max_tokens}
    body["temperature"] = (
        1 if requested_answers(turn.fields) > 1 else 0
    )  # vLLM refuses several answers that are all the same
    salt = "".join(part for part in (turn.salt, how.salt) if part)
    if salt:
        body["cache_salt"] = salt
    return ToSend(endpoint, body)


def _prompt(turn: Turn) -> object:
    """Return the text or the tokens of a prompt."""
    if turn.text is not None:
        return str.__str__(turn.text)
    if turn.token_ids is not None:
        return turn.token_ids.tolist()
    raise KvtoolError("a trace of block hashes contains no prompts", hint="run kvtool profile on it", place=turn.place)


def _items(message: Message) -> Iterator[dict[str, Any]]:
    """Yield a message as the items of the Responses API that it was written as."""
    role, content = role_of(message), message.get("content")
    if role == "tool":
        yield {"type": "function_call_output", "call_id": message.get("tool_call_id"), "output": content or ""}
        return
    if content:
        yield {"type": "message", "role": role, "content": _parts(content, role)}
    for call in message.get("tool_calls") or ():
        function = call.get("function") or {}
        said = {"name": function.get("name"), "arguments": function.get("arguments")}
        yield {"type": "function_call", "call_id": call.get("id"), **said}


def _parts(content: object, role: str) -> object:
    """Return the texts of a list under the name that they have there."""
    if not isinstance(content, list):
        return content
    named = "output_text" if role == "assistant" else "input_text"
    return [
        {**part, "type": named} if isinstance(part, dict) and part.get("type") == "text" else part for part in content
    ]


def _tool(tool: object) -> object:
    """Return a function without the object that the chat API puts around it."""
    function = tool.get("function") if isinstance(tool, dict) else None
    return {"type": "function", **function} if isinstance(function, dict) else tool
