"""Writes the parts of the documentation that come from the code: python -m docs.generate, in the root of the repository.

Between `<!-- begin NAME … -->` and `<!-- end -->` of a page stands what the function NAME of `docs.generators.parts` gives, or,
where NAME is `output`, what the commands of the shell block before it print. Pages of diagnostics are made as a whole, and so is
the first page of a new command. With `--check` nothing is written, and the exit code is 1 where something would be.
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Iterator
from pathlib import Path

from docs.generators import block_figure, commands, diagnostics, rooms_figure, screenshot
from docs.generators.pages import fill
from docs.generators.parts import PARTS
from docs.generators.shell import Shell, one_tokenizer

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent


@functools.cache
def whole_files() -> dict[Path, str]:
    """Files that are generated from the first line to the last."""
    with Shell(ROOT / "workloads") as shell:
        pictures = block_figure.figures() | rooms_figure.figures() | screenshot.figures(shell)
    return code_pages() | {DOCS / "figures" / name: text for name, text in pictures.items()}


@functools.cache
def code_pages() -> dict[Path, str]:
    """The pages of the diagnostics, and their index."""
    return {DOCS / "diagnostics" / name: text for name, text in diagnostics.pages().items()}


def page_files() -> list[Path]:
    """The pages that people write; some have generated parts."""
    found = {path for path in DOCS.rglob("*.md") if "_build" not in path.parts}
    return sorted(found.difference(code_pages()))


def filled(path: Path) -> str:
    """A page as it should be."""
    with Shell(ROOT / "workloads") as shell:
        return fill(path.read_text(encoding="utf-8"), PARTS, shell, str(path.relative_to(ROOT)))


def expected() -> Iterator[tuple[Path, str]]:
    """Every file with something generated in it, and what it should hold."""
    yield from whole_files().items()
    for path in page_files():
        yield path, filled(path)


def stale() -> list[Path]:
    """Pages of codes that are gone."""
    return sorted(set((DOCS / "diagnostics").glob("*.md")).difference(code_pages()))


def main() -> int:
    """Writes what differs, or only tells of it."""
    parser = argparse.ArgumentParser(prog="python -m docs.generate", description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 where something would change")
    parser.add_argument("pages", nargs="*", help="only these pages, such as docs/quick-start.md")
    arguments = parser.parse_args()
    only = {Path(page).resolve() for page in arguments.pages}
    if not arguments.check:
        for path, text in commands.missing_pages(DOCS / "commands").items():
            path.write_text(text, encoding="utf-8")
    changed = []
    with one_tokenizer():
        for path, text in ((path, filled(path)) for path in sorted(only)) if only else expected():
            if path.is_file() and path.read_text(encoding="utf-8") == text:
                continue
            changed.append(path)
            if not arguments.check:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
    for path in [] if only else stale():
        changed.append(path)
        if not arguments.check:
            path.unlink()
    for path in changed:
        print(f"{'out of date' if arguments.check else 'written'}: {path.relative_to(ROOT)}")
    return 1 if arguments.check and changed else 0


if __name__ == "__main__":
    sys.exit(main())
