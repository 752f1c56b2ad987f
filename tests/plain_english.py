"""Finds sentences that users read and that are not plain English.

    python -m tests.plain_english [ROOM…]

It reads every string of the program that is a phrase of words (help, errors, findings, labels; no docstrings), and the prose
of the written pages. It reports words that have a plainer one, phrases that need a second reading, and sentences of more than 25
words. Quoted text (`code`, "words", 'words') is not read: it is often what somebody else wrote.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
LONGEST = 25
"""Words in a sentence; more need a second reading."""
PROGRAM = ("kvtool", "engine", "kernels")
PAGES = ("README.md", "SECURITY.md", "docs/*.md", "docs/guides/*.md", "workloads/README.md")
PLAINER = {
    r"behind": "after",
    r"in front of": "before",
    r"stands?|stood|standing": "is, comes",
    r"told|tells?|telling": "reported, shows, says",
    r"in the way of": "blocks",
    r"(?:out |most |all |part |much |some |none |each |half |rest |one )?of (?:it|them|that|those|these|which|what)": (
        "name the thing"
    ),
    r"whose|wherein|thereof|therefor": "name the thing",
    r"the fate|fates?": "token breakdown, row of the breakdown",
    r"where (?:the|every|each) (?:prompt )?tokens? (?:went|go)": "token breakdown",
    r"volatile": "changing",
    r"(?<!server )(?<!-)slots?": "changing value",
    r"thrash\w*": "evicted",
    r"parts? ways|seams?": "diverge, first difference",
    r"that (?:is|are) there or not": "optional block",
    r"nobody can": "upper bound",
    r"missing are": "needs … more",
    r"as they are|all that": "maximum as written",
    r"measured by (?:running|a run) again": "verified",
    r"would \$": "costs, expected",
    r"meant": "intended",
    r"kinder|unseen|spelled|stretch(?:es)?": "the field's word",
}
"""Words that a reader stumbles over, and what to write."""
ALLOWED_BEFORE = re.compile(r"(?:because|instead|outside|inside|top|end|start|front|ahead|out|both|kind) $")
WORD = re.compile(r"[A-Za-z][A-Za-z'\u2019-]*")
QUOTED = re.compile(
    r"`[^`]*`|\"[^\"]*\"|“[^”]*”|(?<![A-Za-z])'[^']*'(?![A-Za-z])|\[[^\]]*\]\([^)]*\)|<[^>]*>|https?://\S+"
)
ENDS = re.compile(r"[.!?:](?=\s|$)|\n\s*\n|\n(?=\s*(?:[-*|#>]|\d+\.))|\|")
BANNED = {re.compile(rf"\b(?:{bad})\b", re.IGNORECASE): good for bad, good in PLAINER.items()}
ANY_BANNED = re.compile(rf"\b(?:{'|'.join(PLAINER)})\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Sentence:
    """A phrase that users read: its file, the line of the string that contains it, and its text without quoted parts."""

    path: str
    line: int
    text: str

    def names_slots(self, word: str) -> bool:
        """Whether word is "slot" in a file that names llama.cpp: there it is the field's word."""
        return word.lower().startswith("slot") and "llama" in (ROOT / self.path).read_text("utf-8").lower()

    def faults(self) -> Iterator[str]:
        """Yield what a reader stumbles over in it."""
        for pattern, better in BANNED.items() if ANY_BANNED.search(self.text) else ():
            for found in pattern.finditer(self.text):
                if not ALLOWED_BEFORE.search(self.text[: found.start()]) and not self.names_slots(found[0]):
                    yield f"“{found[0]}” (better: {better})"
        words = len(WORD.findall(self.text))
        if words > LONGEST:
            yield f"{words} words"


