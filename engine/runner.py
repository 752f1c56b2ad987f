"""The runner that computes nothing: accounting only."""

from __future__ import annotations

from kvtool.engine.step import EngineStep


class DryRunner:
    """Answers every request with its forced tokens, or with token 0."""

    def run(self, step: EngineStep) -> list[int | None]:
        tokens: list[int | None] = []
        for request, start, count in step.scheduled:
            if start + count != request.num_tokens:
                tokens.append(None)
            else:
                forced = request.output_ids
                tokens.append(0 if forced is None else forced[len(request.outputs)])
        return tokens
