"""KV101 to KV107: values that vary where prompts should be equal."""

from __future__ import annotations

from kvtool.results.catalogue.entry import Entry, Remedy

ENTRIES: tuple[Entry, ...] = (
    Entry(
        "KV101",
        "clock or date early in the prompt",
        "A timestamp, a time or a date stands before text that other requests share.",
        "KV blocks are reused only up to the first token that differs. A clock differs from request to request (a date once "
        "a day), so every block from it on is computed again, however equal the text behind it is.",
        "Now: {{ now }}. You are the support agent for Acme.\n<3,000 tokens of rules>",
        "You are the support agent for Acme.\n<3,000 tokens of rules>\nNow: {{ now }}.",
        (
            Remedy("move the clock behind the shared text, best into the latest turn", "P2"),
            Remedy("coarsen it: the hour or the date instead of the second, where that is enough", "P3"),
            Remedy("leave it out, or let the model ask a tool for the time", "P3"),
        ),
        "The value is constant by design (the date of a contract, a knowledge cutoff), or less than a block follows it.",
    ),
    Entry(
        "KV102",
        "random or request id",
        "A UUID, ULID, nonce, trace header, digest or token that is new in every request stands before shared text.",
        "It never repeats, so nothing behind it is ever reused: not by other users, and not by the next turn of the same one.",
        "Request 9f1c2f5e-6a0b-4d1e-9c57-2f0f3a1f7c11\n<shared instructions>",
        "<shared instructions>\nRequest 9f1c2f5e-6a0b-4d1e-9c57-2f0f3a1f7c11",
        (
            Remedy("send the id beside the prompt, in metadata or a header: the model rarely needs it", "P3"),
            Remedy("move it to the tail of the prompt", "P2"),
        ),
        "The id keeps requests apart on purpose, against timing attacks on a shared cache; a cache salt says the same better.",
    ),
    Entry(
        "KV103",
        "segment declared stable but varies",
        "A message or segment that is marked `stable: true` was not the same in all requests.",
        "Whoever marked it counts on its reuse. What varies inside of it ends the shared prefix there.",
        "- {role: system, text: 'Build {{ build }}. You are...', stable: true}",
        "- {role: system, text: 'You are...', stable: true}\n- {role: user, text: 'Build {{ build }}. {{ question }}'}",
        (Remedy("correct the code that builds the segment, or take the mark away"),),
        "Never: either the prompt or the declaration is wrong.",
    ),
    Entry(
        "KV104",
        "user, tenant, session or locale early",
        "A name, an account, a language or another value with one setting per user stands before text that all users share.",
        "Each user has a prefix of their own: the shared text is computed and kept once per user instead of once.",
        "You help {{ user.name }} ({{ user.locale }}).\n<shared handbook>",
        "<shared handbook>\nYou help {{ user.name }} ({{ user.locale }}).",
        (Remedy("move it behind the block that all users share", "P2"),),
        "There are few users with many requests each, and what is lost is the first request of each.",
    ),
    Entry(
        "KV105",
        "counter, version, retry or step number",
        "A number that counts requests, steps, retries or builds stands before shared text.",
        "It takes a new value each time, and the reuse ends at its first digit that differs.",
        "Step 7 of at most 30.\n<tools and instructions>",
        "<tools and instructions>\nStep 7 of at most 30.",
        (
            Remedy("move it to the tail of the prompt", "P2"),
            Remedy("leave it out", "P3"),
        ),
        "It changes seldom (a release number), so that one cold start for each value is little.",
    ),
    Entry(
        "KV106",
        "working directory, git state or directory tree",
        "A path, a commit or a list of files stands before instructions, examples or tools.",
        "It differs from user to user and from one edit to the next; all that stands behind it is then computed again.",
        "cwd: {{ cwd }}\nbranch: {{ branch }}\n<examples, tool descriptions>",
        "<examples, tool descriptions>\ncwd: {{ cwd }}\nbranch: {{ branch }}",
        (Remedy("gather it in a block of its own behind everything that is shared", "P2"),),
        "One machine with one repository runs all requests, and nothing is committed in between.",
    ),
    Entry(
        "KV107",
        "A/B flag or conditional section",
        "A section that some requests have and others lack stands before shared text.",
        "With it the tokens behind it stand elsewhere, after another prefix; each combination of flags has a cache of its own.",
        "{% if beta %}Use the new tone.{% endif %}\n<shared rules>",
        "<shared rules>\n{% if beta %}Use the new tone.{% endif %}",
        (Remedy("give the section a fixed place behind the shared text", "P2"),),
        "The flag divides traffic in two halves that are large enough to keep both prefixes warm.",
    ),
)
