"""Names of elements, in any script: what XML allows, without the colon that it keeps for name spaces at their beginning."""

_LETTERS = (
    "A-Z_a-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02ff\u0370-\u037d\u037f-\u1fff\u200c\u200d\u2070-\u218f\u2c00-\u2fef"
    "\u3001-\ud7ff\uf900-\ufdcf\ufdf0-\ufffd\U00010000-\U000effff"
)
TAG_START = f"[{_LETTERS}]"
"""A character that a name begins with, as a regular expression."""
TAG_NEXT = f"[{_LETTERS}0-9:.\u00b7\u0300-\u036f\u203f\u2040-]"
"""One that goes on in it: digits and marks of other scripts are among the letters of XML, joiners too."""
TAG_NAME = f"{TAG_START}{TAG_NEXT}{{0,60}}"
"""A whole name."""
