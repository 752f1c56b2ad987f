"""Words that come before the name of a person whom a prompt addresses or speaks to: titles, `talking to`."""

from __future__ import annotations

from collections.abc import Sequence


def _words(*rows: str) -> frozenset[str]:
    return frozenset(word for row in rows for word in row.split(" "))


_TITLES = _words(
    "mr mrs ms mx miss dr prof sir madam herr herrn frau señor señora señorita sr sra srta don doña monsieur madame",
    "mademoiselle mme mlle signor signora signorina sig dott senhor senhora dona meneer mevrouw dhr mevr pan pani",
    "pana panią господин госпожа господином госпожой",
)
_TALKING = _words(
    "writing write corresponding schreibst schreiben schreibt écris écrivez escribes escribe escribiendo escreve escrevendo scrivi",
    "talking talk speaking speak chatting chat sprichst sprechen redest chattest parles parlez parle discutes hablas",
    "habla hablando conversas parlando parli fala falando conversando praat spreekt rozmawiasz говоришь говорите",
    "общаешься разговариваешь konuşuyorsun taler talar snakker",
)
_WITH = _words("to with mit avec con com met med")


def addresses(words: Sequence[str]) -> bool:
    """Whether words directly before a value say that somebody is spoken to: `sprichst gerade mit`."""
    said = [_plain(word) for word in words]
    if not said:
        return False
    if said[-1] in _TITLES:
        return True
    return not _TALKING.isdisjoint(said) and (said[-1] in _WITH or said[-1] in _TALKING - {"chat", "talk", "speak"})


def _plain(word: str) -> str:
    return word.rstrip(".").casefold()
