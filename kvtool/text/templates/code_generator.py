"""Code for templates: output keeps its origins, and every run of statements is paid for when it begins."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from jinja2 import nodes
from jinja2.compiler import CodeGenerator, Frame, operators
from jinja2.exceptions import TemplateSyntaxError
from jinja2.ext import Extension, do, loopcontrols
from jinja2.parser import Parser

from kvtool.text.templates.source_places import LocatedEnvironment
from kvtool.text.traced import Origin, Traced

_BLOCK = 12
"""Of entering a body: an iteration, a branch, a call of a macro."""
_LITERAL = 16
_OUTPUT = 60
_PRICES: dict[type[nodes.Node], int] = {
    nodes.Call: 100,
    nodes.Filter: 40,
    nodes.Test: 20,
    nodes.Getattr: 40,
    nodes.Getitem: 30,
    nodes.Concat: 60,
    nodes.For: 30,
    nodes.Macro: 60,
    nodes.CallBlock: 120,
    nodes.FilterBlock: 60,
    nodes.AssignBlock: 60,
    nodes.Block: 120,
    nodes.List: 30,
    nodes.Dict: 40,
    nodes.Compare: 12,
    nodes.Assign: 8,
}
_OPERATOR = 20
_NODE = 2


def run_price(statements: Iterable[nodes.Node]) -> int:
    """Steps of these statements, once: all but the bodies in them, which are paid for when they are entered."""
    return _BLOCK + sum(map(node_price, statements))


def node_price(node: nodes.Node) -> int:
    """Steps of a statement or an expression, without bodies in it."""
    if isinstance(node, nodes.TemplateData):
        return _LITERAL
    price = _PRICES.get(type(node), _OPERATOR if isinstance(node, nodes.BinExpr) else _NODE)
    if isinstance(node, nodes.Output):
        price += sum(_OUTPUT for child in node.nodes if not isinstance(child, nodes.TemplateData))
    inner = () if isinstance(node, nodes.ScopedEvalContextModifier) else ("body", "else_")
    return price + sum(map(node_price, node.iter_child_nodes(exclude=inner)))


_ITERATION = 20
_FIXED_TEXT = 64
"""Characters of a literal text in which to look for something is as cheap as any step."""
_MOST_ODD_KEYS = 1_000
_CHECKED = "if environment.left < 0: environment.exhausted()"


class TemplateParser(Parser):
    """Jinja's parser, which says the environment which expression is in which `{{ … }}`, and has what runs unseen paid for."""

    environment: LocatedEnvironment

    def parse_tuple(self, *args: Any, **kwargs: Any) -> Any:
        span = self.environment.span_of(self.stream.current)
        node = super().parse_tuple(*args, **kwargs)
        return node if span is None else self.environment.add_expression(node, span)

    def parse_for(self) -> nodes.For:
        node = super().parse_for()
        if node.test is not None:  # which runs for items that the body never sees
            steps = nodes.Const(_ITERATION + node_price(node.test))
            node.iter = _called("items", node.iter, steps)  # type: ignore[arg-type]  # an expression, as it was parsed as one
        return node

    def parse_call_args(self) -> Any:
        args, kwargs, dyn_args, dyn_kwargs = super().parse_call_args()
        return (
            args,
            kwargs,
            dyn_args and _called("arguments", dyn_args),
            dyn_kwargs and _called("arguments", dyn_kwargs),
        )


