"""KV111 to KV124: the same content in another order or in another form."""

from __future__ import annotations

from kvtool.results.catalogue.entry import Entry, Remedy

ENTRIES: tuple[Entry, ...] = (
    Entry(
        "KV111",
        "tool order shuffled",
        "Requests offer the same tools in different orders.",
        "Tool descriptions stand near the front and are long. The first tool that is another one ends the reuse of all.",
        "request 1: tools = [search, read, write]\nrequest 2: tools = [write, search, read]",
        "both:      tools = [read, search, write]",
        (Remedy("sort tools by name where the request is built", "P1"),),
        "The order is meant: some models prefer what stands first.",
    ),
    Entry(
        "KV112",
        "JSON key order",
        "The same JSON object is written with its keys in different orders.",
        "Objects that are equal to a parser are different texts, and the cache sees only text.",
        'json.dumps(schema)\n{"type": "object", "name": "search"}\n{"name": "search", "type": "object"}',
        'json.dumps(schema, sort_keys=True)\n{"name": "search", "type": "object"}',
        (Remedy("write keys in sorted order", "P1"),),
        "The object is built in one place, in one order; then nothing varies and a run shows it.",
    ),
    Entry(
        "KV113",
        "retrieved documents or memories reordered",
        "The same documents, passages or memories stand in different orders, such as that of a similarity score.",
        "The first document that is another one ends the reuse of all that follow, although each of them was computed before.",
        "request 1: [doc A, doc B, doc C]\nrequest 2: [doc C, doc A, doc B]",
        "both:      [doc A, doc B, doc C]   (by id, not by score)",
        (Remedy("give documents one global order, such as that of their ids, and new ones a place at the end", "P2"),),
        "The model is told that the order is a ranking.",
    ),
    Entry(
        "KV114",
        "few-shot examples reordered",
        "The same examples stand in different orders.",
        "Examples are long and stand near the front; shuffling them gives each request a prefix of its own.",
        "random.shuffle(examples)",
        "examples.sort(key=lambda example: example.id)",
        (Remedy("fix one order; measure the answers first, as their quality depends on it", "P2"),),
        "Shuffling is the point, as in an evaluation that averages over orders.",
    ),
    Entry(
        "KV115",
        "tools added or removed within a session",
        "The set of tools changes from one turn of a conversation to the next.",
        "Most chat templates write tools before the conversation, so the whole history behind them is computed again.",
        "turn 1: tools = [search]\nturn 2: tools = [browse, search]",
        "both turns: tools = [search, browse]   (and say which may be used)",
        (
            Remedy("append new tools at the end of the list", "P3"),
            Remedy(
                "offer the whole set from the start, or load descriptions late through a tool that finds tools", "P3"
            ),
        ),
        "It happens once in a long session.",
    ),
    Entry(
        "KV121",
        "whitespace, line ends, byte order mark or Unicode form",
        "Texts that look alike differ in spaces, CRLF and LF, a byte order mark, invisible characters or composed letters.",
        "Tokens are made from bytes: what a reader does not see ends the reuse like any other difference.",
        "rules.md saved on Windows (CRLF) on one server, with LF on another",
        "one form everywhere: text.replace('\\r\\n', '\\n'), NFC, no spaces at line ends",
        (Remedy("normalize the template, never what users or programs wrote", "P1"),),
        "The difference lies in user data or in code, where white space has a meaning.",
    ),
    Entry(
        "KV122",
        "token boundary drift at a seam",
        "Two prompts agree in more characters than tokens: at the seam between shared and own text the tokenizer joined both.",
        "A token that holds the end of the shared text and the start of the own one is another token, so the last block before "
        "the seam is lost.",
        "'Answer:' + ' yes'   ->  [..., ':', ' yes']\n'Answer: ' + 'yes'   ->  [..., ': ', 'yes']",
        "end shared text with a line feed or a special token",
        (Remedy("put the boundary at a line feed or a special token", "P1"),),
        "The seam does not fall on the end of a block, so that no whole block is lost by it.",
    ),
    Entry(
        "KV123",
        "beginning-of-sequence token doubled",
        "Prompts begin with the beginning-of-sequence token twice: once from the chat template, once from the tokenizer.",
        "A prompt with one and a prompt with two share nothing behind the first token, and models were not trained on two.",
        "<s><s>[INST] ...",
        "<s>[INST] ...",
        (Remedy("render the template without it, or tokenize with add_special_tokens=False", "P1"),),
        "All requests have both, and the model answers well with them.",
    ),
    Entry(
        "KV124",
        "generated text retokenizes differently in the next turn",
        "An answer came back as text; in the next turn the tokenizer cut the same text into other tokens than the model chose.",
        "The KV cache holds the generated tokens. The history has others, so reuse ends inside the answer.",
        "generated: ['Hel', 'lo']   next turn: ['Hello']",
        "send the generated ids back: token in, token out",
        (Remedy("keep the token ids of answers and send ids instead of text", "P0"),),
        "Answers are short beside the rest of the prompt.",
    ),
)
