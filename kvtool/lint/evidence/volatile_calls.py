"""Calls that give something else each time, and collections without an order, seen without running the code."""

from __future__ import annotations

import ast
from dataclasses import replace

from kvtool.diagnose.codes.entry import DifferenceKind
from kvtool.diagnose.codes.layout.kv201 import OTHER
from kvtool.diagnose.codes.structure.kv111 import KV111
from kvtool.diagnose.codes.structure.kv112 import KV112
from kvtool.diagnose.codes.structure.kv113 import KV113
from kvtool.diagnose.codes.structure.kv114 import KV114
from kvtool.diagnose.codes.structure.kv131 import KV131
from kvtool.diagnose.codes.structure.kv141 import WINDOW
from kvtool.diagnose.codes.structure.kv143 import CUT_SHORT
from kvtool.diagnose.codes.values.kv101 import TIME
from kvtool.diagnose.codes.values.kv102 import KV102, REQUEST_ID
from kvtool.diagnose.codes.values.kv104 import USER
from kvtool.diagnose.codes.values.kv105 import COUNTER
from kvtool.diagnose.codes.values.kv106 import ENVIRONMENT, KV106
from kvtool.diagnose.codes.values.kv107 import FLAG
from kvtool.diagnose.values.variable_names import kind_of_name
from kvtool.diagnose.word_lists import word_set
from kvtool.lint.skeleton import Hole, TemplatePlace

RANDOM = DifferenceKind("random", "random value", KV102.code)
HOST = DifferenceKind("environment", "environment of the process", KV106.code)
TEMPLATE_CLOCK = DifferenceKind("time", "date from the chat template", KV131.code)
JSON_KEYS = DifferenceKind("json_keys", "JSON keys in insertion order", KV112.code)

_CLOCKS = word_set(__file__, "clocks")
_CLOCK_OWNERS = word_set(__file__, "clock_owners")
_IDS = word_set(__file__, "ids")
_RANDOM = word_set(__file__, "random")
_RANDOM_OWNERS = frozenset(("random", "secrets", "rng", "np.random", "numpy.random"))
_HOST = word_set(__file__, "host")
_PLATFORM = word_set(__file__, "platform")
_HOST_OWNERS = frozenset(("os", "getpass", "socket", "platform", "Path", "pathlib.Path", "os.path"))
_BARE_CLOCKS = frozenset(("now", "utcnow", "today", "strftime_now"))
_BARE_HOST = frozenset(("getcwd", "getuser", "gethostname", "getlogin"))
_MODULES = frozenset(("os.path", "posixpath", "ntpath"))
_FOLDERS = frozenset(("os.listdir", "listdir", "os.scandir", "scandir", "glob.glob", "glob.iglob", "iglob"))
"""What lists a folder: in no order that is promised, but on one machine mostly in the same."""
_OF_FOLDERS = frozenset(("iterdir", "rglob", "glob"))
_AS_DONE = frozenset(("as_completed", "imap_unordered"))
"""What gives results in the order in which they come."""
_UNORDERED = frozenset(("set", "frozenset")) | _FOLDERS | _AS_DONE
_UNORDERED_METHODS = frozenset(
    ("iterdir", "rglob", "glob", "intersection", "union", "difference", "symmetric_difference")
)


def called(name: str, spot: TemplatePlace, written: str = "") -> Hole | None:
    """The hole of a call of a dotted name (`datetime.now`), where the call cannot give the same twice.

    `written` is how the call is written where its first part was imported under another name.
    """
    owner, _, method = name.rpartition(".")
    what = f"call `{written or name}()`"
    if method in _IDS:
        return Hole(spot, REQUEST_ID, what, certain=True, clock=True)
    last = owner.rpartition(".")[2]
    if (not owner and method in _BARE_CLOCKS) or (method in _CLOCKS and {owner, last} & _CLOCK_OWNERS):
        return Hole(spot, TIME, what, certain=True, clock=True)
    if method in _RANDOM and {owner, last} & _RANDOM_OWNERS:
        return Hole(spot, RANDOM, what, certain=True)
    if name in ("hash", "id"):
        return Hole(spot, RANDOM, what, certain=True)
    if owner == "platform" and method in _PLATFORM:
        return Hole(spot, HOST, what, certain=True, minor=True)
    if (not owner and method in _BARE_HOST) or (method in _HOST and {owner, last} & _HOST_OWNERS):
        return Hole(spot, HOST, what, certain=True)
    return environment(name, spot) if name in ("os.getenv", "getenv", "os.environ.get", "environ.get") else None


