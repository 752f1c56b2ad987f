"""What reports draw: the run over time, who shares which prefix, what a smaller cache would hit, and the worst prompts.

All of it is bounded whatever the number of requests, and none of it quotes a prompt.
"""

from __future__ import annotations

from kvtool.results.document_base import Count, Model, Ratio


class TimeBin(Model):
    """Requests in the order in which they were settled: `first` is the number (from 0, of all groups) with which the bin begins.

    Bins are equally wide in all timelines of a report; those without a request of the group are left out.
    """

    first: Count
    requests: Count
    prompt_tokens: Count
    hit_tokens: Count


class TreeNode(Model):
    """A run of tokens that prompts share: `requests` prompts pass through its `tokens` tokens, which begin at position `start`.

    Nodes stand in an order in which a parent comes before its children; `parent` is an index into the list, None for those at the
    front of prompts. `groups` are the groups whose prompts pass, the most first (at most 4). `path`, `line` and `part` say where
    its first token was written, or the first one of which that is known (`path` empty, `line` 0 where none is); of a logged prompt,
    `line` is that of its record.
    """

    parent: int | None
    start: Count
    tokens: Count
    requests: Count
    groups: list[str]
    path: str
    line: Count
    part: str


class PrefixTree(Model):
    """The heaviest nodes (tokens times requests) of the tree of all prompts. `left_out` counts tokens of prompts in no node."""

    prompt_tokens: Count
    left_out: Count
    nodes: list[TreeNode]


class ReuseBin(Model):
    """Uses of blocks again whose reuse distance (distinct other blocks used since) is from `least` to `most`."""

    least: Count
    most: Count
    uses: Count


class CapacityPoint(Model):
    """The hit rate that an LRU list of `blocks` blocks would have, by Mattson's stack distances (1970)."""

    blocks: Count
    hit_rate: Ratio


class Reuse(Model):
    """Distances of reuse over blocks; `sampled` 1 means all blocks, 0.25 a quarter of them (spatially hashed, SHARDS: FAST 2015).

    Prompts look up the full blocks before their last token (with the rules of trace studies all blocks), in order of submission;
    answers are kept, too. The last point of the curve is the smallest capacity that hits all that is reachable. An engine hits a
    little less than the curve, as requests that run hold blocks.
    """

    sampled: Ratio
    uses: Count
    first_uses: Count
    bins: list[ReuseBin]
    curve: list[CapacityPoint]


class Run(Model):
    """Tokens `start` to `stop` of a prompt have this fate. `path` and `line` say where the first of them was written."""

    start: Count
    stop: Count
    fate: str
    path: str
    line: Count


class WorstPrompt(Model):
    """One of the prompts that lost most: its fates from the first to the last token. `turn` counts from 1."""

    id: str
    group: str
    turn: int
    prompt_tokens: Count
    hit_tokens: Count
    runs: list[Run]


class Timeline(Model):
    """Hit rate in the course of the run; `group` None is all requests together."""

    group: str | None
    bins: list[TimeBin]


class Views(Model):
    timelines: list[Timeline]
    prefix_tree: PrefixTree | None
    reuse: Reuse | None
    worst: list[WorstPrompt]
