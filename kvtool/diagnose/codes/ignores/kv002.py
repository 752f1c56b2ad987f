"""KV002: ignore that names no known code.

Found by `kvtool.lint.findings.ignore_comments.parse_ignore`, as soon as the comment is read.
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy

KV002 = CodeEntry(
    "KV002",
    name="ignore that names no known code",
    what="A comment says `kvtool: ignore` without codes, or with one that does not exist.",
    why="It ignores nothing: what an ignore silences has to be written down, or new findings would vanish with it.",
    before="text: '{{ now }}'  # kvtool: ignore",
    after="text: '{{ now }}'  # kvtool: ignore[KV101] coarse clock, one value a day",
    remedies=(CodeRemedy("name the codes in brackets, several with commas, and a reason behind them"),),
    ignore="Never.",
)