def environment(name: str, spot: TemplatePlace) -> Hole | None:
    """The hole of a variable of the process's environment."""
    if name.startswith(("os.environ", "environ", "os.getenv", "getenv", "process.env.")):
        return Hole(spot, HOST, f"`{name}`", certain=False)
    return None


_OF_A_PERSON = word_set(__file__, "of_a_person")


def process_variable(name: str, spot: TemplatePlace) -> Hole | None:
    """The hole of a variable of the environment that is another one for each person or machine; others are settings."""
    return environment(name, spot) if name.rpartition(".")[2] in _OF_A_PERSON else None


def from_git(name: str, node: ast.Call, spot: TemplatePlace) -> Hole | None:
    """The hole of what a git command prints."""
    if not name.startswith("subprocess.") and name.rpartition(".")[2] not in (
        "check_output",
        "getoutput",
        "run_git",
        "git_output",
        "exec",
        "execSync",
        "execFileSync",
        "execa",
    ):
        return None
    words = next(
        (part for part in ast.walk(node) if isinstance(part, ast.Constant) and isinstance(part.value, str)), None
    )
    if words is None or not (str(words.value) + " ").startswith("git "):
        return None
    return Hole(spot, ENVIRONMENT, f"`git` by `{name}()`", certain=True)


def named(name: str, spot: TemplatePlace) -> Hole | None:
    """The hole of a variable whose name says that it varies."""
    kind = named_kind(name)
    return None if kind is None else Hole(spot, kind, f"`{name}`")


def named_kind(name: str) -> DifferenceKind | None:
    """Return the kind of value that a variable of this name holds; None where the name says nothing."""
    return kind_of_name(name) if name not in _MODULES else None


def has_no_order(name: str) -> bool:
    """Return whether what `name()` gives is gone over in an order that is not the same in each run."""
    owner, _, method = name.rpartition(".")
    return name in _UNORDERED or method in _AS_DONE or bool(owner and method in _UNORDERED_METHODS)


def unordered(name: str, items: str, spot: TemplatePlace) -> Hole | None:
    """The hole of going over what `name()` gives where that `has_no_order`; `items` is what its elements are."""
    if not has_no_order(name):
        return None
    method = name.rpartition(".")[2]
    what = f"`{name}()` without sorted()"
    minor = name in _FOLDERS or method in _OF_FOLDERS
    return Hole(spot, order_kind(items), what, certain=True, clock=method in _AS_DONE, order=True, minor=minor)


def of_unknown(order: Hole) -> Hole:
    """The same order where nothing is known of the elements: mostly they are others in each request anyway; tools are not."""
    return replace(order, capped=True, minor=order.minor or order.kind.code == KV113.code)


def order_kind(items: str) -> DifferenceKind:
    """Return the kind of items that change their order, by their name."""
    words = items.lower()
    if "tool" in words or "function" in words:
        return DifferenceKind("tools_reordered", "tools in no fixed order", KV111.code)
    if "example" in words or "shot" in words:
        return DifferenceKind("examples_reordered", "examples in no fixed order", KV114.code)
    return DifferenceKind(_ITEMS, "items in no fixed order", KV113.code)


def order_hole(order: Hole, items: str, spot: TemplatePlace) -> Hole:
    """The hole of going over a collection without an order, reported where it is gone over; its name may say what it holds."""
    kind = order.kind if order.kind.key != _ITEMS else order_kind(items)
    return replace(order, kind=kind).at(spot)


def shuffled(items: str, spot: TemplatePlace, written: str = "random.shuffle") -> Hole:
    """The hole of what a call that shuffles leaves; `written` is its name."""
    return Hole(spot, order_kind(items), f"`{written}()`", certain=True, clock=True, order=True)


_ITEMS = "documents_reordered"

CODES = frozenset(
    kind.code
    for kind in (
        TIME,
        REQUEST_ID,
        USER,
        COUNTER,
        ENVIRONMENT,
        FLAG,
        RANDOM,
        HOST,
        TEMPLATE_CLOCK,
        JSON_KEYS,
        OTHER,
        WINDOW,
        CUT_SHORT,
    )
) | {order_kind(items).code for items in ("tool", "example", "document")}
"""Codes that can be seen without traffic."""
