"""KV106: working directory, git state or directory tree.

Found by its form (`kvtool.diagnose.values.detectors.DETECTORS`), by the name of a variable
(`kvtool.diagnose.values.variable_names.kind_of_name`) or, without traffic, by the call that gives it
(`kvtool.lint.evidence.volatile_calls.called`).
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy, DifferenceKind

KV106 = CodeEntry(
    "KV106",
    name="working directory, git state or directory tree",
    what="A path, a commit or a list of files comes before instructions, examples or tools.",
    why="It differs between users and changes with each edit. Everything after it is computed again.",
    before="cwd: {{ cwd }}\nbranch: {{ branch }}\n<examples, tool descriptions>",
    after="<examples, tool descriptions>\ncwd: {{ cwd }}\nbranch: {{ branch }}",
    remedies=(CodeRemedy("put it into one block after all shared text", "P2"),),
    ignore="One machine with one repository sends all requests, and nothing is committed in between.",
    wins=("blocked",),
    varies="value",
)
ENVIRONMENT = DifferenceKind("environment", "working directory, version control or system", KV106.code)
FILE = DifferenceKind("file", "list of files", KV106.code)
