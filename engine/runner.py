"""The runner that computes nothing: accounting only."""

from __future__ import annotations

from kvtool.engine.step import Step


class DryRunner:
    """Answers every request with its forced tokens, or with token 0."""

    def run(self, step: Step) -> list[int | None]:
        return [
            (token if (token := request.next_forced()) is not None else 0)
            if start + count == request.num_tokens
            else None
            for request, start, count in step.scheduled
        ]
