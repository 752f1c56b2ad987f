"""Calls of JavaScript's own library and of common packages, as the calls of Python that do the same."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from tree_sitter import Node

from kvtool.lint.python.syntax import dotted
from kvtool.lint.typescript.translated_nodes import (
    at,
    call,
    constant,
    field,
    first_named,
    key_of,
    known_name,
    method,
    named,
    text,
)

_METHODS = {
    "push": "append",
    "unshift": "insert",
    "trim": "strip",
    "trimStart": "lstrip",
    "trimEnd": "rstrip",
    "toLowerCase": "lower",
    "toUpperCase": "upper",
    "replaceAll": "replace",
    "fromMessages": "from_messages",
    "fromTemplate": "from_template",
    "formatMessages": "format_messages",
    "formatPromptValue": "format_prompt",
}
"""Methods that Python has under another name."""
_SAME = frozenset(("normalize", "padStart", "padEnd", "valueOf", "flat", "toReversed", "toWellFormed", "trimMargin"))
"""Methods that leave of a text or a list what lint knows of it."""
_CALLS = {
    "process.cwd": "os.getcwd",
    "os.hostname": "os.gethostname",
    "os.homedir": "os.home",
    "os.userInfo": "os.getuser",
    "os.platform": "platform.system",
    "performance.now": "time.time",
    "Math.random": "random.random",
    **dict.fromkeys(("Math.floor", "Math.ceil", "Math.round", "Math.trunc", "Number", "parseInt"), "int"),
    "JSON.stringify": "dumps",
    "path.join": "os.path.join",
    "path.resolve": "os.path.join",
    "_.shuffle": "shuffled",
    "lodash.shuffle": "shuffled",
    "_.sample": "random.choice",
    "_.sampleSize": "random.sample",
}
"""Dotted names of calls, and what Python calls the same."""
_NOW = frozenset(
    (
        *("Date.now", "DateTime.now", "DateTime.utc", "DateTime.local", "moment", "moment.utc", "dayjs", "dayjs.utc"),
        *("dayjs.tz", "moment.tz", "Temporal.Now.instant", "Temporal.Now.zonedDateTimeISO"),
        *("Temporal.Now.plainDateTimeISO", "Temporal.Now.plainDateISO", "Date"),
    )
)
"""Calls that read the clock where they are given no time."""
_IDS = re.compile(r"^(?:randomUUID|uuid(?:v[1467]|4)?|v[1467]|nanoid|ulid|cuid2?|createId|generateId)$")
_OF_TIME = frozenset(
    (
        *("toISOString", "toJSON", "toUTCString", "toGMTString", "toLocaleTimeString", "toTimeString", "getTime"),
        *("getHours", "getMinutes", "getSeconds", "getMilliseconds", "toISO", "toISOTime", "toMillis", "valueOf"),
        *("unix", "fromNow", "getUTCHours", "getUTCMinutes", "getUTCSeconds", "toSQL", "toRFC2822", "toHTTP"),
    )
)
"""Methods that write a time to the minute or finer."""
_OF_DAY = frozenset(
    (
        *("toDateString", "getFullYear", "getMonth", "getDate", "getDay", "getUTCFullYear", "getUTCMonth"),
        *("getUTCDate", "getUTCDay", "toISODate", "toSQLDate", "toPlainDate", "weekday", "year", "month"),
    )
)
_BY_OPTIONS = frozenset(("toLocaleString", "toLocaleDateString"))
_TIME_OPTIONS = frozenset(("hour", "minute", "second", "timeStyle", "dayPeriod", "fractionalSecondDigits"))
_DATE_OPTIONS = frozenset(("year", "month", "day", "weekday", "dateStyle", "era"))
_QUOTED = re.compile(r"\[[^\]]*\]|'[^']*'")
_TIME_TOKENS = re.compile(r"[HhKkmsSaAxXtTpP]|LT|LLL|lll|\bc\b")
"""What in a pattern of moment, dayjs, Luxon or date-fns is finer than a day."""
_ISO = "toISOString"
_DAY_OF_ISO = re.compile(r"""^(?:split\((['"`])T\1\)|(?:slice|substring|substr)\(0,\s*10\))$""")
_FILES = frozenset(("readFileSync", "readFile", "readTextFile"))
_SORTING = frozenset(("sortBy", "orderBy"))
"""Functions that sort a list by what another function gives of each element."""
_COPIES = frozenset(("structuredClone", "Array.from", "Object.freeze", "cloneDeep", "String.raw"))
_OF_OBJECTS = {"Object.keys": "keys", "Object.values": "values", "Object.entries": "items"}
_WRITES = frozenset(("String",))
_LISTS = frozenset(("Set", "Array"))
"""What is made of a list in the order of the list."""


def known_call(written: str, arguments: list[ast.expr], given: Sequence[Node], node: Node) -> ast.expr | None:
    """Return the Python call for one of JavaScript's by its dotted name; None for any other."""
    last = written.rpartition(".")[2]
    if written in _NOW and not any(one.type not in ("string", "template_string") for one in given):
        return call(known_name("datetime.now", written, node), [], node)
    if written in _NOW and arguments:
        return call(known_name("str", written, node), arguments[:1], node)
    if _IDS.match(last) and written.partition(".")[0] in (last, "uuid", "crypto", "self", "globalThis", "nodeCrypto"):
        return call(known_name("uuid.uuid4", written, node), [], node)
    if written in _OF_OBJECTS and arguments:
        return method(arguments[0], _OF_OBJECTS[written], [], node)
    if written in _COPIES and arguments:
        return arguments[0]
    if written == "Promise.all" and arguments:
        return call(
            known_name("asyncio.gather", written, node), [at(ast.Starred(arguments[0], ast.Load()), node)], node
        )
    if last in _FILES and arguments:
        return method(call(known_name("open", written, node), arguments[:1], node), "read", [], node)
    if written in _WRITES and arguments:
        return call(known_name("str", written, node), arguments, node)
    if last == "shuffle" and arguments and written != "random.shuffle":
        return call(known_name("shuffled", written, node), arguments, node)
    if written == "format" and len(arguments) == 2 and isinstance(arguments[1], ast.Constant):
        return method(arguments[0], "strftime", [_pattern(arguments[1], node)], node)
    if last in _SORTING and len(arguments) > 1:
        return _sorted(arguments[0], arguments[1:], written, node)
    if (python := _CALLS.get(written)) is not None:
        return call(known_name(python, written, node), arguments, node)
    return None


def made(constructor: str, arguments: list[ast.expr], node: Node) -> ast.expr | None:
    """Return the Python expression for what `new` makes; None where it is an object of a class like any other."""
    if constructor == "Date":
        if not arguments:
            return call(known_name("datetime.now", "new Date", node), [], node)
        return call(known_name("str", "new Date", node), arguments[:1], node)
    if constructor in _LISTS and arguments:
        return at(ast.List([at(ast.Starred(arguments[0], ast.Load()), node)], ast.Load()), node)
    return None


def known_method(base: ast.expr, name: str, arguments: list[ast.expr], given: Sequence[Node], node: Node) -> ast.expr:
    """Return the call of a method, as Python writes what it does."""
    if name in ("join", "map", "flatMap", "filter", "concat", "slice", "substring", "substr", "at", "repeat"):
        return _of_list(base, name, arguments, node)
    if name in _OF_TIME:
        return method(base, "isoformat", [], node)
    if name in _OF_DAY and not arguments:
        return method(base, "date", [], node)
    if name in _BY_OPTIONS:
        return method(base, "date" if _is_of_day(name, given) else "isoformat", [], node)
    if name == "format" and isinstance(base, ast.Call) and dotted(base.func) == "Intl.DateTimeFormat":
        time = arguments[0] if arguments else call(known_name("datetime.now", "new Date", node), [], node)
        fine = not _TIME_OPTIONS.isdisjoint(word.arg or "" for word in base.keywords)
        return method(time, "isoformat" if fine else "date", [], node)
    if name in ("format", "toFormat", "strftime") and arguments and isinstance(arguments[0], ast.Constant):
        return method(base, "strftime", [_pattern(arguments[0], node)], node)
    if name == "toString" or (name == "format" and not arguments):
        return call(known_name("str", name, node), [base], node)
    if name in ("sort", "toSorted"):
        return _sorted(base, arguments, name, node)
    if name in _SAME:
        return base
    if name == "unshift":
        return method(base, "insert", [constant(0, node), *arguments], node)
    if name == "push" and (len(arguments) > 1 or any(isinstance(one, ast.Starred) for one in arguments)):
        one = arguments[0]
        all_of = one.value if len(arguments) == 1 and isinstance(one, ast.Starred) else None
        return method(base, "extend", [all_of or at(ast.List(arguments, ast.Load()), node)], node)
    return method(base, _METHODS.get(name, name), arguments, node)


def _sorted(base: ast.expr, arguments: list[ast.expr], name: str, node: Node) -> ast.expr:
    """Return a list as a function sorts it, which compares two elements or gives something of each."""
    result = call(known_name("sorted", name, node), [base], node)
    result.keywords = [at(ast.keyword("key", one), node) for one in arguments[:1]]
    return result


def _of_list(base: ast.expr, name: str, arguments: list[ast.expr], node: Node) -> ast.expr:
    """Return what a method gives that is no method in Python: a comprehension, a sum, a slice."""
    first = arguments[0] if arguments else None
    if name == "join":
        return method(first or constant(",", node), "join", [base], node)
    if name == "repeat" and first is not None:
        return at(ast.BinOp(base, ast.Mult(), first), node)
    if name == "concat":
        total = base
        for one in arguments:
            total = at(ast.BinOp(total, ast.Add(), one), node)
        return total
    if name == "at" and first is not None:
        return at(ast.Subscript(base, first, ast.Load()), node)
    if name in ("slice", "substring", "substr"):
        stop = arguments[1] if len(arguments) > 1 else None
        return at(ast.Subscript(base, at(ast.Slice(first, stop), node), ast.Load()), node)
    if name == "filter" and first is not None:
        return call(known_name("filter", name, node), [first, base], node)
    if first is None:
        return base
    return _mapped(base, first, node)


def _mapped(base: ast.expr, function: ast.expr, node: Node) -> ast.expr:
    """`list.map(function)` as a comprehension."""
    target: ast.expr = at(ast.Name("item", ast.Store()), node)
    if isinstance(function, ast.Lambda) and function.args.args:
        body = function.body
        target = at(ast.Name(function.args.args[0].arg, ast.Store()), node)
        if len(function.args.args) > 1:
            number = at(ast.Name(function.args.args[1].arg, ast.Store()), node)
            target = at(ast.Tuple([number, target], ast.Store()), node)
            base = call(known_name("enumerate", "entries", node), [base], node)
    elif isinstance(function, ast.Lambda):
        body = function.body
        names = [at(ast.Name(one.arg, ast.Store()), node) for one in function.args.kwonlyargs]
        target = at(ast.Tuple(list(names), ast.Store()), node) if names else target
    else:
        body = call(function, [at(ast.Name("item", ast.Load()), node)], node)
    generator = ast.comprehension(target, base, [], 0)
    return at(ast.ListComp(body, [generator]), node)


def _pattern(one: ast.Constant, node: Node) -> ast.Constant:
    """A pattern for dates as one of `strftime`: all that counts is whether it is finer than a day."""
    pattern = _QUOTED.sub("", str(one.value))
    return constant("%H" if _TIME_TOKENS.search(pattern) else "%Y-%m-%d", node)


def _is_of_day(name: str, given: Sequence[Node]) -> bool:
    """Return whether options make `toLocaleString` write a day, `toLocaleDateString` nothing finer than one."""
    keys = {key_of(field(pair, "key")) for one in given if one.type == "object" for pair in named(one)}
    if keys & _TIME_OPTIONS:
        return False
    return name == "toLocaleDateString" or bool(keys & _DATE_OPTIONS)


def day_of(node: Node) -> Node | None:
    """Return the time of which an expression takes the day: `x` in `x.toISOString().slice(0, 10)`; None for any other."""
    while node.type == "subscript_expression" and (inside := field(node, "object")) is not None:
        node = inside
    function = field(node, "function") if node.type == "call_expression" else None
    if function is None or function.type != "member_expression":
        return None
    before = field(function, "object")
    how = text(field(function, "property")) + text(node.child_by_field_name("arguments"))
    if before is None or before.type != "call_expression" or not _DAY_OF_ISO.match(how):
        return None
    written = field(before, "function")
    if written is None or written.type != "member_expression" or text(field(written, "property")) != _ISO:
        return None
    return field(written, "object")


def tag_of(function: ast.expr) -> str:
    """Return the last name of what a template is tagged with."""
    return dotted(function).rpartition(".")[2]


DEDENTS = frozenset(("dedent", "outdent", "stripIndent", "stripIndents", "endent", "codeBlock", "raw", "oneLine"))
"""Tags that change the white space of a text only."""


def argument_nodes(node: Node) -> list[Node]:
    """Return the arguments of a call, without comments."""
    given = node.child_by_field_name("arguments")
    return [] if given is None or first_named(given) is None else list(named(given))
