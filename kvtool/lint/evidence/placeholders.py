"""The meaning of a placeholder by its name: a clock, an id, a question, or unknown."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise

from kvtool.diagnose.codes.entry import DifferenceKind
from kvtool.diagnose.codes.layout.kv201 import OTHER
from kvtool.diagnose.codes.values.kv101 import TIME
from kvtool.diagnose.codes.values.kv102 import REQUEST_ID
from kvtool.diagnose.codes.values.kv104 import USER
from kvtool.diagnose.codes.values.kv105 import COUNTER
from kvtool.diagnose.codes.values.kv107 import FLAG
from kvtool.diagnose.values.variable_names import kind_of_name
from kvtool.diagnose.word_lists import word_set
from kvtool.lint.evidence.value_precision import id_of, sure_kind
from kvtool.lint.evidence.volatile_calls import named, named_kind
from kvtool.lint.skeleton import Doubt, Hole, Node, TemplatePlace


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_WORD = re.compile(r"[A-Z]{1,40}(?![a-z])|[A-Z]?[a-z]{1,40}")
_LONGEST_NAME = 200
_OWN = re.compile(r"^`?self\.")
_WHOSE = word_set(__file__, "whose")
_ASKED = word_set(__file__, "asked")
_CODED = word_set(__file__, "coded")
_SHOWN = _words("example examples")
"""Words that a name begins with of what a program shows in all of its requests: `example_queries`."""
_LATE = word_set(__file__, "late")
_DESCRIBED = word_set(__file__, "described")
_DOCUMENTATION = _words("doc docs documentation")
_DOCUMENTED = word_set(__file__, "documented")
_ONE_AFTER_ANOTHER = word_set(__file__, "one_after_another")
_NONE = _words("no not none empty missing default")
"""Words that a constant begins with that means an answer."""
_SET_UP = word_set(__file__, "set_up")
_FIXED = re.compile(r"(?:^|_)(?:format_instructions|output_format|output_schema|json_schema|(?:bos|eos|pad)_token)$")
"""What is made of the program alone: it is the same in all of its requests."""
_SAYS_NOTHING = word_set(__file__, "says_nothing")
_DONE = word_set(__file__, "done")
_PARTS = word_set(__file__, "parts")
_OF_A_PROGRAM = word_set(__file__, "of_a_program")
_OF_CODE = _PARTS | word_set(__file__, "of_code")
_SAYS_WHAT_OF = word_set(__file__, "says_what_of")
_CONVERSATIONS = word_set(__file__, "conversations")
_GROWS = frozenset(("memory", "memories", "history", "scratchpad", "transcript", "messages"))
"""What a conversation adds to, whosever it is."""
_SETTINGS = _words("config configuration cfg conf settings options opts")
"""Names of objects that hold what a program is set up with, whatever each part of them is."""
_LIMITS = word_set(__file__, "limits")
_ASKS_WHETHER = _words("is has was are should can needs")
"""Words that a name begins with that holds yes or no."""
_BY_PEOPLE = _words("user human original initial image given")
"""Whose prompt is one that is asked; all other prompts within a prompt are parts that a program puts together."""
_WHOLE = _words("prompt prompts messages")
_DONE_ON_REQUEST = "instruction"
"""A name for a rule of a program, and for what somebody asked whose answer is judged."""
_ANSWERED = word_set(__file__, "answered")
_SYSTEM = frozenset(("system", "developer", "base", "default"))


def placeholder(name: str, spot: TemplatePlace) -> Hole | None:
    """The hole of a placeholder; None for what is the same in all requests of a program."""
    told = _told(name)
    return None if told is None else Hole(spot, told[0], f"`{name}`", doubt=told[1])


@lru_cache(maxsize=4096)
def _told(name: str) -> tuple[DifferenceKind, Doubt] | None:
    words = words_of(name)
    if is_limit(words) or _is_documentation(words):
        return None
    kind = named_kind(name) or id_of(name)
    if not set(words) & _SYSTEM and not _WHOSE.intersection(words[-1:]) and kind is not None:
        if kind not in (TIME, REQUEST_ID) and is_setting(name):
            return None
        if kind is USER and kind_of_name(words[-1]) is not USER and doubt_of(name) == "use":
            return OTHER, "use"  # `user_goal`: it is what the user wants, not who that is
        if kind is not COUNTER or sure_kind(name) is COUNTER:
            return kind, ""
    return None if is_settled(name) else (OTHER, doubt_of(name))


def with_labels(nodes: Sequence[Node]) -> list[Node]:
    """Return a prompt in which the word before an id on its line says whose it is: `Request {{ id }}` is a `request.id`."""
    found = list(nodes)
    for at, (before, hole) in enumerate(pairwise(nodes), 1):
        if isinstance(before, str) and isinstance(hole, Hole) and hole.what == "`id`" and hole.doubt == "open":
            words = [word for word in words_of(before.rpartition("\n")[2]) if word != "id"]
            kind = id_of(f"{words[-1]}.id") if words else None
            found[at] = hole if kind is None else replace(hole, kind=kind, doubt="")
    return found


def is_known_to_vary(name: str) -> bool:
    """Return whether a name says that its value is another one in each request, or for each user."""
    told = _told(name)
    return told is not None and told[1] != "open"


def constant_text(name: str, spot: TemplatePlace) -> Hole:
    """The hole of a text that is the same in all requests, but is not known."""
    return Hole(spot, OTHER, f"`{name}`", doubt="open", hidden=True, unseen=f"the text of `{name}`", constant=True)


def unnamed(name: str, spot: TemplatePlace) -> Hole:
    """The hole of a placeholder whose name does not count, for it is known what is put in."""
    return Hole(spot, OTHER, f"`{name}`", doubt="open")


def asked(name: str, spot: TemplatePlace) -> Hole | None:
    """The hole of a value that code puts into a prompt, by its use only; None for what is the same in all requests."""
    words = words_of(name)
    if not words or is_settled(name):
        return None
    return Hole(spot, OTHER, f"`{name}`", doubt=doubt_of(name))


@lru_cache(maxsize=4096)
def is_settled(name: str) -> bool:
    """Return whether a name says that its value is the same in all requests of a deployment, or is late in a conversation."""
    if name == _DONE_ON_REQUEST:
        return False
    words = words_of(name)
    if name.endswith("__"):
        return True  # what Python gives things itself: `__doc__`, `__name__`
    if _FIXED.search(name.replace(".", "_").lower()) or _LATE.intersection(words) or _NONE.intersection(words[:1]):
        return True
    if is_limit(words) or _is_documentation(words):
        return True
    if doubt_of(name) == "use":
        return False
    return bool(_OF_A_PROGRAM.intersection(words) or _SET_UP.intersection(words) or _SYSTEM.intersection(words))


def is_limit(words: Sequence[str]) -> bool:
    """Return whether the words of a name say that it is a limit: `max_actions`."""
    return not _LIMITS.isdisjoint((*words[:1], *words[-1:]))


def is_setting(name: str) -> bool:
    """Return whether it is a part of an object that is named for settings: `config.tenant_label`, `self.settings.region`."""
    owners = name.rpartition(".")[0].split(".")
    return any(words_of(owner)[-1:] and words_of(owner)[-1] in _SETTINGS for owner in owners)


def _is_documentation(words: list[str]) -> bool:
    """Return whether it is what is written of a part of a program."""
    while len(words) > 2 and words[-1] in _SAYS_NOTHING:
        words = words[:-1]
    return len(words) > 1 and words[-1] in _DOCUMENTATION and words[-2] in _DOCUMENTED


def section(name: str, spot: TemplatePlace) -> Hole | None:
    """The hole of a section that is there where a flag or a clock says so; what else decides it mostly says whether it is given."""
    kind = kind_of_name(name)
    about = kind is TIME and not _ASKS_WHETHER.isdisjoint(words_of(name)[:1])  # `is_date_field` is no clock
    return named(name, spot) if kind in (FLAG, TIME) and not about else None


def doubt_of(name: str) -> Doubt:
    """Return whether what a name holds is another in each request by its use, or nothing says; for names that name no kind."""
    words = words_of(name)
    if "for" in words[1:]:
        words = words[: words.index("for", 1)]  # `text_input_for_titles`: what it is for says nothing of it
    while len(words) > 1 and (words[-1] in _SAYS_NOTHING or words[-1] in _DONE):
        words.pop()
    if is_setting(name):
        return "open"
    root = words_of(name.partition(".")[0]) if "." in name else []
    if not words or _SET_UP.intersection([words[-1], *root[-1:]]) or _SYSTEM.intersection(words):
        return "open"
    if _PARTS.intersection(words) and words[-1] not in _GROWS:
        return "open"
    if words[-1] in ("description", "name", "details", "info", "information") and len(words) > 1:
        return "use" if words[-2] in _DESCRIBED else "open"
    if words[0] in _SHOWN and len(words) > 1:
        return "open"
    if words[-1] == "code" and len(words) > 1 and words[-2] in _CODED:
        return "open"
    if words[-1] == "prompt" and len(words) > 1:
        return "use" if words[-2] in _ASKED or words[-2] in _BY_PEOPLE else "open"
    return "use" if words[-1] in _ASKED or _is_sequence_number(words) or _is_to_be(words) else "open"


def _is_sequence_number(words: list[str]) -> bool:
    """Return whether a name says that there was another one before, and is none of a part of a program."""
    parts = _OF_A_PROGRAM | _SET_UP | _OF_CODE
    return len(words) > 1 and words[0] in _ONE_AFTER_ANOTHER and parts.isdisjoint(words[1:])


def _is_to_be(words: list[str]) -> bool:
    """Return whether a name says what is to be done with a thing that is asked about: `text_to_process`, `documents_to_rank`."""
    return "to" in words[1:-1] and words[words.index("to", 1) - 1] in _ASKED


def names_whole_prompt(name: str) -> bool:
    """Return whether a name is one for all of a prompt, to which something is added: `base_prompt`, `prompt_text`, `messages`."""
    words = words_of(name)
    while len(words) > 1 and words[-1] in _SAYS_NOTHING:
        words.pop()
    return bool(_WHOLE.intersection(words[-1:]))


def is_set_up(name: str) -> bool:
    """Return whether a name contains a word for a part of a program, mostly set up once: `agent_name`, `tool_descriptions`."""
    return not _OF_CODE.isdisjoint(words_of(name))


def names_a_conversation(name: str) -> bool:
    """Return whether a name is one for the messages that were exchanged so far."""
    return not _CONVERSATIONS.isdisjoint([word for word in words_of(name) if word not in _WHOLE][-1:])


def may_be_question(name: str) -> bool:
    """Return whether a value may be what somebody asked, though it may be a rule of a program, too: an `instruction`."""
    return name.strip("`") == _DONE_ON_REQUEST


def is_answered(name: str, behind: str) -> bool:
    """Return whether a value is what somebody asked, where an answer is given after it."""
    return may_be_question(name) and not _ANSWERED.isdisjoint(words_of(behind))


def names_a_part(name: str) -> bool:
    """Return whether a name is one of a part of a program: an `agent_name`, or a bare `name`; not a `journal_name`."""
    words = [word for word in words_of(name) if word not in _SAYS_WHAT_OF]
    return not words or not _OF_CODE.isdisjoint(words)


def words_of(name: str) -> list[str]:
    """The words of a name in snake case, camel case or with dots, in lower case."""
    return [word.lower() for word in _WORD.findall(_OWN.sub("", name[:_LONGEST_NAME], count=1))]
