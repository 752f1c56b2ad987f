"""KV121: whitespace, line ends, Unicode form or look-alike letters.

Found by `kvtool.diagnose.invisible_differences.cosmetic`, which also names the form that makes both texts equal.
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy

KV121 = CodeEntry(
    "KV121",
    name="whitespace, line ends, Unicode form or look-alike letters",
    what=(
        "Texts that look alike differ in spaces, CRLF and LF, a byte order mark, invisible characters, composed letters, "
        "letters of another script (a Cyrillic one in a Latin word), full-width letters, or forms of quotes and dashes."
    ),
    why="Tokens are made from bytes: what a reader does not see ends the reuse like any other difference.",
    before="rules.md saved on Windows (CRLF) on one server, with LF on another",
    after="one form everywhere: text.replace('\\r\\n', '\\n'), NFC, no spaces at line ends",
    remedies=(
        CodeRemedy("normalize texts before they are sent, templates first, never what users or programs wrote", "P1"),
        CodeRemedy("write JSON in one layout, with the same serializer and the same options everywhere", "P1"),
    ),
    ignore="The difference lies in user data or in code, where white space has a meaning.",
    wins=("cosmetic",),
)
