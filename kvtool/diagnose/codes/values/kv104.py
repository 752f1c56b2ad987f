"""KV104: user, tenant, session or locale early.

Found by its form (`kvtool.diagnose.values.detectors.DETECTORS`), by the name of a variable
(`kvtool.diagnose.values.variable_names.kind_of_name`), or by values that stay the same within a session
(`kvtool.diagnose.values.slot_values.SlotValues`).
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy, DifferenceKind

KV104 = CodeEntry(
    "KV104",
    name="user, tenant, session or locale early",
    what="A name, an account, a language or another value per user comes before text that all users share.",
    why="Each user has a separate prefix. The shared text is computed and kept once per user instead of once.",
    before="You help {{ user.name }} ({{ user.locale }}).\n<shared handbook>",
    after="<shared handbook>\nYou help {{ user.name }} ({{ user.locale }}).",
    remedies=(CodeRemedy("move it after the text that all users share", "P2"),),
    ignore="There are few users with many requests each. Only the first request of each user loses tokens.",
    wins=("blocked",),
    varies="value",
)
USER = DifferenceKind("scope", "user, tenant or session", KV104.code)
