"""The runner that computes nothing: accounting only."""

from __future__ import annotations

from kvtool.engine.request import Request
from kvtool.engine.step import EngineStep, Sampled


class DryRunner:
    """Answer every request with its forced tokens, or with token 0. `Request.accepted_drafts` gives the accepted drafts."""

    def run(self, step: EngineStep) -> list[Sampled]:
        tokens: list[Sampled] = []
        for request, start, count in step.scheduled:
            end = start + count
            if end == request.num_tokens:
                forced = request.output_ids
                tokens.append(0 if forced is None else forced[len(request.outputs)])
            elif end < request.num_tokens:
                tokens.append(None)
            else:
                placeholders = request.admissions[-1][0] == step.index  # a request is admitted before it has drafts
                tokens.append(self._verified(request, 0 if placeholders else end - request.num_tokens))
        return tokens

    def _verified(self, request: Request, drafts: int) -> list[int]:
        """Return the accepted drafts and the token after them."""
        accepted = request.accepted_drafts[request.num_verified % len(request.accepted_drafts)]
        request.num_verified += drafts > 0
        most = request.max_tokens - len(request.outputs)
        count = min(min(accepted, drafts) + 1, most)
        forced, first = request.output_ids, len(request.outputs)
        return [0] * count if forced is None else forced[first : first + count]
