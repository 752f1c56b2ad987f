"""KV001: unused ignore.

Found by `kvtool.lint.findings.ignored_findings.apply_ignores`, which knows what each comment silenced.
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy

KV001 = CodeEntry(
    "KV001",
    name="unused ignore",
    what="A comment ignores a code that kvtool does not find at this place.",
    why="It costs no tokens. But it hides the finding if it comes back.",
    before="text: Be kind.  # kvtool: ignore[KV101] the date is fixed",
    after="text: Be kind.",
    remedies=(CodeRemedy("remove the comment, or the code from the comment"),),
    ignore="The finding depends on the traffic. Say so in the reason of the comment.",
)
