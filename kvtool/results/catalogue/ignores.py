"""KV001 and KV002: comments that ignore findings."""

from __future__ import annotations

from kvtool.results.catalogue.entry import Entry, Remedy

ENTRIES: tuple[Entry, ...] = (
    Entry(
        "KV001",
        "unused ignore",
        "A comment ignores a code that was looked for and not found there.",
        "It costs no tokens, but it would silence the finding when it comes back.",
        "text: Be kind.  # kvtool: ignore[KV101] the date is fixed",
        "text: Be kind.",
        (Remedy("remove the comment, or the code from it"),),
        "The finding comes and goes with the traffic; say so in the comment's reason.",
    ),
    Entry(
        "KV002",
        "ignore that names no known code",
        "A comment says `kvtool: ignore` without codes, or with one that does not exist.",
        "It ignores nothing: what an ignore silences has to be written down, or new findings would vanish with it.",
        "text: '{{ now }}'  # kvtool: ignore",
        "text: '{{ now }}'  # kvtool: ignore[KV101] coarse clock, one value a day",
        (Remedy("name the codes in brackets, several with commas, and a reason behind them"),),
        "Never.",
    ),
)
