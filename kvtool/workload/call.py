"""A call of a model as its log reports it, beside its prompt: which model, for whom, how it was asked, and what its server
reported.

None is what the log does not say; 0 is what it says. A prompt's tokens are all that were sent, whatever a provider calls them: what
it read from its cache and what it wrote to it are parts of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Literal, NamedTuple

CUT_OFF = frozenset(("length", "max_tokens", "max_output_tokens", "model_length", "MAX_TOKENS", "incomplete"))
"""Why an answer ended whose last token is none that ends one, in the words of servers."""
FEWER = "less text than the reported tokens need"
"""Why a prompt is not whole: its server counted more tokens than the text can have."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one call as its server counted them. `written` are all that went into the cache; `written_5m` and `written_1h` are
    parts of them where the server reports for how long they are kept, and so is `written_12h`, which has no published price."""

    prompt: int | None = None
    cached: int | None = None
    written: int | None = None
    written_5m: int | None = None
    written_1h: int | None = None
    output: int | None = None
    reasoning: int | None = None
    """Tokens of the output that are reasoning, where the server reports them."""
    written_12h: int | None = None
    wrong: str | None = None
    """How the reported counts contradict each other: then none of them is known."""

    @property
    def all_written(self) -> int | None:
        """All tokens that went into the cache, also where only its parts are reported; None where neither is."""
        if self.written is not None or (self.written_5m is None and self.written_1h is None):
            return self.written
        return (self.written_5m or 0) + (self.written_1h or 0)


@dataclass(frozen=True, slots=True)
class CacheScope:
    """Scope of a provider's cache: its contents are never shared across any of these."""

    organisation: str | None = None
    workspace: str | None = None
    region: str | None = None
    key: str | None = None
    """`prompt_cache_key`, a session's header, a salt: whatever the request names to be sent where it was cached."""
    replica: str | None = None
    """The data-parallel rank of a vLLM or SGLang server, each with a cache of its own."""


@dataclass(frozen=True, slots=True)
class CallSettings:
    """Settings of a request that decide what its provider caches, keeps or charges. `tool_choice`, `thinking`, `effort` and
    `output_schema` are compared, never read: JSON with sorted keys, or a digest of it."""

    tool_choice: str | None = None
    thinking: str | None = None
    effort: str | None = None
    output_schema: str | None = None
    images: int = 0
    citations: bool = False
    """Whether a document or search result of the prompt asks for citations."""
    retention: str | None = None
    """`prompt_cache_retention`: `in_memory`, `24h`."""
    cache_mode: str | None = None
    """`prompt_cache_options.mode`: `implicit`, `explicit`. `marks`: without marks, the request asks for no caching."""
    cache_ttl: str | None = None
    """`prompt_cache_options.ttl`, or that of a `cache_control` for the whole request."""
    service_tier: str | None = None
    speed: str | None = None
    batch: bool = False
    cached_content: str | None = None
    """Gemini's name of an explicit cache."""


@dataclass(frozen=True, slots=True)
class StoredContent:
    """An explicit cache of a provider as one record reports it: its tokens, when it was made and until when it is kept, in seconds
    since 1970, or for how many. `made`: the record is that of its making."""

    name: str
    tokens: int | None = None
    created: float | None = None
    expires: float | None = None
    ttl: float | None = None
    model: str | None = None
    made: bool = False

    @property
    def seconds(self) -> float | None:
        """Return for how many seconds it is kept; None where the log does not say it."""
        if self.created is not None and self.expires is not None:
            return max(self.expires - self.created, 0.0)
        return self.ttl


Began = Literal["resumed", "compacted", "tools_changed"]
"""What a transcript records before a request: a resume, a compaction, or another list of tools."""


class ReportedMiss(NamedTuple):
    """Why a provider says that it did not read its cache, in its own word (`tools_changed`), and of how many tokens."""

    reason: str
    tokens: int | None


class SummedRequests(NamedTuple):
    """How many requests the row of a bill sums, where it says it, and about how many prompt tokens one of them has."""

    requests: int | None
    prompt: int


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a model as its log reports it. Times are seconds since 1970; `cost` is what the log says it cost, in US dollars."""

    model: str | None = None
    provider: str | None = None
    tenant: str | None = None
    request_id: str | None = None
    """What its provider calls it, where the log calls it otherwise."""
    project: str | None = None
    """The folder in which an agent worked: its last name."""
    subagent: bool = False
    """Whether an agent sent it that another one had started."""
    usage: Usage | None = None
    was_reported: bool = False
    """Whether its server reported the reads of the prompt that an edit replaced."""
    counted_twice: bool = False
    """Whether the log counts tokens of its prompt twice; `usage` has them once."""
    scope: CacheScope = field(default_factory=CacheScope)
    settings: CallSettings = field(default_factory=CallSettings)
    end: float | None = None
    first_answer: float | None = None
    """When the first token of the answer came."""
    status: int | None = None
    missed: ReportedMiss | None = None
    """The miss that its provider itself reports."""
    began: Began | None = None
    """What the transcript of its session records between the call before and this one."""
    reasoned: bool = False
    """Whether its answer has reasoning."""
    finish: str | None = None
    """Why the answer ended, in the server's word: `stop`, `length`, `tool_calls`, `end_turn`, `max_tokens` …"""
    cost: Decimal | None = None
    uncounted: tuple[tuple[str, int], ...] = ()
    """Parts of the prompt that are no text and so not counted, by kind: images, files, items of a server's own."""
    incomplete: str | None = None
    """Why the log does not hold the whole prompt, in a few words; None where nothing says so."""
    unread: str | None = None
    """The key of its record that looks like the answer and that no reader knows."""
    stored: tuple[StoredContent, ...] = ()
    """What its record says of explicit caches."""
    summed: SummedRequests | None = None
    """The requests whose usage its record sums; None: it is one request."""
    loops: bool = False
    """Whether the provider ran tools of its own for the answer: its usage sums the calls between them."""
    streamed: bool = False
    """Whether the answer was asked for as a stream."""
    system_blocks: bool = False
    """Whether the system prompt is a list of blocks beside the messages, as in Anthropic's API."""
    headers: int = 0
    """How many of these blocks, before all others, are headers that the prompt does not contain."""
    shares_usage: bool = False
    """Whether its call has other prompts, too: then its server reports the tokens of all together, and the cached ones of one."""
    prompts: int = 1
    """Prompts of its call; those of one call follow each other in a conversation."""
    responses: bool = False
    """Whether the record is a request of OpenAI's Responses API, which goes to a page of its own."""
    retried: bool | None = None
    """Whether its headers say that it was sent before; None where they say nothing of it."""
    fields: tuple[tuple[str, str], ...] = ()
    """Scalar fields of its record beside prompt and answer, by path, each with a word or a digest of its value."""

    @property
    def of_another_prompt(self) -> Call:
        """The call with a prompt of another length: what its server counted of the one that was sent says nothing of it."""
        usage = self.usage
        if usage is None:
            return self
        was_reported = self.was_reported or (usage.prompt is not None and usage.cached is not None)
        counted = Usage(output=usage.output, reasoning=usage.reasoning)
        return replace(self, usage=counted, was_reported=was_reported)

    @property
    def usage_of_prompt(self) -> Usage | None:
        """What its server counted of its one prompt; None where its usage sums several."""
        return None if self.loops or self.summed is not None else self.usage

    @property
    def has_failed(self) -> bool:
        """Return whether its server refused or failed it: an HTTP status of an error (4xx, 5xx)."""
        return self.status is not None and self.status >= 400


NO_CALL = Call()
"""What a source that is no log knows of a call."""
