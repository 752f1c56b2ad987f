"""Chat templates: messages and tools to the text a server would feed to its model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvtool.errors import KvtoolError, MessageRefusedError
from kvtool.text.cache_marks import CACHE_MARKS, without_marks
from kvtool.text.files.text_files import decode, read_data
from kvtool.text.message import Message
from kvtool.text.templates.built_in import BUILT_IN_TEMPLATES, HOSTED_TEMPLATE
from kvtool.text.templates.served_messages import Served, place_of, served_messages
from kvtool.text.tokens.tokenizer import Tokenizer
from kvtool.text.traced import Origin, Traced

if TYPE_CHECKING:
    from kvtool.text.templates.template import TracedTemplate


_END_MARK = "\ue000end of the last message\ue001"
"""Marks the end of the last message in the prompt. A space is added: without it in the prompt, the template strips texts."""


def check_continued(messages: Sequence[Message], *, add_generation_prompt: bool) -> None:
    """MessageRefusedError for a request that a server refuses."""
    last = messages[-1] if messages else {}
    if add_generation_prompt:
        raise MessageRefusedError(
            "`continue_final_message` needs `add_generation_prompt` to be false",
            hint='set "add_generation_prompt": false; servers refuse both',
            place=place_of(last),
        )
    if not last.get("content"):
        raise MessageRefusedError(
            "`continue_final_message` is set, but the last message has no text",
            hint="end the last message with the text to continue",
            place=next((place for each in reversed(messages) if (place := place_of(each))), None),
        )


def with_end_mark(messages: list[Served]) -> list[Served]:
    """The messages with a mark after the text of the last one."""
    last = dict(messages[-1])
    content = last["content"]
    if isinstance(content, list):
        *before, part = content
        last["content"] = [*before, {**part, "text": part["text"] + _END_MARK + " "}]
    elif isinstance(content, str):
        last["content"] = Traced(content) + _END_MARK + " "
    return [*messages[:-1], last]


def up_to_end_mark(text: Traced, messages: Sequence[Message]) -> Traced:
    """A rendered prompt up to the mark; MessageRefusedError where the template leaves the last message out."""
    at = str.rfind(text, _END_MARK)
    if at < 0:
        raise MessageRefusedError(
            "the chat template leaves out the last message, which the request continues",
            place=place_of(messages[-1]),
        )
    if str.startswith(text, _END_MARK + " ", at):
        return text[:at]
    return text[: len(str.rstrip(str.__getitem__(text, slice(at))))]  # the template strips texts


_TEKKEN_TOKENS = ("[SYSTEM_PROMPT]", "[AVAILABLE_TOOLS]", "[INST]", "[TOOL_CALLS]", "[TOOL_RESULTS]")
_DEVELOPER = ('"developer"', "'developer'")
"""A template that names this role in quotes knows it."""
_MOST_BYTES = 64 << 20
_EPOCH = datetime(2025, 1, 1)
TOOLS_HEAD = "tools:\n"
"""What is before the tools in `ChatTemplate.hosted`; each is a line of its own after it."""


class ChatTemplate:
    """A compiled chat template and the special tokens it may name."""

    def __init__(
        self,
        name: str,
        source: str,
        tokens: Mapping[str, str],
        *,
        clock: Callable[[], datetime] | None = None,
        extra: Mapping[str, object] | None = None,
    ) -> None:
        """`clock` answers the template's `strftime_now`; without one that is the moment of each rendering. `extra` are variables
        that go before those of a request."""
        from kvtool.text.templates.template import compile_template  # with all of Jinja

        self.name = name
        self.source = source
        self._tokens = dict(tokens)
        self._extra = dict(extra or {})
        self._moment = _EPOCH
        self._has_clock = clock is not None
        origin = Origin(name, part="chat template")
        self._template: TracedTemplate = compile_template(source, chat=True, origin=origin, clock=clock or self._now)

    @property
    def contains_time(self) -> bool:
        """Return whether the template may ask what time it is, and has no clock of its own that answers."""
        return not self._has_clock and "strftime_now" in self.source

    def changed(
        self, *, clock: Callable[[], datetime] | None = None, extra: Mapping[str, object] | None = None
    ) -> ChatTemplate:
        """The same template with a clock of its own, or with variables that go before those of a request."""
        return ChatTemplate(self.name, self.source, self._tokens, clock=clock, extra={**self._extra, **(extra or {})})

    @property
    def by_message(self) -> bool:
        """Return whether it writes tools, then each message, whatever is before and after it, then the beginning of the answer."""
        return self.name == HOSTED_TEMPLATE and not self._extra

    @classmethod
    def load(cls, path: str | None, tokenizer: Tokenizer) -> ChatTemplate:
        """The template of a file, else the tokenizer's own, else one of ours: for Tekken's control tokens, or ChatML."""
        tokens = tokenizer.special_tokens
        if path is not None:
            return cls(path, template_text(path), tokens)
        if tokenizer.chat_template is not None:
            return cls(f"{tokenizer.name} chat template", tokenizer.chat_template, tokens)
        return cls.own(tokenizer)

    @classmethod
    def own(cls, tokenizer: Tokenizer) -> ChatTemplate:
        """kvtool's template for this vocabulary: tools are right after the system prompt."""
        kind = "tekken" if all(map(tokenizer.is_token, _TEKKEN_TOKENS)) else "chatml"
        return _own_template(f"{BUILT_IN_TEMPLATES}{kind}.jinja", kind, tuple(tokenizer.special_tokens.items()))

    @classmethod
    def hosted(cls, tokenizer: Tokenizer) -> ChatTemplate:
        """The order in which hosted models read a request: tools, then messages. What is written around them is not known."""
        return _own_template(HOSTED_TEMPLATE, "hosted", tuple(tokenizer.special_tokens.items()))

    def render(
        self,
        messages: Sequence[Message],
        tools: Sequence[Any] | None = None,
        *,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
        extra: Mapping[str, object] | None = None,
        seconds: float = 0.0,
    ) -> Traced:
        """The prompt text; what stood in a message keeps its origin. Raises KvtoolError where the template refuses a message.

        With `continue_final_message` the text ends where the last message does, without what the template writes after it.
        `seconds` after the beginning of 2025 is when the request is rendered, for templates that ask.
        """
        self._moment = _moment(seconds)
        variables: dict[str, object] = {
            "tools": [_without_marks(tool) for tool in tools] if tools else None,
            "documents": None,
            "add_generation_prompt": add_generation_prompt,
            **self._tokens,
            **(extra or {}),
            **self._extra,
        }
        prepared = served_messages(
            messages, parts=self._template.reads_parts, developer=any(each in self.source for each in _DEVELOPER)
        )
        if continue_final_message:
            check_continued(messages, add_generation_prompt=add_generation_prompt)
            prepared = with_end_mark(prepared)
        try:
            text = self._template.render({**variables, "messages": prepared})
        except KvtoolError as error:
            raise self._refused(error, variables, prepared) from error
        return up_to_end_mark(text, messages) if continue_final_message else text

    def _now(self) -> datetime:
        return self._moment

    def _refused(
        self, error: KvtoolError, variables: Mapping[str, object], messages: list[dict[str, object]]
    ) -> KvtoolError:
        """Says which message the template does not take: the last one of the shortest beginning that fails. Where there are too
        many to try each, of one that fails while its own beginnings do not seem to."""
        if self._template.left < 0 or not messages:
            return error
        from kvtool.text.templates.work import MAX_WORK

        steps = MAX_WORK
        fits, fails = 0, len(messages)
        while fits + 1 < fails:
            count = fits + 1 if steps > MAX_WORK // 2 else (fits + fails) // 2
            try:
                self._template.render({**variables, "messages": messages[:count]}, steps)
            except KvtoolError as first:
                if self._template.left < 0:
                    return first
                fails, error = count, first
            else:
                fits = count
            steps = self._template.left
        role = messages[fails - 1].get("role")
        reason = error.message.removeprefix("template: ")
        return MessageRefusedError(
            f"the chat template {self.name} refuses message {fails - 1} (role {role!r}): {reason}",
            hint=f"the template fails at {error.place}" if error.place else error.hint,
            place=place_of(messages[fails - 1]) or error.place,
        )


