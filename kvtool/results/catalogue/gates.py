"""KV401 to KV407: what gates demanded and did not get. They are verdicts, not causes: no comment ignores them."""

from __future__ import annotations

from kvtool.results.catalogue.entry import Entry, Remedy

_LOOK = Remedy("mend what the findings beside it name; kvtool profile shows where the tokens went")

ENTRIES: tuple[Entry, ...] = (
    Entry(
        "KV401",
        "hit rate below its gate",
        "The part of the prompt tokens that are cache hits is less than what is demanded of a workload or a group.",
        "Tokens that are not hit are computed again: they cost time to the first token and room in each step.",
        "gate: {hit_rate: '>=80%'}    hit rate 62.0%",
        "gate: {hit_rate: '>=80%'}    hit rate 89.5%",
        (_LOOK, Remedy("demand less, on purpose, where the prompts are as they have to be")),
        "Never: change the gate, or its level (off, warn, error), where the demand is written.",
    ),
    Entry(
        "KV402",
        "hit rate fell below the baseline",
        "A hit rate is lower than when the baseline was written, by more than --max-drop (0.5 % unless said otherwise).",
        "Something in the prompts, the templates or their order changed, and earlier requests no longer begin as later ones do.",
        "kvtool-baseline.json: 88.9%    hit rate 62.0%",
        "kvtool-baseline.json: 88.9%    hit rate 88.7%",
        (_LOOK, Remedy("where the fall is meant: kvtool check --update-baseline, and commit the file with the change")),
        "Never: update the baseline instead.",
    ),
    Entry(
        "KV403",
        "an unlimited cache would hit much more",
        "The gap between the hit rate and the one with a cache that never evicts is wider than what is allowed.",
        "The prompts could share more than the memory lets them: capacity, routing or order loses it, not the text.",
        "gate: {reachable_gap: '<=5%'}    hit rate 62.0%, reachable 89.5%",
        "gate: {reachable_gap: '<=5%'}    hit rate 87.1%, reachable 89.5%",
        (Remedy("more capacity, a smaller KV cache type, or requests of one prefix close together (KV301, KV304)"),),
        "Never: change the gate instead.",
    ),
    Entry(
        "KV404",
        "predicted time to first token beyond its gate",
        "A quantile of the TTFT that the latency model predicts for the configured accelerator is longer than what is allowed.",
        "It grows with the tokens that are not hit, and with the requests that wait before one.",
        "gate: {ttft_p90: 50ms}    predicted p90 97 ms",
        "gate: {ttft_p90: 50ms}    predicted p90 41 ms",
        (_LOOK, Remedy("allow more where the prompts have grown on purpose")),
        "Never: change the gate instead.",
    ),
    Entry(
        "KV405",
        "findings that are not allowed",
        "There are findings of a code, or of a severity, of which the gate allows none.",
        "Each of them says what it costs.",
        "gate: {findings: {KV1: error}}    1 finding: KV101",
        "gate: {findings: {KV1: error}}    no finding",
        (
            Remedy("mend what they name; kvtool lint --fix and kvtool optimize write the edits"),
            Remedy("ignore a single one where it stands, with a reason: # kvtool: ignore[KV101] reason"),
        ),
        "Never: ignore the finding, or make an exception (findings: {KV101: off}).",
    ),
    Entry(
        "KV406",
        "a required baseline cannot be compared with",
        "--require-baseline is set, and the baseline lacks the workload or was written under other settings.",
        "Hit rates under another tokenizer, block size or capacity say nothing about a change of the prompts.",
        "kvtool-baseline.json: block size 16    this run: block size 32",
        "both: block size 16",
        (
            Remedy("run with the settings of the baseline"),
            Remedy("or record the new ones: kvtool check --update-baseline, and commit the file"),
        ),
        "Never: leave --require-baseline out, and the same is a notice.",
    ),
    Entry(
        "KV407",
        "reuse changed a token",
        "With --audit: a token that was sampled after reused keys and values is not the one that computing all of them gives.",
        "In fp32, with the cache in the model's own type, reuse must not change results: this is a fault of kvtool or of a kernel.",
        "kvtool profile --audit    1 token differs",
        "kvtool profile --audit    no token differs",
        (Remedy("report it, with the workload and what kvtool doctor prints"),),
        "Never.",
    ),
)
