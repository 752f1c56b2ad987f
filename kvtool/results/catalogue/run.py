"""KV301 to KV306: what the run does to prefixes that the prompts share."""

from __future__ import annotations

from kvtool.results.catalogue.entry import Entry, Remedy

ENTRIES: tuple[Entry, ...] = (
    Entry(
        "KV301",
        "evicted before reuse",
        "A prefix was in the cache and was evicted before the next request that begins with it.",
        "The cache holds less than what is in use between two uses of the prefix.",
        "--capacity 2000 (blocks): 31 % of the prompt tokens evicted before reuse",
        "--capacity 8000 (blocks), or --kv-cache-dtype fp8: none",
        (
            Remedy("more capacity, or KV cache in a smaller type (which changes results slightly)", "P0"),
            Remedy("for offline batches: order requests so that those of one prefix are neighbours", "P0"),
        ),
        "The memory is not to be had, and requests come in an order that nobody chooses.",
    ),
    Entry(
        "KV302",
        "salt or LoRA splits a shared prefix",
        "Requests with the same prefix have different cache salts or adapters and cannot share it.",
        "Each tenant or adapter computes and keeps its own copy.",
        "tenant: acme    tenant: globex    (same system prompt)",
        "one salt for the public system prompt, if your threat model allows it",
        (Remedy("a decision about security, not about speed; kvtool never proposes it by itself"),),
        "Isolation is what you want: then this is its price.",
    ),
    Entry(
        "KV303",
        "requests of one prefix start together, cold",
        "Several requests with a new prefix start before any of them has computed it.",
        "Nothing can be reused that is not there yet: each of them computes the prefix.",
        "asyncio.gather(*(ask(document, question) for question in questions))",
        "await ask(document, questions[0]), then the others together",
        (Remedy("send one request first, the others when its prompt is computed", "P0"),),
        "The wait for the first one costs more than the work.",
    ),
    Entry(
        "KV304",
        "replicas scatter a prefix",
        "Requests of one prefix go to different replicas, each of which has a cache of its own.",
        "With n replicas a prefix is computed up to n times, and takes memory on each.",
        "round robin over 8 replicas",
        "a consistent hash of the first blocks, or a router that knows the caches",
        (Remedy("sticky or cache-aware routing", "P0"),),
        "Prefixes are so often used that each replica keeps them warm.",
    ),
    Entry(
        "KV305",
        "time to live passed before reuse",
        "A hosted cache dropped the prefix because it was not used for too long.",
        "The next request pays for writing it again.",
        "a request each 7 minutes, time to live 5 minutes",
        "the longer tier, or a keep-warm request each 4 minutes",
        (Remedy("a longer time to live, or keeping it warm, where that costs less than what is lost", "P0"),),
        "Traffic is so sparse that keeping it warm costs more.",
    ),
    Entry(
        "KV306",
        "sensitive-looking text inside a prefix shared by several tenants",
        "Something that looks like an email address, a key or a card number stands in a prefix that tenants share.",
        "Not a loss: who can measure the time to the first token can find out whether a prefix is in the cache.",
        "API key: sk-live-...\n<shared rules>",
        "<shared rules>, and the key where the tool needs it, outside the prompt",
        (Remedy("look at it; take it out, or give tenants salts of their own"),),
        "It is a made-up value or public, such as the address of the support desk.",
    ),
)
