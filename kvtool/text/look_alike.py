"""Characters that readers take for others: letters of another script, compatibility forms, quotes and dashes."""

from __future__ import annotations

import re
import unicodedata

FORMAT = "\u00ad\u034f\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff"
"""They have no form of their own, and say nothing in any script."""
JOINERS = "\u200c\u200d\ufe00-\ufe0f"
"""No form of their own either, but between letters or in emoji they say how these are written."""
KINDS_OF_SPACE = "\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000"
"""Spaces of other widths, and those at which no line is broken."""


# Pairs of letters that have one shape in usual fonts. No library is worth its size for them: Unicode's list of confusables has
# thousands, most of which no keyboard and no converter of texts brings into a prompt, and many of which only resemble each other.
_CYRILLIC = (
    "\u0410\u0412\u0421\u0415\u041d\u0406\u0408\u041a\u041c\u041e\u0420\u0405\u0422\u0425\u0423\u051a\u051c\u0474\u050c\u04c0\u0430\u0441\u0435\u04bb\u0456\u0458\u043e\u0440\u0455\u0445\u0443\u051b\u051d\u0475\u04cf\u0501",
    "ABCEHIJKMOPSTXYQWVGIacehijopsxyqwvld",
)
_GREEK = (
    "\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7\u03bf\u03b1\u03b9\u03bd\u03c1\u03c5\u03f2\u03f3",
    "ABEZHIKMNOPTYXoaivpucj",
)
_ARMENIAN = ("\u054d\u0555\u054f\u053c\u0585\u0578\u057d\u0570\u0581\u0566", "UOSLonuhgq")
_TWINS = {ord(one): other for pair in (_CYRILLIC, _GREEK, _ARMENIAN) for one, other in zip(*pair, strict=True)}
_NO_TWINS = dict.fromkeys(_TWINS)
_HAS_TWIN = re.compile("[" + "".join(map(chr, _TWINS)) + "]")
_NOT_LATIN = re.compile("[\u0370-\u052f\u0531-\u0587]")
"""Letters of the scripts that have twins, whether or not they have one themselves."""
_WORD = re.compile(r"[^\W\d_]+")
_LATIN = re.compile("[A-Za-z\u00c0-\u024f]")
_SCRIPTS = [
    (re.compile(letters), str.maketrans({latin: own for own, latin in zip(*pair, strict=True)}))
    for letters, pair in (("[\u0400-\u052f]", _CYRILLIC), ("[\u0370-\u03ff]", _GREEK), ("[\u0531-\u0587]", _ARMENIAN))
]
"""Letters of a script, and its own for those of Latin that look like them."""

_COMPATIBLE = re.compile(
    "[\uff66-\uff9d][\uff9e\uff9f\u3099\u309a]?|[\uff10-\uff19\uff21-\uff3a\uff41-\uff5a\ufb00-\ufb06\ufb13-\ufb17\ufb50-\ufdff\ufe70-\ufefc"
    "\u2100-\u214f\u2160-\u217f\U0001d400-\U0001d7ff]"
)
_SAME_MEANING = ("<wide>", "<narrow>", "<font>", "<compat>", "<initial>", "<medial>", "<final>", "<isolated>")
"""Tags of decompositions that leave what a letter says; that of a superscript is another."""

_SIGNS = str.maketrans(
    {
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-"),
        **dict.fromkeys("\u2018\u2019\u201a\u201b\u2032\u02bc", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u201f\u2033", '"'),
        "\u2026": "...",
    }
)
_SIGN = re.compile("[" + "".join(map(chr, _SIGNS)) + "]")


def as_latin(text: str) -> str:
    """The text with every letter that looks like a Latin one as that: only to compare, words of Greek and Russian are no more."""
    return text if text.isascii() else _HAS_TWIN.sub(lambda found: _TWINS[ord(found[0])], text)


def in_one_script(text: str) -> list[tuple[int, int, str]]:
    """Return replacements `(start, stop, text)` in order, after which no word mixes scripts.

    The letters that look like none of another script say which one a word is of, else those of its line do.
    """
    edits: list[tuple[int, int, str]] = []
    at = 0
    while found := _NOT_LATIN.search(text, at):
        start = text.rfind("\n", at, found.start()) + 1 or at
        stop = text.find("\n", found.start())
        stop = len(text) if stop < 0 else stop
        rest = text[start:stop].translate(_NO_TWINS)
        latin = bool(_LATIN.search(rest)) and not any(letters.search(rest) for letters, _ in _SCRIPTS)
        words = [word for word in _WORD.finditer(text, start, stop) if _may_mix(word[0])]
        plain = [(word.start(), word.end(), _in_one_script(word[0], latin=latin)) for word in words]
        edits += [edit for word, edit in zip(words, plain, strict=True) if word[0] != edit[2]]
        at = stop
    return edits


def _may_mix(word: str) -> bool:
    """Return whether letters of a word may be taken for those of another script: twins of Latin ones, or Latin beside others."""
    if word.isascii():
        return False
    return _HAS_TWIN.search(word) is not None or (
        _LATIN.search(word) is not None and _NOT_LATIN.search(word) is not None
    )


def _in_one_script(word: str, *, latin: bool) -> str:
    """A word in the script of its letters that look like no other; `latin` says that the words beside it are."""
    own = word.translate(_NO_TWINS)
    of_scripts = [back for letters, back in _SCRIPTS if letters.search(own)]
    is_mixed = _LATIN.search(own) is not None
    if not of_scripts and (is_mixed or latin):
        return word.translate(_TWINS)
    if is_mixed and len(of_scripts) == 1:
        plain = word.translate(of_scripts[0])
        return word if _LATIN.search(plain) else plain
    return word


def compatible(text: str) -> str:
    """The text with full-width letters, ligatures and the like as the letters that they mean."""
    return text if text.isascii() else _COMPATIBLE.sub(_plain_letter, text)


def _plain_letter(found: re.Match[str]) -> str:
    sign = found[0]  # with the mark of a voiced syllable, which half-width letters have behind them
    tag = unicodedata.decomposition(sign[0]).partition(" ")[0]
    plain = tag in _SAME_MEANING and unicodedata.category(sign[0])[0] in "LN"
    return unicodedata.normalize("NFKC", sign) if plain else sign


def compatible_letters(text: str) -> list[tuple[int, int, str]]:
    """Return the replacements of `compatible`, as `(start, stop, text)`."""
    return [(found.start(), found.end(), _plain_letter(found)) for found in _COMPATIBLE.finditer(text)]


def signs_in_ascii(text: str) -> list[tuple[int, int, str]]:
    """Return the replacements of `ascii_signs`, as `(start, stop, text)`."""
    return [(found.start(), found.end(), _SIGNS[ord(found[0])]) for found in _SIGN.finditer(text)]


def ascii_signs(text: str) -> str:
    """The text with quotes, dashes and ellipses as ASCII has them."""
    return text if text.isascii() else _SIGN.sub(lambda found: _SIGNS[ord(found[0])], text)


def skeleton(text: str) -> str:
    """Equal for texts whose letters look the same."""
    return text if text.isascii() else as_latin(compatible(unicodedata.normalize("NFC", text)))


_INVISIBLE = re.compile(f"[{FORMAT}{JOINERS}]")


def visual_form(text: str) -> str:
    """The text without what readers do not see: forms of letters, quotes and dashes, invisible characters, kinds of space."""
    if not text.isascii():
        text = ascii_signs(skeleton(_INVISIBLE.sub("", text)))
    return " ".join(text.split())
