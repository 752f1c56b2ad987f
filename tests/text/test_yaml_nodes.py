"""The YAML tree: what scalars mean, where text stands, what is refused and where the message points."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.errors import KvtoolError
from kvtool.text.files.yaml_document import parse_yaml
from kvtool.text.files.yaml_nodes import MAX_DEPTH, Mapping, Scalar, Sequence, YamlNode
from kvtool.text.traced import Origin, Traced


def scalar(source: str, *path: str | int) -> Scalar:
    node = parse_yaml(source, "w.yaml").find(path)
    assert isinstance(node, Scalar)
    return node


def origin_of(text: Traced) -> Origin:
    (mark,) = text.marks
    assert mark.origin is not None
    return mark.origin


def refused(source: str) -> KvtoolError:
    with pytest.raises(KvtoolError) as caught:
        parse_yaml(source, "w.yaml")
    assert caught.value.place is not None
    return caught.value


@pytest.mark.parametrize(
    ("written", "kind"),
    [
        *[
            (text, "str")
            for text in ("12:30:45", "no", "on", "Yes", "off", "1_000", "0b11", "2026-01-05", "<<", "=", "nULL", "1e")
        ],
        *[(text, "int") for text in ("0", "-12", "+5", "012", "0o17", "0x1F")],
        *[(text, "float") for text in ("1.5", ".5", "1.", "1e3", "-2.5E-3", ".inf", "-.INF", ".nan")],
        *[(text, "bool") for text in ("true", "False", "TRUE")],
        *[(text, "null") for text in ("~", "null", "")],
    ],
)
def test_scalars_are_those_of_the_core_schema(written: str, kind: str) -> None:
    found = scalar(f"key: {written}\n", "key")
    assert (found.kind, found.value) == (kind, written)
    if written:
        assert scalar(f"key: '{written}'\n", "key").kind == "str"


def test_text_knows_where_it_stands() -> None:
    for source, value, line, column, indent, verbatim in [
        ("t: plain text\n", "plain text", 1, 4, 1, True),
        ("t: 'quoted'\n", "quoted", 1, 5, 1, True),
        ("t: 'it''s'\n", "it's", 1, 5, 1, False),
        ('t: "a b"\n', "a b", 1, 5, 1, True),
        ('t: "a\\tb"\n', "a\tb", 1, 5, 1, False),
        ("t: two\n  lines\n", "two lines", 1, 4, 1, False),
        ("t: &name text\n", "text", 1, 10, 1, True),
        ("t: !!str 12\n", "12", 1, 10, 1, True),
        ("t: |\n  a\n   b\n\n  c\n", "a\n b\n\nc\n", 2, 3, 3, True),
        ("t: |-\n  a\n", "a", 2, 3, 3, True),
        ("t: |+\n  a\n\n\n", "a\n\n\n", 2, 3, 3, True),
        ("t: |2\n    a\n  b\n", "  a\nb\n", 2, 3, 3, True),
        ("t: |1-   # note\n  a\n", " a", 2, 2, 2, True),
        ("t: |\n\n  a\n", "\na\n", 2, 3, 3, True),
        ("t: | # note | this\n  a\n# end\n", "a\n", 2, 3, 3, True),
        ("t: >\n  a\n  b\n", "a b\n", 2, 3, 3, False),
        ("t: >-\n\n  a\n", "\na", 3, 3, 3, False),
        ("t: |\n  \x85\n  \t\n", "\x85\n\t\n", 2, 3, 3, True),  # blank to Python, text to YAML
        ("t: |\r\n  a\r\n  b\r\n", "a\nb\n", 2, 3, 3, True),
        ("l:\n- t: |\n    a\n", None, 0, 0, 0, True),
    ]:
        if value is None:
            found, line, column, indent, value = scalar(source, "l", 0, "t"), 3, 5, 5, "a\n"
        else:
            found = scalar(source, "t")
        origin = origin_of(found.text)
        assert found.value == value == found.text
        assert (origin.line, origin.column, origin.indent, origin.verbatim) == (line, column, indent, verbatim)


words = st.text(st.sampled_from("abc {}:#-é\u2028\u0085\t'\""), max_size=12)


@given(
    lines=st.lists(words, min_size=1, max_size=6),
    depth=st.integers(0, 4),
    chomping=st.sampled_from(["", "-", "+"]),
    before=st.integers(0, 3),
    data=st.data(),
)
def test_every_character_of_a_literal_leads_back_to_itself(
    lines: list[str], depth: int, chomping: str, before: int, data: st.DataObject
) -> None:
    """A block scalar at any depth: the character at a place of the value is the one at the line and column it claims."""
    source = "# comment\n" * before
    for level in range(depth):
        source += "  " * level + f"k{level}:\n"
    indent = 2 * depth + 3
    source += "  " * depth + f"text: |3{chomping}\n" + "".join(" " * indent + line + "\n" for line in lines)
    document = parse_yaml(source, "w.yaml")
    node = document.find((*[f"k{level}" for level in range(depth)], "text"))
    assert isinstance(node, Scalar)
    assert node.value.rstrip("\n") == "\n".join(lines).rstrip("\n")
    if not node.value.strip("\n"):
        return
    index = data.draw(st.integers(0, len(node.value) - 1))
    origin, offset = node.text.at(index)
    assert origin is not None
    line, column = origin.position(offset)
    written = [*source.split("\n"), ""][line - 1] + "\n"
    assert written[column - 1] == node.value[index]


def test_yaml_11_line_breaks_stay_text() -> None:
    assert scalar("t: |\n  a\u2028b\x85c\u2029d\n", "t").value == "a\u2028b\x85c\u2029d\n"
    assert scalar("a: x\u2028y\nt: z\n", "t").line == 2


def test_escaped_surrogate_pairs_are_joined_and_lone_ones_kept() -> None:
    assert scalar('t: "\\ud83d\\ude00"\n', "t").value == "\U0001f600"
    assert scalar('t: "\\ud83d!"\n', "t").value == "\ud83d!"


def test_a_byte_order_mark_does_not_move_columns(tmp_path_factory: pytest.TempPathFactory) -> None:
    from kvtool.text.files.yaml_document import load_yaml

    path = tmp_path_factory.mktemp("bom") / "w.yaml"
    path.write_bytes(b"\xef\xbb\xbfkey: text\n")
    found = load_yaml(str(path)).find(("key",))
    assert found is not None
    assert (found.line, found.column) == (1, 6)


def test_aliases_share_a_node_and_its_place() -> None:
    document = parse_yaml("a: &x text\nb: *x\n", "w.yaml")
    assert document.find(("a",)) is document.find(("b",))


def test_duplicate_keys_are_noted_with_the_first_ones_line() -> None:
    document = parse_yaml("a: 1\nb:\n  c: 1\n  c: 2\na: 3\n", "w.yaml")
    assert [(str(problem.place), problem.message, problem.hint) for problem in document.problems] == [
        ("w.yaml:4:3", "duplicate key `c`", "the first one is on line 3"),
        ("w.yaml:5:1", "duplicate key `a`", "the first one is on line 1"),
    ]
    assert scalar("a: 1\na: 3\n", "a").value == "1"


def test_what_is_not_yaml_is_refused_at_its_place() -> None:
    for source, place, message in [
        ("a: 'x\nb: 2\n", "1:4", "quote is never closed"),
        ('a: "x\nb: 2\n', "1:4", "quote is never closed"),
        ("a:\n\tb: 1\n", "2:1", "tab"),
        ("a: b: c\n", "1:5", "`: ` is not allowed"),
        ("a: {{ q }}\n", "1:5", "a value with `{{` needs quotes"),
        ("a: @x\n", "1:4", "cannot begin a value"),
        ("a: [1, 2\nb: 3\n", "1:4", "missing in this list"),
        ("a: {b: c\n", "1:4", "missing in this mapping"),
        ("- a\n", "1:1", "a workload must be a mapping, not a list"),
        ("text\n", "1:1", "a workload must be a mapping, not a single value"),
        ("# only a comment\n", "1", "is empty"),
        ("a: 1\n---\nb: 2\n", "2:1", "several documents"),
        ("a: *q\n", "1:4", "no anchor `&q`"),
        ("a: &a [*a]\n", "1:8", "inside its own anchor"),
        ("a: !!python/object/apply:os.system [ls]\n", "1:4", "tags"),
        ("a: x\x1b[0m\n", "1:5", "control character U+001B"),
        ("? [a]\n: b\n", "1:3", "a key must be a simple word"),
        ('a: "\\q"\n', "1:6", "unknown escape"),
        ("a: 1\n b: 2\n", "2:3", "not allowed here"),
        ("%YAML 9.0\n---\na: b\n", "1:1", "not valid YAML"),
    ]:
        error = refused(source)
        assert str(error.place) == f"w.yaml:{place}"
        assert message in error.message
        if error.place is not None and error.place.column is not None:
            assert error.place.excerpt == source.split("\n")[(error.place.line or 1) - 1]


def test_a_bare_template_gets_a_hint_to_quote_it() -> None:
    assert "quotes" in str(refused("a: {{ q }} and more\n").hint)
    assert "quotes" in str(refused("a: {% if x %}y\n").hint)


def test_a_bomb_of_aliases_is_refused() -> None:
    source = "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
    for level in range(9):
        name, inner = chr(ord("b") + level), chr(ord("a") + level)
        source += f"{name}: &{name} [{','.join([f'*{inner}'] * 10)}]\n"
    assert "more than 100,000 values" in refused(source).message


def test_a_bomb_of_long_texts_is_refused() -> None:
    source = f"a: &a {'x' * 100_000}\nb: [{','.join(['*a'] * 1000)}]\n"
    assert "characters" in refused(source).message


def test_deep_nesting_is_refused() -> None:
    for source in [
        "a: " + "[" * 100_000,
        "a: " + "{a: " * 1000,
        "a: &a " + "[" * 30 + "]" * 30 + "\nb: " + "[" * 30 + "*a",
    ]:
        assert f"deeper than {MAX_DEPTH}" in refused(source).message


@given(st.text(st.sampled_from("ab:-[]{}'\"|>&*!%#?, \n\t\\~1.é\x85"), max_size=60))
def test_any_text_is_a_tree_or_one_kvtool_error(source: str) -> None:
    """Never another exception; and every scalar that claims to be verbatim stands where it says."""
    try:
        document = parse_yaml(source, "w.yaml")
    except KvtoolError as error:
        place = error.place
        document = None
    if document is None:
        assert place is not None
        return
    lines = source.split("\n")
    for text in scalars(document.root):
        for index, character in enumerate(text):
            origin, offset = text.at(index)
            assert origin is not None
            line, column = origin.position(offset)
            assert 1 <= line <= len(lines) + 1
            if origin.verbatim and character != "\n":
                assert lines[line - 1][column - 1] == character


def scalars(node: YamlNode) -> list[Traced]:
    if isinstance(node, Scalar):
        return [node.text]
    children = (
        node.items if isinstance(node, Sequence) else list(node.values.values()) if isinstance(node, Mapping) else []
    )
    return [text for child in children for text in scalars(child)]
