"""Meaning of a placeholder by the text before it: data after a label, today's date, the goal of an agent, a late message.

A name such as `unique_cell_types` says nothing; `Below are the annotations:` on the line before says that they are given.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import takewhile

from kvtool.diagnose.codes.values.kv101 import TIME
from kvtool.diagnose.word_lists import word_set
from kvtool.lint.evidence.placeholders import is_set_up, is_settled, words_of
from kvtool.lint.evidence.prompt_evidence import reads_as_reply
from kvtool.lint.skeleton import Choice, Hole, Node, Repeat, before_values, leaves, with_holes

_AROUND = 240
_NO_RECORDS = frozenset(("self", "cls", "args", "os", "state"))
"""What holds all that a program knows, not one thing."""
_LEAST_PARTS = 3
_LABEL = 120
_MARKS = "`'\"*_~=-<>[](){}|# \t"
_BLOCK = re.compile(
    r"(?:[:\uff1a]|#{1,6}[^\n]{1,80}|\*\*[^\n]{1,80}\*\*|<[\w /-]{1,60}>|\[[\w /-]{1,60}\]|[-=]{3,}[^\n]{0,60})$"
)
"""How a line ends that a block of data follows: with a colon, or it is a heading or a tag."""
_FIELD = re.compile(
    r"^[ \t]*(?:[-*\u2022][ \t]+|\d{1,2}[.)][ \t]+|#{1,6}[ \t]+)?[*_`]{0,3}([\w][\w '\u2019/()-]{1,48})"
    r"[*_`]{0,3}[:\uff1a][*_`]{0,3}[ \t]*[`'\"<\[(]{0,4}$"
)
"""A label at the beginning of a line, and nothing between it and what follows: `Company: `."""
_OF_A_DEPLOYMENT = word_set(__file__, "of_a_deployment")
_SET_UP = _OF_A_DEPLOYMENT | word_set(__file__, "set_up")
_DESCRIPTION = "description"
_JUDGING = frozenset(("evaluation", "eval", "scoring", "grading", "judging"))
"""Whose steps are the same for all that is judged."""
_ENDS = re.compile(r"[ \t]*[`'\"*>\])]{0,4}[.,;]?[ \t]*(?:\n|$)|[ \t]*</")


def with_data(nodes: Iterable[Node]) -> list[Node]:
    """Mark placeholders that look like data as different in each request, where nothing else is known of them.

    So is an object of which a prompt shows several attributes; and a value that is data in one place is data
    wherever else the prompt names it.
    """
    given = list(nodes)
    told = _told(given, "", "", _records(given))
    asked = {leaf.what for leaf in leaves(told) if isinstance(leaf, Hole) and leaf.doubt == "use"}
    return with_holes(told, lambda hole: replace(hole, doubt="use") if hole.doubt and hole.what in asked else hole)


def _records(nodes: Iterable[Node]) -> frozenset[str]:
    """The objects of which a text holds several attributes: `order` of `{order.id}`, `{order.sum}` and `{order.day}`."""
    parts: dict[str, set[str]] = {}
    for leaf in leaves(nodes):
        root, dot, rest = leaf.what.strip("`").partition(".") if isinstance(leaf, Hole) else ("", "", "")
        if dot and root not in _NO_RECORDS and not _describes_set_up(root):
            parts.setdefault(root, set()).add(rest)
    return frozenset(root for root, told in parts.items() if len(told) >= _LEAST_PARTS)


def label_before(text: str, at: int) -> str:
    """Return the label of a placeholder on its line as a name: `SOURCE CODE: {0}`; empty where there is none."""
    field = _FIELD.match(text[max(text.rfind("\n", 0, at) + 1, at - _AROUND) : at])
    return "_".join(field[1].split()) if field is not None else ""


def _told(nodes: list[Node], before: str, behind: str, records: frozenset[str]) -> list[Node]:
    result: list[Node] = []
    worked_on: frozenset[str] = frozenset()
    for number, node in enumerate(nodes):
        following = nodes[number + 1] if number + 1 < len(nodes) else behind
        after = following if isinstance(following, str) else "\n"
        if isinstance(node, Hole):
            name = node.what.strip("`")
            data = (
                node.doubt == "open"
                and not node.unseen
                and (
                    name.partition(".")[0] in records
                    or _is_data(name, before, after)
                    or (not worked_on.isdisjoint(words_of(name)) and _is_alone(before, after))
                )
            )
            result.append(replace(node, doubt="use") if data else node)
            before = ""
        elif isinstance(node, Choice):
            result.append(Choice(tuple(tuple(_told(list(branch), before, after, records)) for branch in node.branches)))
            before = ""
        elif isinstance(node, Repeat):
            result.append(node)
            before = ""
        else:
            result.append(node)
            before = f"{before}{node}"[-_AROUND:]
            worked_on |= _worked_on(node)
    return result


_WORK = re.compile(
    r"\b(?:analy[sz]e|assess|check|classify|convert|correct|critique|edit|evaluate|extract|improve|judge|parse|proofread|rate|refine"
    r"|review|revise|rewrite|score|summari[sz]e|translate|validate|verify)\b(?:[^\n.:;]|\n(?!\n)){0,60}?"
    r"\b(?:the following|this|these|the (?:given|provided))\s((?:[^\n.:;,]|\n(?!\n)){1,60})",
    re.IGNORECASE,
)
"""A sentence that says what is worked on: `Evaluate the quality of the following review criteria`."""
_LEAST_WORD = 4
_MOST_WORDS = 5
_ENDS_THING = frozenset(
    words_of("the a an and or for with using into from by against that which whether is are in on to of as based meets")
)
"""Words after the name of a thing: `this article meets the inclusion criteria` names an article."""


def _worked_on(text: str) -> frozenset[str]:
    """The words for what a text says to work on."""
    return frozenset(word for found in _WORK.finditer(text) for word in _thing(found[1]) if len(word) >= _LEAST_WORD)


def _thing(words: str) -> Iterator[str]:
    return takewhile(lambda word: word not in _ENDS_THING, words_of(words)[:_MOST_WORDS])


def _is_alone(before: str, after: str) -> bool:
    """Return whether a value is all of a line, or of what its label introduces."""
    line = before.rpartition("\n")[2]
    return _ENDS.match(after) is not None and (not line.strip(_MARKS) or _FIELD.match(line) is not None)


def _is_data(name: str, before: str, after: str) -> bool:
    described = words_of(name) == [_DESCRIPTION]
    if (_describes_set_up(name) and not described) or _ENDS.match(after) is None:
        return False
    line = before.rpartition("\n")[2]
    field = _FIELD.match(line)
    if field is not None:
        return _names_thing(field[1]) if described else not _describes_set_up(field[1])
    if line.strip(_MARKS):
        return False
    lines = [one for one in before.split("\n") if one.strip()]
    while lines and not lines[-1].strip(_MARKS):
        lines.pop()
    label = lines[-1].rstrip() if lines else ""
    return _BLOCK.search(label) is not None and (_names_thing(label) if described else not _names_set_up(label))


def _names_thing(label: str) -> bool:
    """Return whether a label says what a description is one of, and that is no part of a program: `## Plot description`."""
    thing = " ".join(word for word in words_of(label[-_LABEL:]) if word != _DESCRIPTION)
    return bool(thing) and not _names_set_up(thing)


def _names_set_up(label: str) -> bool:
    """Return whether the line before a block names what a program is set up with; other words of a sentence say nothing of it."""
    return is_set_up(label[-_LABEL:]) or not _SET_UP.isdisjoint(words_of(label[-_LABEL:]))


def _describes_set_up(label: str) -> bool:
    words = words_of(label[-_LABEL:])
    said = " ".join(words)
    judges = words[-1:] == ["steps"] and not _JUDGING.isdisjoint(words)
    return judges or is_set_up(said) or is_settled(said) or not _OF_A_DEPLOYMENT.isdisjoint(words)


_CLOCKS = frozenset(("date", "time", "datetime", "day", "today", "timestamp", "now"))
_BEFORE_CLOCK = 80
_CLOCK_LABEL = re.compile(
    r"(?:\btoday(?:'s|\u2019s)?(?: (?:date|day))?|\b(?:current|present|local) (?:date|time|day)(?: (?:and|&) time)?"
    r"|\bdate today|\btime now|\bit is now|\u5f53\u524d(?:\u65f6\u95f4|\u65e5\u671f)|\u4eca\u5929(?:\u7684\u65e5\u671f)?)"
    r"(?: is|\u662f)?[\s:\uff1a=*`'\"(<\[]{0,8}$",
    re.IGNORECASE,
)
"""What a text says right before a clock; the last words: current time, current date and today in Chinese."""


def with_clocks(nodes: list[Node]) -> list[Node]:
    """The nodes, where a placeholder for a date is one for a clock if the text before it says so.

    Where something else is another in each request, that is reported, whatever the date is.
    """
    holes = [leaf for leaf in leaves(nodes) if isinstance(leaf, Hole)]
    return nodes if any(hole.doubt == "use" for hole in holes) else _labelled(nodes)


def _labelled(nodes: Iterable[Node]) -> list[Node]:
    result: list[Node] = []
    before = ""
    for node in nodes:
        if isinstance(node, Hole) and node.doubt and _is_clock(node, before):
            result.append(replace(node, kind=TIME, doubt="", minor=True))
        elif isinstance(node, Choice):
            result.append(Choice(tuple(tuple(_labelled(branch)) for branch in node.branches)))
        elif isinstance(node, Repeat):
            result.append(replace(node, body=tuple(_labelled(node.body))))
        else:
            result.append(node)
        before = f"{before}{node}"[-_BEFORE_CLOCK:] if isinstance(node, str) else ""
    return result


def _is_clock(hole: Hole, before: str) -> bool:
    return not _CLOCKS.isdisjoint(words_of(hole.what.strip("`"))[-1:]) and _CLOCK_LABEL.search(before) is not None


_PURSUED = frozenset(("goal", "goals", "objective", "objectives"))
_BEFORE_GOAL = 400
_INTRODUCED = re.compile(
    r"\b(?:you are|you're|act as|your role is)\s(?:an?\s|the\s|now\s){0,2}[^{}\n]{0,40}"
    r"[{$]{1,3}\s?[\w.\[\]'\"]{0,60}(?:role|persona|profession|position|job_title|agent_name|profile)\b"
    r"|\u4f60\u662f\u4e00?[\u4e2a\u4f4d]?\s?\{{1,2}\s?[\w.]{0,60}(?:role|name)\b",
    re.IGNORECASE,
)
"""`You are a {role}`, in English or Chinese."""


def _before(text: str, hole: Hole) -> str:
    """Return the text before a placeholder in the text of its file."""
    spot = hole.spot
    lines = text.split("\n", spot.line)
    if len(lines) < spot.line:
        return ""
    first = max(spot.line - 1 - _BEFORE_GOAL, 0)
    return "\n".join([*lines[first : spot.line - 1], lines[spot.line - 1][: spot.column - 1]])[-_BEFORE_GOAL:]


def without_profiles(nodes: list[Node], text: str) -> list[Node]:
    """The nodes but for goals of agents that the text before them introduces; `text` is that of their file."""
    if not any(isinstance(leaf, Hole) and _is_pursued(leaf) for leaf in leaves(nodes)):
        return nodes
    return _without_goals(nodes, text)


def _without_goals(nodes: Iterable[Node], text: str) -> list[Node]:
    result: list[Node] = []
    for node in nodes:
        if isinstance(node, Choice):
            result.append(Choice(tuple(tuple(_without_goals(branch, text)) for branch in node.branches)))
        elif isinstance(node, Repeat):
            result.append(replace(node, body=tuple(_without_goals(node.body, text))))
        elif not (isinstance(node, Hole) and _is_pursued(node) and _INTRODUCED.search(_before(text, node))):
            result.append(node)
    return result


def _is_pursued(hole: Hole) -> bool:
    return bool(hole.doubt) and not _PURSUED.isdisjoint(words_of(hole.what)[-1:])


_FIX_TASK = re.compile(r"\b(?:fix|correct|address)(?= (?:the following|this|these)\b)", re.IGNORECASE)
"""`Fix the following issue` says what to do, not what was wrong with an answer."""


def without_late(nodes: list[Node]) -> list[Node]:
    """The nodes, where in such a text what is another by its use or its name is reported by nobody."""
    text = "".join(node for node in nodes if isinstance(node, str)) or "".join(
        leaf for leaf in leaves(nodes) if isinstance(leaf, str)
    )
    return with_holes(nodes, _hidden) if reads_as_reply(_FIX_TASK.sub("Do", text), before_values(nodes)) else nodes


def _hidden(hole: Hole) -> Hole:
    return hole if hole.certain else replace(hole, hidden=True)
