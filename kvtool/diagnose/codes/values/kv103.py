"""KV103: segment declared stable but varies.

Found by `kvtool.diagnose.findings.is_declared_stable`, of whatever kind the text is that varies.
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy

KV103 = CodeEntry(
    "KV103",
    name="segment declared stable but varies",
    what="A message or segment with `stable: true` differs between requests.",
    why="Its author expects reuse. The difference ends the shared prefix there.",
    before="- {role: system, text: 'Build {{ build }}. You are...', stable: true}",
    after=(
        "- {role: system, text: 'You are...', stable: true}\n- {role: user, text: 'Build {{ build }}. {{ question }}'}"
    ),
    remedies=(CodeRemedy("fix the code that builds the segment, or remove the mark", "P3"),),
    ignore="Never: either the prompt or the declaration is wrong.",
    wins=("blocked",),
)
