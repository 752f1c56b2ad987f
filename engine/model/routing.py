"""Choose the experts of a token and their weights."""

from __future__ import annotations

import torch
from torch.nn.functional import linear

from kvtool.engine.model.experts import Experts


def route(
    x: torch.Tensor,
    experts: Experts,
    router: torch.Tensor,
    bias: torch.Tensor | None = None,
    correction: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return weights [T, chosen] and numbers int64[T, chosen] of the experts of each of x [T, hidden]; router [E, hidden]."""
    if experts.scoring == "softmax of chosen":
        best, chosen = linear(x, router, bias).topk(experts.chosen, dim=-1)
        return best.softmax(dim=-1), chosen
    logits = linear(x.float(), router.float())
    scores = logits.sigmoid() if experts.scoring == "sigmoid" else logits.softmax(dim=-1)
    ranked = scores if correction is None else scores + correction
    if experts.groups > 1:
        ranked = ranked.masked_fill(~_in_best_groups(ranked, experts), -torch.inf)
    chosen = ranked.topk(experts.chosen, dim=-1).indices
    weights = scores.gather(1, chosen)
    if experts.normalized:
        weights = weights / (weights.sum(dim=-1, keepdim=True) + 1e-20)
    return weights * experts.scale, chosen


def _in_best_groups(ranked: torch.Tensor, experts: Experts) -> torch.Tensor:
    """Return bool[T, E]: whether an expert is in one of the groups that are chosen from."""
    groups = ranked.view(len(ranked), experts.groups, -1)
    worth = groups.topk(experts.group_best, dim=-1).values.sum(dim=-1)  # [T, groups]
    best = worth.topk(experts.groups_chosen, dim=-1).indices
    chosen = torch.zeros_like(worth, dtype=torch.bool).scatter_(1, best, True)
    return chosen.repeat_interleave(groups.shape[2], dim=1)