def _moment(seconds: float) -> datetime:
    try:
        return _EPOCH + timedelta(seconds=seconds)
    except OverflowError:  # a log may say anything
        return _EPOCH


def template_text(path: str) -> str:
    """Read the file of a template; KvtoolError where it cannot be read."""
    data = read_data(Path(path).expanduser(), what="chat template ", shown=path, limit=_MOST_BYTES)
    try:
        return data.decode()
    except UnicodeDecodeError:
        return decode(data, shown=path)  # says what it is instead, and where


def _without_marks(tool: Any) -> Any:
    """A tool as a model reads it."""
    if not isinstance(tool, dict):
        return tool
    function = tool.get("function")
    if isinstance(function, dict) and not function.keys().isdisjoint(CACHE_MARKS):
        tool = {**tool, "function": without_marks(function)}
    return tool if tool.keys().isdisjoint(CACHE_MARKS) else without_marks(tool)


@lru_cache(maxsize=8)
def _own_template(name: str, kind: str, tokens: tuple[tuple[str, str], ...]) -> ChatTemplate:
    """Compile a template of kvtool once: it asks for no time, so nothing of a rendering stays in it."""
    source = (files("kvtool") / "text" / "templates" / f"{kind}.jinja").read_text(encoding="utf-8")
    return ChatTemplate(name, source, dict(tokens))
