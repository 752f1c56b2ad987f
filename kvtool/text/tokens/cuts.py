"""Places where a tokenizer must split a text whatever is around them, so that both sides can be encoded alone.

Why that is exact: a byte-level pre-tokenizer cuts the text with one regular expression whose branches are known here. Where no
branch can match across a place, and no branch that ends there looks at what follows, the words on each side are the same with and
without the other side. Added tokens are found before that; they are safe as long as none contains a line break (for the
cuts inside lines: a space) or takes in neighbouring white space. NFC leaves such places alone because an ASCII character never
composes with what precedes it. A control token is such a place of itself, for nearly every tokenizer: what is before it and
what follows are encoded apart in any case.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_LONG = 16_384
"""Pieces longer than this are cut inside lines as well: the encoder then works in parallel and in little memory."""

_AFTER_NEWLINE = re.compile(r"\n(?=[!-.0-~])")
# White space that ends at a newline is one word for these patterns: punctuation may take line breaks (some of them slashes too) in,
# and `\s*[\r\n]+` the rest; none goes on with an ASCII character other than a slash.
_BEFORE_NEWLINE = re.compile(r"\n(?<=[^\s\u180e]\n)")
# GPT-2 leaves the last character of white space to the next word, so its lines are cut before their line breaks instead.
_INSIDE_LINE = re.compile(r"[^\s\u180e] |[0-9][A-Za-z]")
# A word may begin with a space but never go on across one; digits and letters never share a word.

_DIGIT = re.compile("[0-9]")
_MAX_CONTROLS = 200
_LOCAL_PRE_TOKENIZERS = frozenset(
    {"ByteLevel", "Split", "Digits", "BertPreTokenizer", "Whitespace", "WhitespaceSplit", "Punctuation"}
)

_NEWLINE_BRANCHES = frozenset({r"\s*[\r\n]+", r"\s*[\r\n]"})
_SPACE_BRANCHES = frozenset({r"\s+(?!\S)", r"\s+"})
_WORD_BRANCHES = frozenset(
    {
        "(?i:'s|'t|'re|'ve|'m|'ll|'d)",
        "'(?i:[sdmt]|ll|ve|re)",
        r"[^\r\n\p{L}\p{N}]?\p{L}+",
        r"[^\r\n\p{L}\p{N}]?+\p{L}+",
        r"[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+",
        r"[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+",
        *(
            rf"[^\r\n\p{{L}}\p{{N}}]?[\p{{Lu}}\p{{Lt}}\p{{Lm}}\p{{Lo}}\p{{M}}]{upper}[\p{{Ll}}\p{{Lm}}\p{{Lo}}\p{{M}}]{lower}{suffix}"
            for upper, lower in ("*+", "+*")
            for suffix in ("", "(?i:'s|'t|'re|'ve|'m|'ll|'d)?")
        ),
        r"\p{N}",
        r"\p{N}+",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n]*",
        r" ?[^\s\p{L}\p{N}]++[\r\n]*",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r" ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*",
        r" ?[\p{P}\p{S}]+[\r\n]*",
        "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+",
    }
)
_GPT2_PATTERN = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_NO_SPACE_PATTERNS = frozenset({r"\p{N}", r"\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"})
# First steps of a sequence that only single out words without white space: no cut of ours lies inside one.


@dataclass(frozen=True, slots=True)
class Cuts:
    """Offsets of cuts: `offset` characters after the start of each match of `lines`, and before each match of `controls`."""

    lines: re.Pattern[str] | None = None
    offset: int = 0
    inside: re.Pattern[str] | None = None
    controls: re.Pattern[str] | None = None
    reach: int = 1
    """Characters from a cut on that decide whether it is one."""

    def starts(self, text: str) -> list[int]:
        """The first characters of the pieces of `text`, in order; `[0]` where it cannot be cut, `[]` where it is empty."""
        if not text:
            return []
        starts = [0]
        offset = self.offset
        if self.lines is not None:
            starts += [at for match in self.lines.finditer(text) if (at := match.start() + offset)]
        if self.controls is not None:
            count = len(starts)
            starts += [at for match in self.controls.finditer(text) if (at := match.start())]
            if count < len(starts):
                starts = sorted(set(starts))
        if self.inside is None or len(text) <= _LONG:
            return starts
        return self._shorter(text, starts, self.inside)

    @staticmethod
    def _shorter(text: str, starts: list[int], inside: re.Pattern[str]) -> list[int]:
        result: list[int] = []
        for start, stop in zip(starts, [*starts[1:], len(text)], strict=True):
            at = start
            result.append(at)
            while stop - at > _LONG and (found := inside.search(text, at + _LONG // 2, stop)):
                at = found.start() + 1
                result.append(at)
        return result


def find_cuts(spec: Mapping[str, object]) -> Cuts:
    """The cuts that a tokenizer.json allows; none where its parts are not known ones."""
    added = _objects(spec.get("added_tokens"))
    if any(entry.get(flag) for entry in added for flag in ("lstrip", "rstrip", "single_word")):
        return Cuts()
    pre_tokenizer = spec.get("pre_tokenizer")
    chosen = _control_tokens(added) if _is_local(pre_tokenizer) else []
    controls = re.compile("|".join(map(re.escape, chosen))) if 0 < len(chosen) <= _MAX_CONTROLS else None
    reach = max(map(len, chosen), default=1)
    kind = _pattern_kind(pre_tokenizer) if _is_nfc(spec.get("normalizer")) else None
    contents = [str(entry.get("content", "")) for entry in added]
    if kind is None or any("\n" in content or "\r" in content for content in contents):
        return Cuts(controls=controls, reach=reach)
    # A cut after a digit or before a space lies inside an added token only if that holds such a pair itself.
    inside = None if any(_INSIDE_LINE.search(f"x{content}") for content in contents) else _INSIDE_LINE
    if kind == "gpt2":
        return Cuts(_BEFORE_NEWLINE, 0, inside, controls, reach)
    return Cuts(_AFTER_NEWLINE, 1, inside, controls, reach)


def _control_tokens(added: Sequence[Mapping[str, object]]) -> list[str]:
    """Return control tokens, at which a text is always cut.

    One that begins with a character that no added token has further inside cannot lie within another match: at each place
    where it is written, some added token begins. Reserved ones, which have a number, are left out: hundreds, and never used.
    """
    contents = [str(entry.get("content", "")) for entry in added]
    inner = set("".join(content[1:] for content in contents))
    return [
        content
        for entry, content in zip(added, contents, strict=True)
        if content and content[0] not in inner and entry.get("normalized") is False and not _DIGIT.search(content)
    ]


def _is_local(pre_tokenizer: object) -> bool:
    """Return whether the pre-tokenizer treats what is between two added tokens without a look at where that is."""
    if pre_tokenizer is None:
        return True
    if not isinstance(pre_tokenizer, dict):
        return False
    if pre_tokenizer.get("type") == "Sequence":
        return all(map(_is_local, _objects(pre_tokenizer.get("pretokenizers"))))
    if pre_tokenizer.get("type") == "Metaspace":
        return pre_tokenizer.get("prepend_scheme") in ("always", "never")
    return pre_tokenizer.get("type") in _LOCAL_PRE_TOKENIZERS


def _is_nfc(normalizer: object) -> bool:
    """Return whether the normalizer is none, or NFC."""
    if normalizer is None:
        return True
    if not isinstance(normalizer, dict):
        return False
    if normalizer.get("type") == "Sequence":
        return all(_is_nfc(step) for step in _objects(normalizer.get("normalizers")))
    return normalizer.get("type") == "NFC"


def _objects(value: object) -> list[Mapping[str, object]]:
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def _pattern_kind(pre_tokenizer: object) -> str | None:
    """`gpt2` or `newline` (see the patterns above) for a known byte-level pre-tokenizer, else None."""
    if not isinstance(pre_tokenizer, dict):
        return None
    steps = _objects(pre_tokenizer.get("pretokenizers")) if pre_tokenizer.get("type") == "Sequence" else [pre_tokenizer]
    if not steps or steps[-1].get("type") != "ByteLevel" or steps[-1].get("add_prefix_space"):
        return None
    patterns = steps[:-1]
    if steps[-1].get("use_regex", True):
        return "gpt2" if all(map(_is_wordwise, patterns)) else None
    if not patterns or not all(map(_is_wordwise, patterns[:-1])):
        return None
    pattern = _split_pattern(patterns[-1])
    if pattern == _GPT2_PATTERN:
        return "gpt2"
    return "newline" if pattern is not None and _cuts_after_newline(pattern) else None


def _split_pattern(step: Mapping[str, object]) -> str | None:
    """The regular expression of a Split whose matches become words; what lies between two matches is none of ours."""
    pattern = step.get("pattern")
    isolated = step.get("behavior") == "Isolated" and not step.get("invert")
    removed = step.get("behavior") == "Removed" and step.get("invert") is True
    if step.get("type") != "Split" or not (isolated or removed) or not isinstance(pattern, dict):
        return None
    regex = pattern.get("Regex")
    return regex if isinstance(regex, str) else None


def _is_wordwise(step: Mapping[str, object]) -> bool:
    if step.get("type") == "Digits":
        return True
    return step.get("behavior") == "Isolated" and _split_pattern(step) in _NO_SPACE_PATTERNS


def _cuts_after_newline(pattern: str) -> bool:
    branches = _branches(pattern)
    white = [branch for branch in branches if branch in _NEWLINE_BRANCHES or branch in _SPACE_BRANCHES]
    # White space up to a line break must be taken before the branch that looks at what follows.
    if len(white) != 3 or white[0] not in _NEWLINE_BRANCHES or white[1:] != [r"\s+(?!\S)", r"\s+"]:
        return False
    return all(branch in _WORD_BRANCHES for branch in branches if branch not in white)


def _branches(pattern: str) -> Sequence[str]:
    """The alternatives of a regular expression, split at the bars outside groups and classes."""
    branches = [""]
    depth = 0
    in_class = False
    escaped = False
    for char in pattern:
        if char == "|" and not (depth or in_class or escaped):
            branches.append("")
            continue
        branches[-1] += char
        if escaped:
            escaped = False
        elif char == "\\":
            escaped = True
        elif in_class:
            in_class = char != "]"
        elif char == "[":
            in_class = True
        else:
            depth += (char == "(") - (char == ")")
    return branches
