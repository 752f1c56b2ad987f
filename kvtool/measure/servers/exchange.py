"""A request that a server was sent, and what it answered: sent just now, or recorded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kvtool.workload.call import Usage
from kvtool.workload.logs.records.record import RecordError
from kvtool.workload.logs.records.usage import usage_in_answer, without_counts

ANSWERED = 200
_MOST_IDS = 1 << 22  # token ids of an answer that are read: a bound for hostile servers


@dataclass(frozen=True, slots=True)
class Exchange:
    """Times are seconds since the run began. `status` is None where no answer came, and `trouble` then says why in a few words."""

    number: int
    body: dict[str, Any]
    endpoint: str = ""
    session_id: str | None = None
    sent: float | None = None
    first: float | None = None
    """When the first token of the answer came, where it was streamed."""
    done: float | None = None
    status: int | None = None
    response: dict[str, Any] | None = None
    trouble: str | None = None

    @property
    def id(self) -> str:
        """Return its name in reports."""
        return self.session_id or str(self.number)

    @property
    def answered(self) -> bool:
        """Return whether the server took it and answered."""
        return self.status == ANSWERED and self.response is not None

    @property
    def refused(self) -> bool:
        """Return whether the server said no before it computed anything."""
        return self.status is not None and ANSWERED < self.status < 500

    @property
    def usage(self) -> Usage | None:
        """Return the server's own count; None where it says none, or one that cannot be."""
        if self.response is None:
            return None
        try:
            usage = usage_in_answer(self.response, ("response",))
        except RecordError:
            return None
        return None if usage is None or usage.wrong is not None else usage

    @property
    def prompt_ids(self) -> list[int] | None:
        """Return the prompt's tokens as the server says that it read them (`return_token_ids`)."""
        if self.response is None:
            return None
        found = _ids(self.response.get("prompt_token_ids"))
        return found or next((ids for choice in self._choices if (ids := _ids(choice.get("prompt_token_ids")))), None)

    @property
    def output_ids(self) -> list[int] | None:
        """Return the answer's tokens as the server sampled them."""
        return next((ids for choice in self._choices if (ids := _ids(choice.get("token_ids")))), None)

    @property
    def _choices(self) -> list[dict[str, Any]]:
        choices = self.response.get("choices") if self.response is not None else None
        return [choice for choice in choices if isinstance(choice, dict)] if isinstance(choices, list) else []

    def as_record(self) -> dict[str, Any]:
        """Return the exchange as a record of a log: what the prompt and the answer are read from, without counts that cannot be."""
        response = self.response
        if response is not None and self.usage is None:
            response = without_counts(response)
        body = self.body if self.first is None else {**self.body, "stream": True}
        return {"endpoint": self.endpoint, "body": body, "response": response}


def _ids(value: object) -> list[int] | None:
    if not isinstance(value, list) or not value or len(value) > _MOST_IDS:
        return None
    return value if all(type(item) is int and 0 <= item < 1 << 31 for item in value) else None