class TracedCode(CodeGenerator):
    """Jinja's code generator, except that output is never folded into plain strings, and that operations on values of any size
    go through the environment."""

    environment: LocatedEnvironment

    def blockvisit(self, nodes: Sequence[nodes.Node], frame: Frame) -> None:  # type: ignore[override]  # all are lists
        self.writeline(f"environment.left -= {run_price(nodes)}")
        self.writeline(_CHECKED)
        super().blockvisit(nodes, frame)

    # Output

    def _output_child_to_const(self, node: nodes.Expr, frame: Frame, finalize: Any) -> str:
        del node, frame, finalize
        raise nodes.Impossible

    def _output_child_pre(self, node: nodes.Expr, frame: Frame, finalize: Any) -> None:
        del frame, finalize
        if isinstance(node, nodes.TemplateData):
            self.write("(")
        else:
            self.write(f"environment.traced({self.environment.expression(node)}, ")

    def _output_child_post(self, node: nodes.Expr, frame: Frame, finalize: Any) -> None:
        del node, frame, finalize
        self.write(")")

    def visit_TemplateData(self, node: nodes.TemplateData, frame: Frame) -> None:  # noqa: N802
        del frame
        self.write(f"environment.literals[{self.environment.add_literal(node.data)}]")

    # Expressions

    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:  # noqa: N802
        self.write("environment.concat((")
        for part in node.nodes:
            self.visit(part, frame)
            self.write(", ")
        self.write("))")

    def visit_Compare(self, node: nodes.Compare, frame: Frame) -> None:  # noqa: N802
        if len(node.ops) == 1 and node.ops[0].op in ("in", "notin"):
            self._visit_in(node.expr, node.ops[0], frame)
            return
        values = [node.expr, *(operand.expr for operand in node.ops)]
        cheap = len(values) == 2 and any(map(_is_fixed, values))
        self.write("(")
        self._visit_operand(values[0], frame, cheap=cheap)
        for operand, value in zip(node.ops, values[1:], strict=True):
            self.write(f" {operators[operand.op]} ")
            if operand.op in ("in", "notin"):
                self.write("environment.searched(")
                self.visit(value, frame)
                self.write(")")
            else:
                self._visit_operand(value, frame, cheap=cheap)
        self.write(")")

    def _visit_in(self, left: nodes.Expr, operand: nodes.Operand, frame: Frame) -> None:
        self.write("(not " if operand.op == "notin" else "(")
        if _is_fixed(operand.expr):
            self.visit(left, frame)
            self.write(" in ")
            self.visit(operand.expr, frame)
        else:
            self.write("environment.within(")
            self.visit(left, frame)
            self.write(", ")
            self.visit(operand.expr, frame)
            self.write(")")
        self.write(")")

    def _visit_operand(self, node: nodes.Expr, frame: Frame, *, cheap: bool) -> None:
        if cheap or _is_fixed(node):
            self.visit(node, frame)
            return
        self.write("environment.plain(")
        self.visit(node, frame)
        self.write(")")

    def visit_Getitem(self, node: nodes.Getitem, frame: Frame) -> None:  # noqa: N802
        if not isinstance(node.arg, nodes.Slice):
            super().visit_Getitem(node, frame)
            return
        self.write("environment.cut(")
        self.visit(node.node, frame)
        for part in (node.arg.start, node.arg.stop, node.arg.step):
            self.write(", ")
            if part is None:
                self.write("None")
            else:
                self.visit(part, frame)
        self.write(")")

    def visit_Dict(self, node: nodes.Dict, frame: Frame) -> None:  # noqa: N802
        odd = [pair.key for pair in node.items if not _is_text(pair.key)]
        if len(odd) > _MOST_ODD_KEYS:
            self.fail(f"an object of more than {_MOST_ODD_KEYS:,} keys that are not text", node.lineno)
        self.write("{")
        for pair in node.items:
            self._visit_operand(pair.key, frame, cheap=False)
            self.write(": ")
            self.visit(pair.value, frame)
            self.write(", ")
        self.write("}")


class Generation(Extension):
    """`{% generation %}…{% endgeneration %}`, which marks what the model wrote, for training; here it only shows its content."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        return nodes.Scope(parser.parse_statements(("name:endgeneration",), drop_needle=True), lineno=line)


def _called(name: str, *args: nodes.Expr) -> nodes.Expr:
    """A call of a method of the environment."""
    line = args[0].lineno
    return nodes.Call(nodes.EnvironmentAttribute(name, lineno=line), list(args), [], None, None, lineno=line)


def _is_fixed(node: nodes.Node) -> bool:
    """Return whether this is a small value that the template says, which bounds the cost of a comparison with it."""
    if isinstance(node, nodes.Const):
        return not isinstance(node.value, str) or len(node.value) <= _FIXED_TEXT
    return isinstance(node, nodes.List | nodes.Tuple) and all(map(_is_fixed, node.items))


def _is_text(node: nodes.Expr) -> bool:
    return isinstance(node, nodes.Const) and isinstance(node.value, str)


class ParsedEnvironment(LocatedEnvironment):
    """The same syntax, and the same origins, as of a template that is rendered. `dollars`: its variables are in `${…}`."""

    def __init__(self, source: Traced, *, chat: bool, dollars: bool = False) -> None:
        if chat:
            super().__init__(
                source, trim_blocks=True, lstrip_blocks=True, optimized=False, extensions=[Generation, loopcontrols]
            )
        elif dollars:
            super().__init__(
                source,
                keep_trailing_newline=True,
                optimized=False,
                variable_start_string="${",
                variable_end_string="}",
            )
        else:
            super().__init__(source, keep_trailing_newline=True, optimized=False, extensions=[do, loopcontrols])

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        return TemplateParser(self, source, name, filename).parse()


def is_jinja(text: str) -> bool:
    """Return whether a text has the syntax of a template; a text that is too large to say so counts as one."""
    environment = ParsedEnvironment(Traced.of(text, Origin("", text=text)), chat=False)
    try:
        environment.parse(environment.source)
    except TemplateSyntaxError:
        return False
    except (RecursionError, MemoryError, ValueError, OverflowError):
        return True
    return True
