"""KV001: unused ignore.

Found by `kvtool.lint.findings.ignored_findings.apply_ignores`, which knows what each comment silenced.
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy

KV001 = CodeEntry(
    "KV001",
    name="unused ignore",
    what="A comment ignores a code that was looked for and not found there.",
    why="It costs no tokens, but it would silence the finding when it comes back.",
    before="text: Be kind.  # kvtool: ignore[KV101] the date is fixed",
    after="text: Be kind.",
    remedies=(CodeRemedy("remove the comment, or the code from it"),),
    ignore="The finding comes and goes with the traffic; say so in the comment's reason.",
)
