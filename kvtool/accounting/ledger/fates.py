"""The ledger: every prompt token has exactly one fate, and the fates of a request sum to its prompt tokens.

The fates come from a ladder: the same requests are accounted for again with one limit after the other lifted, and a token's fate is
the first rung on which it becomes a hit. Rungs that cannot differ in a configuration are absent.

====================  ================================================================================================
hit                   the engine as configured reused it
caching_off           prefix caching is switched off
not_read              the request asks for log probabilities of its prompt, and vLLM computes all of it
evicted               an unlimited cache would still have had it
window                layers with a sliding window no longer had what it needs (llama.cpp)
host_list_full        it was saved in host memory, and went for what was saved later (llama.cpp)
slot_lost             its slot took another prompt, and nothing saved could stand in for it (llama.cpp)
taken_over            another request made the block that held it its own (TensorRT-LLM)
expired               it was dropped when its time to live was over
scattered             another replica had it
below_minimum         the shared prefix is shorter than the provider caches
unmarked              the shared prefix ends at no breakpoint that the provider stored
not_kept              a block of it was computed in a window or a state, and not kept: no kept boundary ends there
answer_not_kept       the same of the answer that a session's last turn got
no_state              linear attention has states only where a step or a chunk of a prefill ended, and none ended there
drafts                the block before it cannot be used, as drafts need the token behind it
long_block            it ends inside of a block, as the model's blocks are long
in_flight             it was being computed at that moment; requests one after another would have found it
isolated              another tenant's salt protects it
last_token            it stands in a full block that vLLM recomputes, as the logits of the last token are needed
partial_block         it is shared, but the shared prefix ends before its block does
seam                  the same characters were cut into other tokens
cosmetic              the same text follows, behind a difference of form only (order of keys or tools, white space)
blocked               the same text follows in an earlier prompt, behind text that differs
displaced             an earlier prompt has the same line, elsewhere
first_use             the first time that a prefix is seen which later prompts reuse
unique                seen once
====================  ================================================================================================
"""

from __future__ import annotations

FATES = {
    "hit": "hit",
    "caching_off": "prefix caching is off",
    "not_read": "prompt logprobs asked for",
    "evicted": "evicted before reuse",
    "window": "beyond the window",
    "host_list_full": "host list full",
    "slot_lost": "slot lost",
    "taken_over": "block taken over",
    "expired": "expired before reuse",
    "scattered": "on another replica",
    "below_minimum": "below provider's minimum",
    "unmarked": "at no cache breakpoint",
    "not_kept": "at no boundary that was kept",
    "answer_not_kept": "previous answer, not kept",
    "no_state": "no state ended there",
    "drafts": "last block, for drafts",
    "long_block": "inside the model's long block",
    "in_flight": "computed at the same time",
    "isolated": "another tenant's salt",
    "last_token": "last block, recomputed",
    "partial_block": "partial last block",
    "seam": "same text, other tokens",
    "cosmetic": "differs only in form",
    "blocked": "blocked by volatile text",
    "displaced": "same text, not at front",
    "first_use": "first use of a prefix",
    "unique": "unique text",
}
"""Each fate in the order of the ladder, in words for people."""

OF_TOKENS = ("blocked", "displaced")
"""Fates that need the tokens of prompts: a trace of block hashes has none of them."""
OF_TEXT = ("seam", "cosmetic")
"""Fates that need the text of prompts: token ids alone do not tell them."""

DECIDED_BY = {
    "evicted": "capacity",
    "in_flight": "timing",
    "isolated": "tenants",
    "caching_off": "switched off",
    "not_read": "request",
    "not_kept": "model",
    "answer_not_kept": "model",
    "no_state": "model",
    "drafts": "model",
    "long_block": "model",
}
"""What decides a fate, where it is not the text."""


def block_rungs(count: int, own: int, known: int, size: int) -> list[tuple[str, int]]:
    """Tokens of a prompt that hit in an unlimited cache of blocks of `size`, rung by rung, with the fate of what each adds.

    Of its `count` tokens `own` were computed before for the same salt, and `known` for any.
    """
    return [
        ("in_flight", min(own, count - 1) // size * size),
        ("isolated", min(known, count - 1) // size * size),
        ("last_token", known // size * size),
        ("partial_block", known),
    ]
