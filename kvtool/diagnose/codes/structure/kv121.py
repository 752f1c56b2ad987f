"""KV121: whitespace, line ends, Unicode form or look-alike letters.

Found by `kvtool.diagnose.invisible_differences.cosmetic`, which also names the form that makes both texts equal.
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy

KV121 = CodeEntry(
    "KV121",
    name="whitespace, line ends, Unicode form or look-alike letters",
    what=(
        "Texts look alike but differ in invisible characters, spaces, line ends (CRLF or LF) or a byte order "
        "mark. Or they differ in letters: composed, full-width or of another script. Or in forms of quotes "
        "and dashes."
    ),
    why="The tokenizer reads bytes. An invisible difference ends the reuse like any other.",
    before="rules.md saved on Windows (CRLF) on one server, with LF on another",
    after="one form everywhere: text.replace('\\r\\n', '\\n'), NFC, no spaces at line ends",
    remedies=(
        CodeRemedy(
            (
                "normalize templates and other text of your own before you send it; never change text of users or "
                "programs"
            ),
            "P1",
        ),
        CodeRemedy("write JSON with one serializer and the same options everywhere", "P1"),
    ),
    ignore="The difference is in user data, or in code where whitespace has a meaning.",
    wins=("cosmetic",),
)
