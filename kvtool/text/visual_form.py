"""What a line looks like, whatever characters it is written in: equal for texts that differ in form alone."""

from __future__ import annotations

import re

from kvtool.text.invisible_characters import FORMAT, JOINERS
from kvtool.text.look_alike import ascii_signs, skeleton

_INVISIBLE = re.compile(f"[{FORMAT}{JOINERS}]")


def one_look(text: str) -> str:
    """The text without what readers do not see: forms of letters, quotes and dashes, invisible characters, kinds of space."""
    if not text.isascii():
        text = ascii_signs(skeleton(_INVISIBLE.sub("", text)))
    return " ".join(text.split())