def sentences(rooms: tuple[str, ...] = ()) -> Iterator[Sentence]:
    """Yield all phrases of the program and of the pages; with rooms (beginnings of paths) only theirs."""
    for folder in PROGRAM:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if wanted(path, rooms) and not any(parent.is_symlink() for parent in path.parents):
                yield from program_sentences(path)
    for pattern in PAGES:
        for path in sorted(ROOT.glob(pattern)):
            if wanted(path, rooms):
                yield from page_sentences(path)


def wanted(path: Path, rooms: tuple[str, ...]) -> bool:
    name = path.relative_to(ROOT).as_posix()
    return not rooms or any(name.startswith(room) for room in rooms)


def program_sentences(path: Path) -> Iterator[Sentence]:
    """Yield the phrases of a module: its strings of three words or more that are no docstrings, patterns or identifiers."""
    for node in strings(ast.parse(path.read_text(encoding="utf-8"))):
        if is_phrase(text := text_of(node)):
            yield from split(path, node.lineno, text)


def strings(tree: ast.AST) -> Iterator[ast.Constant | ast.JoinedStr]:
    """Yield the strings that users may read on their own: no docstrings, notes under fields, patterns, parts of f-strings."""
    left: list[tuple[ast.AST, bool]] = [(tree, False)]
    while left:
        node, in_string = left.pop()
        if isinstance(node, ast.Constant):
            if not in_string:
                yield node
        elif not is_skipped(node):
            if isinstance(node, ast.JoinedStr):
                yield node
                in_string = True
            parts = [node.test] if isinstance(node, ast.Assert) else [*ast.iter_child_nodes(node)]
            left += [(part, in_string) for part in reversed(parts)]


def is_skipped(node: ast.AST) -> bool:
    """Whether node is a docstring, a note under a field, or makes a pattern."""
    return (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)) or (
        isinstance(node, ast.Call) and is_pattern(node.func)
    )


def is_pattern(called: ast.expr) -> bool:
    """Whether what is called belongs to the module re, or to what that gives."""
    node: ast.expr = called
    while not isinstance(node, ast.Name):
        if isinstance(node, (ast.Attribute, ast.Subscript)):
            node = node.value
        elif isinstance(node, ast.Call):
            node = node.func
        else:
            return False
    return node.id == "re" and node is not called


def text_of(node: ast.expr) -> str:
    """Return the text of a string, with "N" for each value in it; "" for other expressions."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "N" for part in node.values)
    return ""


def is_phrase(text: str) -> bool:
    """Whether text is words for people: three or more with spaces between them, and no code, markup or pattern."""
    if re.search(r"[\\{}]{2}|\(\?|[=;{]\n|^\s*<|</|=>|\bSELECT\b|^\s*[.#@]?[\w-]+\s*\{", text):
        return False
    return len(re.findall(r"(?:^|\s)[(“]?[A-Za-z][a-z'\u2019-]*(?=[\s.,:;)”]|$)", text)) >= 3


def page_sentences(path: Path) -> Iterator[Sentence]:
    """Yield the prose of a page: no fenced code."""
    text = re.sub(
        r"^```.*?^```",
        lambda found: "\n" * found[0].count("\n"),
        path.read_text("utf-8"),
        flags=re.MULTILINE | re.DOTALL,
    )
    for found in re.finditer(r"(?:[^\n]+\n?)+", text):
        yield from split(path, text.count("\n", 0, found.start()) + 1, found[0])


def split(path: Path, line: int, text: str) -> Iterator[Sentence]:
    read = QUOTED.sub(" X ", text)
    for part in ENDS.split(read):
        if part.strip():
            yield Sentence(path.relative_to(ROOT).as_posix(), line, " ".join(part.split()))


def faults(rooms: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield a line for every fault."""
    for sentence in sentences(rooms):
        for fault in sentence.faults():
            yield f"{sentence.path}:{sentence.line}: {fault}: {sentence.text}"


if __name__ == "__main__":
    found = list(faults(tuple(sys.argv[1:])))
    print(*found, sep="\n")
    print(f"{len(found)} faults")
