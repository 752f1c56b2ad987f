"""KV002: ignore comment without a known code.

Found by `kvtool.lint.findings.ignore_comments.parse_ignore`, as soon as the comment is read.
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy

KV002 = CodeEntry(
    "KV002",
    name="ignore comment without a known code",
    what="A comment says `kvtool: ignore` without a code, or with an unknown code.",
    why="The comment ignores nothing. A comment without codes would hide new findings as well.",
    before="text: '{{ now }}'  # kvtool: ignore",
    after="text: '{{ now }}'  # kvtool: ignore[KV101] coarse clock, one value a day",
    remedies=(CodeRemedy("name the codes in brackets, separated by commas, and add a reason"),),
    ignore="Never.",
)
