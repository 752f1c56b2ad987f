"""Whether a chat template reads the content of a message as a list of parts: vLLM's `--chat-template-content-format auto`.

vLLM (0.32, `renderers/hf.py`) looks at the template's syntax tree, without scopes: a loop over the content of a message, over an
argument of a macro that receives it, or, outside of macros, over anything called `content`. Such a template gets every content as a
list of parts, a plain text, too; others get texts.
"""

from __future__ import annotations

from jinja2 import nodes

_MESSAGES, _CONTENT = "messages", "content"


def reads_parts(tree: nodes.Template) -> bool:
    """Whether contents are lists of parts for this template. The first loop over one decides; a tree that vLLM's detection cannot
    follow (two names for one value of a list) takes texts."""
    names = _names_of_messages(tree)
    if names is None:
        return False
    said = [loop for loop in tree.find_all(nodes.For) if any(_reads(loop.iter, name) for name in names)]
    if not all(isinstance(loop.target, nodes.Name) for loop in said):
        return False
    messages = {loop.target.name for loop in said if isinstance(loop.target, nodes.Name)}
    in_macros, arguments = _macro_loops(tree, messages)
    for loop in tree.find_all(nodes.For):
        over = loop.iter
        if any(_reads(over, name, _CONTENT) for name in messages) or (
            isinstance(over, nodes.Name)
            and (over.name in arguments.get(id(loop), ()) or (id(loop) not in in_macros and over.name == _CONTENT))
        ):
            return isinstance(loop.target, nodes.Name)
    return False


def _names_of_messages(tree: nodes.Template) -> set[str] | None:
    """The list of messages and what it is assigned to, filtered, tested or cut; None where it is taken apart in an assignment."""
    names = {_MESSAGES}
    waiting = [_MESSAGES]
    assigned = list(tree.find_all(nodes.Assign))
    while waiting:
        name = waiting.pop()
        for each in assigned:
            if not _reads(each.node, name):
                continue
            if not isinstance(each.target, nodes.Name):
                return None
            if each.target.name not in names:
                names.add(each.target.name)
                waiting.append(each.target.name)
    return names


def _macro_loops(tree: nodes.Template, messages: set[str]) -> tuple[set[int], dict[int, set[str]]]:
    """The loops inside macros, and of each the macro's arguments that receive a message's content somewhere."""
    inside: set[int] = set()
    arguments: dict[int, set[str]] = {}
    calls = [call for call in tree.find_all(nodes.Call) if isinstance(call.node, nodes.Name)]
    for macro in tree.find_all(nodes.Macro):
        own = [argument.name for argument in macro.args]
        given: set[str] = set()
        for call in calls:
            if not isinstance(call.node, nodes.Name) or call.node.name != macro.name:
                continue
            pairs = [*zip(own, call.args, strict=False), *((each.key, each.value) for each in call.kwargs)]
            given |= {
                name
                for name, value in pairs
                if name in own and any(_reads(value, message, _CONTENT) for message in messages)
            }
        for loop in macro.find_all(nodes.For):
            inside.add(id(loop))
            if given:
                arguments[id(loop)] = given
    return inside, arguments


def _reads(node: nodes.Node | None, name: str, key: str | None = None) -> bool:
    """Whether an expression is a variable, or a field of it, filtered, tested or cut."""
    while True:
        if isinstance(node, nodes.Filter | nodes.Test) or (
            isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Slice)
        ):
            node = node.node
        elif key is None:
            return isinstance(node, nodes.Name) and node.ctx == "load" and node.name == name
        elif isinstance(node, nodes.Getitem):
            return isinstance(node.arg, nodes.Const) and node.arg.value == key and _reads_name(node.node, name)
        else:
            return isinstance(node, nodes.Getattr) and node.attr == key and _reads_name(node.node, name)


def _reads_name(node: nodes.Node, name: str) -> bool:
    return isinstance(node, nodes.Name) and node.ctx == "load" and node.name == name
