"""The ledger: every prompt token has exactly one fate, and the fates of a request sum to its prompt tokens.

The fates come from a ladder: one limit after the other is lifted for the same requests, and a token's fate is the first rung on
which it becomes a hit. Rungs that cannot differ in a configuration are absent.

====================  ================================================================================================
hit                   the engine as configured reused it
caching_off           prefix caching is switched off
not_read              the request asks for log probabilities of its prompt, and vLLM computes all of it
evicted               an unlimited cache would still have had it
window                layers with a sliding window had dropped its tokens (llama.cpp)
host_list_full        it was saved in host memory, and later saves replaced it (llama.cpp)
slot_lost             its slot took another prompt, and no saved one could replace it (llama.cpp)
taken_over            another request took over its block (TensorRT-LLM)
expired               it was dropped at the end of its time to live
scattered             another replica had it
below_minimum         the shared prefix is shorter than the provider's minimum
unmarked              the shared prefix ends at no breakpoint that the provider stored
setting_changed       its prefix is stored for requests with other settings
not_kept              a block of it was computed in a window or a state, and not kept: no kept boundary ends there
answer_not_kept       the same for the answer of a session's last turn
no_state              linear attention keeps states only at ends of steps or prefill chunks, llama.cpp in checkpoints, and none
                      ended there
drafts                the block before it cannot be used, because drafts need the next token
long_block            it ends inside of a block, because the model's blocks are long
in_flight             it was being computed at that moment; requests one after another would have found it
isolated              another tenant's salt protects it
last_token            it is in a full block that vLLM recomputes for the logits of the last token
partial_block         it is shared, but the shared prefix ends before its block does
seam                  the same characters have other tokens
cosmetic              the same text follows after a difference of form only (order of keys or tools, white space)
blocked               the same text follows in an earlier prompt, after a difference
displaced             an earlier prompt has the same line, elsewhere
first_use             first use of a prefix that later prompts reuse
unique                used once
====================  ================================================================================================
"""

from __future__ import annotations

FATES = {
    "hit": "hit",
    "caching_off": "prefix caching is off",
    "not_read": "prompt logprobs requested",
    "evicted": "evicted",
    "window": "outside the attention window",
    "host_list_full": "dropped from host memory",
    "slot_lost": "server slot lost",
    "taken_over": "block taken over",
    "expired": "expired",
    "scattered": "on another replica",
    "below_minimum": "below the provider's minimum",
    "unmarked": "no cache breakpoint",
    "setting_changed": "setting changed",
    "not_kept": "boundary not kept",
    "answer_not_kept": "previous answer, not kept",
    "no_state": "no saved state",
    "drafts": "last block, needed for drafts",
    "long_block": "inside a long block",
    "in_flight": "computed at the same time",
    "isolated": "under another salt, key or model",
    "last_token": "last block, recomputed",
    "partial_block": "partial last block",
    "seam": "same text, different tokens",
    "cosmetic": "differs in order or format",
    "blocked": "blocked (repeated after a change)",
    "displaced": "repeated, not at the front",
    "first_use": "first use",
    "unique": "unique text",
}
"""Each fate in the order of the ladder, in words for people."""

OF_TOKENS = ("blocked", "displaced")
"""Fates that need the tokens of prompts: a trace of block hashes has none of them."""
OF_TEXT = ("seam", "cosmetic")
"""Fates that need the text of prompts: token ids alone do not give them."""

DECIDED_BY = {
    "evicted": "capacity",
    "in_flight": "timing",
    "isolated": "isolation",
    "caching_off": "switched off",
    "not_read": "request",
    "setting_changed": "request",
    "not_kept": "model",
    "answer_not_kept": "model",
    "no_state": "model",
    "drafts": "model",
    "long_block": "model",
}
"""The cause of a fate that does not come from the text."""


def block_rungs(count: int, own: int, known: int, size: int) -> list[tuple[str, int]]:
    """Return the hits of a prompt in an unlimited cache of blocks of `size`, rung by rung, with the fate of each rung's extra
    hits.

    Of its `count` tokens `own` were computed before for the same salt, and `known` for any.
    """
    return [
        ("in_flight", min(own, count - 1) // size * size),
        ("isolated", min(known, count - 1) // size * size),
        ("last_token", known // size * size),
        ("partial_block", known),
    ]
