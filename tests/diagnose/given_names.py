"""Packs names of people in all languages from Faker (MIT): python -m tests.diagnose.given_names FOLDER.

FOLDER is where the package is unpacked or installed (its `faker/` stands in it). What is written is `kvtool/diagnose/people.zst`: a
line of given names and one of family names, lower case, parted by blanks. Names of several words are left out.
"""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from kvtool.diagnose.known_names import FILE

_MIXED = ("en",)
"""Locales whose lists hold words of other kinds, too: those of its countries do not."""
_GIVEN = "first_"
_FAMILY = "last_"
_LEAST_OF_LATIN = 3
_NO_NAMES = (
    "green brown golden black white grey red blue north south east west bright low high art april may june august sunday"
    " monday london paris florence sydney dallas houston madison charlotte beta alpha delta"
)
"""Words of those lists that prompts have more often in another meaning."""
_ALSO = (
    "aiko aya bogdan bjørn fatma giorgos haruto hiroshi jin kenji kwame li maja małgorzata mei mohamed ngozi nikos noor oksana"
    " oleksandr ossip pilar priya rahul raj ravi sakura sanjay tanaka wanda wanjiru wei yara yuki zoë αλέξανδρος ανδρέας αντώνης"
    " βασίλης γιάννης γιώργος δημήτρης κώστας νίκος παναγιώτης σταύρος χρήστος артём димитър ивана"
    " микола пётр софья фёдор юлія јелена"
)
"""Given names that those lists lack, many of them short."""


def names_of(folder: Path) -> tuple[set[str], set[str]]:
    """Given and family names, lower case."""
    sys.path.insert(0, str(folder))
    given, family = set(_ALSO.split()), set[str]()
    for place in sorted((folder / "faker" / "providers" / "person").iterdir()):
        if not (place / "__init__.py").exists() or place.name in _MIXED:
            continue
        provider = import_module(f"faker.providers.person.{place.name}").Provider
        for field in dir(provider):
            found = _words(getattr(provider, field))
            if field.startswith(_GIVEN):
                given.update(found)
            elif field.startswith(_FAMILY):
                family.update(found)
    others = set(_NO_NAMES.split())
    return given - others, family - others


def _words(values: object) -> Iterator[str]:
    """The single words of a list of names, or of one of names with their weights."""
    for value in values if isinstance(values, (list, tuple, dict)) else ():
        name = value[0] if isinstance(value, tuple) else value
        if isinstance(name, str) and " " not in name:
            word = unicodedata.normalize("NFC", name.strip(".")).casefold()
            if word.replace("-", "").replace("'", "").replace("\u2019", "").isalpha() or not word.isascii():
                yield from () if word.isascii() and len(word) < _LEAST_OF_LATIN else (word,)


def main() -> None:
    """Write the packed names."""
    from zstandard import ZstdCompressor

    given, family = names_of(Path(sys.argv[1]))
    packed = ZstdCompressor(level=19).compress("\n".join(" ".join(sorted(names)) for names in (given, family)).encode())
    FILE.write_bytes(packed)
    print(f"{len(packed):,} bytes: {len(given):,} given names, {len(family):,} family names")


if __name__ == "__main__":
    main()
