"""What a workload file yields: prompts with their origins, variables, sessions, arrivals, generated and imported requests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvtool.errors import KvtoolError
from kvtool.gate.collect import workload_demands
from kvtool.text.traced import Origin, Traced
from kvtool.workload.turn import Output, Turn
from kvtool.workload.yaml.groups import HIGHEST_ID, LOWEST_ID
from kvtool.workload.yaml.sessions import Interleaved
from kvtool.workload.yaml.yaml_source import YamlSource, load_yaml_workload

Answer = Callable[[Turn], str]


def load(folder: Path, source: str, seed: int | None = None) -> YamlSource:
    path = folder / "w.yaml"
    path.write_text(source, encoding="utf-8", newline="")
    return load_yaml_workload(str(path), seed=seed)


def group(lines: str, top: str = "") -> str:
    return f"version: 1\n{top}groups:\n- name: g\n" + "".join(f"  {line}\n" for line in lines.splitlines())


def turns(source: YamlSource, answer: Answer = lambda turn: f"answer {turn.id}") -> Iterator[Turn]:
    """All turns, each conversation run to its end before the next begins."""
    for conversation in source.conversations():
        previous: Output | None = None
        while (turn := conversation.next_turn(previous)) is not None:
            yield turn
            previous = Output(answer(turn))


def texts(source: YamlSource) -> list[str]:
    return [str(turn.text) for turn in turns(source)]


def contents(turn: Turn) -> list[str]:
    assert turn.messages is not None
    return [message["content"] for message in turn.messages]


def shape(turn: Turn) -> tuple[object, ...]:
    ids = None if turn.token_ids is None else turn.token_ids.tolist()
    text = None if turn.text is None else (str(turn.text), turn.text.marks)
    messages = [(message["role"], message["content"], message["content"].marks) for message in turn.messages or []]
    return (
        turn.id,
        turn.session,
        turn.index,
        turn.salt,
        turn.arrival,
        turn.output_tokens,
        turn.output_text,
        ids,
        text,
        messages,
    )


EVERYTHING = """version: 1
seed: 3
vars:
  now: {datetime: 30s}
  id: {uuid: 4}
  n: {counter: 5, step: 2}
  c: {choice: [red, green, blue]}
  w: {choice: [a, b], weights: [9, 1], per: session}
  r: {range: [1, 1000], per: session}
groups:
- name: chat
  tenant: "t{{ n }}"
  messages:
  - {role: system, text: "You are {{ w }}{{ r }}.", stable: true}
  - {role: user, name: bob, text: "{{ c }} {{ id }} {{ now }}"}
  sessions: {count: 3, turns: 3, output_tokens: 7}
- name: docs
  requests: 6
  segments:
  - {id: rules, text: Be brief.}
  - {id: doc, glob: "*.txt", pick: {zipf: 1.2}}
  - {glob: "*.txt", pick: random}
- name: made
  generate: {prefixes: 3, per_prefix: 2, prefix_tokens: 20, suffix_tokens: 5}
"""


def with_docs(folder: Path) -> Path:
    for name in ("one", "two", "three"):
        (folder / f"{name}.txt").write_text(f"text of {name}")
    return folder


@pytest.mark.parametrize("more", ["requests: 1", "sessions: {count: 1, turns: 1}"])
def test_cache_control_is_on_the_message_and_in_the_call(tmp_path: Path, more: str) -> None:
    for whole, said in (
        ("", (None, None)),
        (", cache_control: none", (None, "marks")),
        (", cache_control: automatic", ("5m", None)),
    ):
        text = (
            f"version: 1\ngroups: [{{name: g, {more}{whole}, messages: [{{role: system, text: a, cache_control: 1h}}, "
            "{role: user, text: b}]}]"
        )
        (turn,) = turns(load(tmp_path, text))
        settings = turn.call.settings
        assert (settings.cache_ttl, settings.cache_mode) == said
        marks = [message.get("cache_control") for message in turn.messages or []]
        assert marks == [{"type": "ephemeral", "ttl": "1h"}, None]


def test_two_passes_and_two_loads_yield_the_same_and_another_seed_does_not(tmp_path: Path) -> None:
    first = load(with_docs(tmp_path), EVERYTHING)
    once = [shape(turn) for turn in turns(first)]
    assert once == [shape(turn) for turn in turns(first)]
    assert once == [shape(turn) for turn in turns(load(tmp_path, EVERYTHING))]
    assert len(once) == first.requests == 9 + 6 + 6
    other = load(tmp_path, EVERYTHING, seed=4)
    assert (first.seed, other.seed) == (3, 4)
    assert [shape(turn) for turn in turns(other)] != once


def test_a_group_yields_the_same_alone_as_among_others(tmp_path: Path) -> None:
    source = load(with_docs(tmp_path), EVERYTHING)
    alone = [shape(turn) for turn in turns(source.select(["docs"]))]
    assert alone == [shape(turn) for turn in turns(source) if turn.group == "docs"]
    with pytest.raises(KvtoolError, match="has no group `dosc`") as caught:
        source.select(["dosc"])
    assert caught.value.hint == "did you mean `docs`?"


def test_messages_become_a_chat_with_roles_names_salt_and_origins(tmp_path: Path) -> None:
    (tmp_path / "sys.md").write_text("line one\nline {{ n }} two\n")
    source = load(
        tmp_path,
        group(
            "tenant: acme-{{ n }}\nmessages:\n- {role: system, file: sys.md, stable: true}\n"
            '- {role: user, name: bob, text: "ask {{ n }}", volatile: true}',
            "vars: {n: {counter: 5}}\n",
        ),
    )
    (turn,) = turns(source)
    assert (turn.salt, turn.output_tokens, turn.arrival, turn.id, turn.session) == ("acme-5", 1, None, "g/0", None)
    assert turn.messages == [
        {"role": "system", "content": "line one\nline 5 two\n"},
        {"role": "user", "content": "ask 5", "name": "bob"},
    ]
    system, user = (message["content"] for message in turn.messages or [])
    origin, offset = system.at(system.index("two"))
    assert (origin.path, origin.position(offset)) == (str(tmp_path / "sys.md"), (2, 14))
    assert (origin.part, origin.stable, origin.verbatim) == ("messages[0] (system)", True, True)
    origin, _ = system.at(system.index("5"))
    assert (origin.variable, origin.part, origin.line) == ("n", "messages[0] (system)", 2)
    origin, offset = user.at(0)
    assert (origin.path, origin.position(offset), origin.stable) == (source.path, (8, 36), False)


def test_segments_are_joined_and_keep_their_ids(tmp_path: Path) -> None:
    (default,) = turns(load(tmp_path, group("segments: [{id: a, text: one}, {text: two}]")))
    assert default.text == "one\ntwo"
    (turn,) = turns(
        load(tmp_path, group('segments: [{id: a, text: one}, {text: two}, {id: c, text: ""}]\njoin: " + "'))
    )
    assert turn.text == "one + two + "
    assert [origin and origin.part for origin in (turn.text.at(0)[0], turn.text.at(6)[0])] == ["a", "segments[1]"]


def test_raw_text_is_no_template_and_file_text_is_untouched(tmp_path: Path) -> None:
    (tmp_path / "p.txt").write_bytes("\ufeffa{{ b }}\r\n\x1b[0m [/INST]\n".encode())
    (turn,) = turns(load(tmp_path, group("file: p.txt\nraw: true")))
    assert turn.text == "a{{ b }}\r\n\x1b[0m [/INST]\n"
    origin, offset = turn.text.at(turn.text.index("INST"))
    assert origin is not None
    assert origin.position(offset) == (2, 8)


def test_a_static_text_is_the_same_object_in_every_request(tmp_path: Path) -> None:
    found = [turn.messages for turn in turns(load(tmp_path, group("messages: [{role: user, text: hi}]\nrequests: 3")))]
    assert len({id(messages[0]["content"]) for messages in found if messages}) == 1


def test_a_glob_is_one_request_per_file_in_order_and_cycles(tmp_path: Path) -> None:
    with_docs(tmp_path)
    assert texts(load(tmp_path, group('glob: "*.txt"'))) == ["text of one", "text of three", "text of two"]
    assert texts(load(tmp_path, group('glob: "*.txt"\nrequests: 4')))[3] == "text of one"


def test_one_request_sees_one_value_of_a_variable(tmp_path: Path) -> None:
    top = "vars: {u: {uuid: hex}, c: {counter: 1}, r: {range: [1, 1000000]}}\n"
    for text in texts(
        load(tmp_path, group('requests: 5\ntext: "{{ u }} {{ c }} {{ r }} {{ u }} {{ c }} {{ r }}"', top))
    ):
        words = text.split()
        assert words[:3] == words[3:]
        assert len(words[0]) == 32


def test_variables(tmp_path: Path) -> None:
    for variable, expected in [
        ("{datetime: 1m}", ["2026-01-05T09:00:00Z", "2026-01-05T09:01:00Z", "2026-01-05T09:02:00Z"]),
        ("{datetime: 250ms}", ["2026-01-05T09:00:00.000Z", "2026-01-05T09:00:00.250Z", "2026-01-05T09:00:00.500Z"]),
        ("{datetime: 1d, format: date, start: '2024-02-28'}", ["2024-02-28", "2024-02-29", "2024-03-01"]),
        ("{datetime: 1h, format: time, start: '2024-02-28T23:30:00+02:00'}", ["23:30:00", "00:30:00", "01:30:00"]),
        ("{datetime: 1s, format: unix}", ["1767603600", "1767603601", "1767603602"]),
        ("{datetime: 1d, format: '%d.%m.%Y'}", ["05.01.2026", "06.01.2026", "07.01.2026"]),
        ("{counter: 10, step: -3}", ["10", "7", "4"]),
        ("{counter: 7, format: 'no. {} of all'}", ["no. 7 of all", "no. 8 of all", "no. 9 of all"]),
        ("{choice: [a, b], pick: cycle}", ["a", "b", "a"]),
        ("{file: lines.text}", ["first", " second", "first"]),
        ("{file: q.jsonl, key: q}", ["one", '{"two": 2}', "one"]),
        ("{range: [3, 4], pick: cycle}", ["3", "4", "3"]),
        ("{text: '{{ x }}'}", ["{{ x }}"] * 3),
        ("1.10", ["1.10"] * 3),
        ("12:30:45", ["12:30:45"] * 3),
        ("{counter: 1, per: workload}", ["1"] * 3),
    ]:
        (tmp_path / "lines.text").write_text("first\r\n\n second\n", newline="")
        (tmp_path / "q.jsonl").write_text('{"q": "one"}\n\n{"q": {"two": 2}}\n')
        assert texts(load(tmp_path, group('text: "{{ v }}"\nrequests: 3', f"vars: {{v: {variable}}}\n"))) == expected


def test_uuids_are_version_four_and_differ_between_requests_and_groups(tmp_path: Path) -> None:
    source = load(
        tmp_path,
        "version: 1\nvars: {u: {uuid: 4}}\ngroups:\n"
        "- {name: a, requests: 9, text: '{{ u }}'}\n- {name: b, requests: 9, text: '{{ u }}'}\n",
    )
    found = texts(source)
    assert len(set(found)) == 18
    assert {(text[14], text[19] in "89ab", len(text)) for text in found} == {("4", True, 36)}


def test_a_variable_of_the_group_overrides_and_counts_in_the_group(tmp_path: Path) -> None:
    source = load(
        tmp_path,
        "version: 1\nvars: {n: {counter: 0}}\ngroups:\n- {name: a, requests: 2, text: '{{ n }}'}\n"
        "- {name: b, requests: 2, text: '{{ n }}'}\n- {name: c, requests: 2, text: '{{ n }}', vars: {n: {counter: 0}}}\n",
    )
    assert texts(source) == ["0", "1", "2", "3", "0", "1"]


def test_sessions_are_counted_through_the_workload(tmp_path: Path) -> None:
    chat = "messages: [{role: user, text: '{{ s }}'}], sessions: {count: 2, turns: 2, order: sequential}"
    source = load(
        tmp_path,
        "version: 1\nvars: {s: {counter: 0, per: session}}\n"
        f"groups: [{{name: a, text: x}}, {{name: b, {chat}}}, {{name: c, {chat}}}]\n",
    )
    asked = [contents(turn)[-1] for turn in turns(source) if turn.messages]
    assert asked == ["1", "1", "2", "2", "3", "3", "4", "4"]


def test_weights_and_zipf_shape_what_is_picked(tmp_path: Path) -> None:
    top = "vars: {w: {choice: [a, b, never], weights: [3, 1, 0]}, z: {range: [1, 50], pick: {zipf: 1.0}}}\n"
    found = [text.split() for text in texts(load(tmp_path, group('text: "{{ w }} {{ z }}"\nrequests: 2000', top)))]
    weights = Counter(word for word, _ in found)
    ranks = Counter(int(rank) for _, rank in found)
    assert set(weights) == {"a", "b"}
    assert 0.7 < weights["a"] / 2000 < 0.8
    assert 0.18 < ranks[1] / 2000 < 0.27  # 1 / (1 + 1/2 + … + 1/50) = 0.222
    assert min(ranks) == 1
    assert 30 < max(ranks) <= 50


def test_sessions_interleave_by_default_and_keep_their_own_history(tmp_path: Path) -> None:
    lines = "messages:\n- {role: system, text: S}\n- {role: user, text: 'q{{ n }}'}\nsessions: {count: 2, turns: 2%s}"
    top = "vars: {n: {counter: 0}}\n"
    found = list(turns(load(tmp_path, group(lines % "", top))))
    assert [turn.id for turn in found] == ["g/0.0", "g/1.0", "g/0.1", "g/1.1"]
    assert contents(found[3]) == ["S", "q1", "answer g/1.0", "q3"]
    assert [message["role"] for message in found[3].messages or []] == ["system", "user", "assistant", "user"]
    assert [(turn.session, turn.index, turn.output_tokens) for turn in found[1:3]] == [("g/1", 0, 64), ("g/0", 1, 64)]
    one_by_one = list(turns(load(tmp_path, group(lines % ", order: sequential", top))))
    assert [turn.id for turn in one_by_one] == ["g/0.0", "g/0.1", "g/1.0", "g/1.1"]
    assert contents(one_by_one[3]) == ["S", "q2", "answer g/1.0", "q3"]


def test_an_interleaved_group_can_be_taken_apart(tmp_path: Path) -> None:
    source = load(tmp_path, group("messages: [{role: user, text: q}]\nsessions: {count: 3, turns: 1}"))
    (conversation,) = source.conversations()
    assert isinstance(conversation, Interleaved)
    asked = [member.next_turn(None) for member in conversation.members]
    assert [turn and turn.session for turn in asked] == ["g/0", "g/1", "g/2"]


def test_in_a_session_only_session_variables_and_picks_stay(tmp_path: Path) -> None:
    with_docs(tmp_path)
    lines = (
        'messages:\n- {role: system, glob: "*.txt"}\n- {role: system, text: "{{ s }}/{{ n }}"}\n- {role: user, text: "{{ n }}"}\n'
        "sessions: {count: 2, turns: 2, order: sequential}"
    )
    top = "vars: {n: {counter: 0}, s: {counter: 0, per: session}}\n"
    found = list(turns(load(tmp_path, group(lines, top))))
    assert [contents(turn)[:2] for turn in found] == [
        ["text of one", "0/0"],
        ["text of one", "0/1"],
        ["text of three", "1/2"],
        ["text of three", "1/3"],
    ]


@given(
    count=st.integers(1, 4),
    length=st.integers(1, 5),
    order=st.sampled_from(["interleaved", "sequential"]),
    answers=st.lists(st.text(max_size=5), min_size=20, max_size=20),
)
def test_a_session_grows_by_exactly_the_answers_given(
    tmp_path_factory: pytest.TempPathFactory, count: int, length: int, order: str, answers: list[str]
) -> None:
    source = load(
        tmp_path_factory.mktemp("grow"),
        group(
            "messages: [{role: system, text: S}, {role: user, text: 'q {{ n }}'}]\n"
            f"sessions: {{count: {count}, turns: {length}, order: {order}}}",
            "vars: {n: {counter: 0}}\n",
        ),
    )
    numbered = {
        f"g/{session}.{turn}": answers[session * 5 + turn] for session in range(count) for turn in range(length)
    }
    prompts: dict[str, Turn] = {turn.id: turn for turn in turns(source, lambda turn: numbered[turn.id])}
    assert prompts.keys() == numbered.keys()
    for name, turn in prompts.items():
        session, index = name.split(".")
        assert len(turn.messages or []) == 2 + 2 * int(index)
        if int(index):
            before = prompts[f"{session}.{int(index) - 1}"]
            given_answer = numbered[before.id]
            assert (turn.messages or [])[:-1] == [
                *(before.messages or []),
                {"role": "assistant", "content": given_answer},
            ]
            content = (turn.messages or [])[-2]["content"]
            assert isinstance(content, Traced)
            if content:
                origin = content.at(0)[0]
                assert isinstance(origin, Origin)
                assert (origin.part, origin.line) == (f"answer {index}", 6)


def test_a_known_output_replaces_the_number_of_tokens(tmp_path: Path) -> None:
    (plain,) = turns(load(tmp_path, group("text: a\noutput: 'yes {{ 1 + 1 }}'")))
    assert (plain.output_text, plain.output_tokens) == ("yes 2", None)
    (counted,) = turns(load(tmp_path, group("text: a\noutput_tokens: 9")))
    assert (counted.output_text, counted.output_tokens) == (None, 9)


@pytest.mark.parametrize(
    ("arrival", "expected"),
    [
        ("{process: uniform, rate: 2/s, start: 1s}", [1.0, 1.5, 2.0, 2.5]),
        ("{process: burst, rate: 2/s, burst: 2}", [0.0, 0.0, 1.0, 1.0]),
    ],
)
def test_regular_arrivals(tmp_path: Path, arrival: str, expected: list[float]) -> None:
    source = load(tmp_path, group(f"text: a\nrequests: 4\narrival: {arrival}"))
    assert source.timed
    assert [turn.arrival for turn in turns(source)] == expected


def test_poisson_arrivals_have_the_rate_and_the_spread_of_a_poisson_process(tmp_path: Path) -> None:
    times = [
        turn.arrival or 0
        for turn in turns(load(tmp_path, group("text: a\nrequests: 4000\narrival: {process: poisson, rate: 8/s}")))
    ]
    gaps = np.diff([0.0, *times])
    assert (gaps >= 0).all()
    assert 0.94 / 8 < gaps.mean() < 1.06 / 8
    assert 0.9 < gaps.std() / gaps.mean() < 1.1


def test_groups_with_arrivals_are_merged_in_time_and_others_come_at_zero(tmp_path: Path) -> None:
    source = load(
        tmp_path,
        "version: 1\ngroups:\n- {name: slow, requests: 3, text: a, arrival: {process: uniform, rate: 1/s, start: 500ms}}\n"
        "- {name: fast, requests: 3, text: a, arrival: {process: uniform, rate: 2/s}}\n- {name: now, text: a}\n",
    )
    assert [(turn.group, turn.arrival) for turn in turns(source)] == [
        ("fast", 0.0),
        ("now", 0.0),
        ("slow", 0.5),
        ("fast", 0.5),
        ("fast", 1.0),
        ("slow", 1.5),
        ("slow", 2.5),
    ]


def test_think_time_spaces_the_turns_of_a_session(tmp_path: Path) -> None:
    lines = "messages: [{role: user, text: a}]\nsessions: {count: 2, turns: 2, think: 5s%s}"
    found = {turn.id: turn.arrival for turn in turns(load(tmp_path, group(lines % "")))}
    assert found == {"g/0.0": 0, "g/0.1": 5, "g/1.0": 0, "g/1.1": 5}
    found = {turn.id: turn.arrival for turn in turns(load(tmp_path, group(lines % ", order: sequential")))}
    assert found == {"g/0.0": 0, "g/0.1": 5, "g/1.0": 10, "g/1.1": 15}
    found = {
        turn.id: turn.arrival
        for turn in turns(load(tmp_path, group(lines % "" + "\narrival: {process: uniform, rate: 1/s}")))
    }
    assert found == {"g/0.0": 0, "g/0.1": 5, "g/1.0": 1, "g/1.1": 6}


@settings(deadline=None, max_examples=20)
@given(
    st.integers(1, 4),
    st.integers(1, 4),
    st.integers(0, 40),
    st.integers(1, 40),
    st.sampled_from(["interleaved", "sequential"]),
)
def test_generated_prompts_share_exactly_their_prefix(
    tmp_path_factory: pytest.TempPathFactory, prefixes: int, per_prefix: int, prefix: int, suffix: int, order: str
) -> None:
    source = load(
        tmp_path_factory.mktemp("made"),
        group(
            f"generate: {{prefixes: {prefixes}, per_prefix: {per_prefix}, prefix_tokens: {prefix}, "
            f"suffix_tokens: {suffix}, order: {order}}}"
        ),
    )
    found = [turn.token_ids for turn in turns(source)]
    assert len(found) == prefixes * per_prefix == source.requests
    for number, ids in enumerate(found):
        assert ids is not None
        assert (ids.dtype, len(ids)) == (np.int32, prefix + suffix)
        assert ((ids >= LOWEST_ID) & (ids <= HIGHEST_ID)).all()
        mate = found[number % prefixes if order == "interleaved" else number // per_prefix * per_prefix]
        assert mate is not None
        assert ids[:prefix].tolist() == mate[:prefix].tolist()
    if prefix >= 8:
        assert len({tuple(ids[:prefix].tolist()) for ids in found if ids is not None}) == prefixes
    if suffix >= 8:
        assert len({tuple(ids[prefix:].tolist()) for ids in found if ids is not None}) == len(found)


def test_imports_read_logs_in_the_group_with_its_tenant_and_limit(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.jsonl").write_text('{"prompt": "hello"}\nnot json\n{"prompt": "again"}\n')
    lines = 'import: {jsonl: "*.jsonl", on_bad_line: %s, limit: 3}\ntenant: acme'
    source = load(tmp_path, group(lines % "skip"))
    assert source.requests is None
    assert [(turn.group, turn.salt, turn.text) for turn in turns(source)] == [
        ("g", "acme", "hello"),
        ("g", "acme", "again"),
        ("g", "acme", "hello"),
    ]
    with pytest.raises(KvtoolError) as caught:
        list(turns(load(tmp_path, group(lines % "error"))))
    assert str(caught.value.place).startswith(f"{tmp_path / 'a.jsonl'}:2")
    with pytest.raises(KvtoolError, match="no such file") as caught:
        load(tmp_path, group("import: {mooncake: trace.jsonl}"))
    assert str(caught.value.place).endswith("w.yaml:4:22")
    with pytest.raises(KvtoolError, match="unknown log format `promt`") as caught:
        load(tmp_path, group("import: {jsonl: a.jsonl, format: promt}"))
    assert str(caught.value.place).endswith("w.yaml:4:36")


def test_tools_come_from_the_group_the_workload_or_a_file(tmp_path: Path) -> None:
    (tmp_path / "tools.json").write_text('{"tools": [{"type": "function", "function": {"name": "file"}}]}')
    source = load(
        tmp_path,
        "version: 1\ntools: [{type: function, function: {name: top, strict: true, n: 1.5, none: null}}]\ngroups:\n"
        "- {name: a, messages: [{role: user, text: x}]}\n"
        "- {name: b, messages: [{role: user, text: x}], tools: {file: tools.json}}\n"
        "- {name: c, text: x}\n",
    )
    found = [turn.tools for turn in turns(source)]
    assert found == [
        [{"type": "function", "function": {"name": "top", "strict": True, "n": 1.5, "none": None}}],
        [{"type": "function", "function": {"name": "file"}}],
        None,
    ]


def test_limit_gates_and_engine(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text("{}")
    source = load(
        tmp_path,
        group(
            "text: a\nrequests: 100\nlimit: 2\ngate: {hit_rate: 80%}",
            "engine: {tokenizer: t.json, model: org/name, block_size: 32}\n",
        ),
    )
    assert (source.requests, len(texts(source))) == (2, 2)
    (demand,) = workload_demands(source)
    assert (demand.group, demand.kind, demand.limit) == ("g", "hit_rate", 0.8)
    assert (source.engine.tokenizer, source.engine.model) == (str(tmp_path / "t.json"), "org/name")
    assert (source.engine.block_size, source.engine.capacity) == (32, None)


def test_a_large_workload_is_made_lazily(tmp_path: Path) -> None:
    source = load(
        tmp_path,
        "version: 1\nvars: {n: {counter: 0}}\ngroups:\n- {name: a, requests: 1000000000, text: '{{ n }}'}\n"
        "- {name: b, generate: {prefixes: 100000, per_prefix: 10000, prefix_tokens: 9, suffix_tokens: 9}}\n",
    )
    assert source.requests == 2_000_000_000
    assert [conversation.next_turn(None) is not None for conversation in islice(source.conversations(), 3)] == [
        True
    ] * 3
    assert next(turns(source.select(["b"]))).token_ids is not None


def test_the_order_in_which_conversations_are_asked_changes_nothing(tmp_path: Path) -> None:
    source = load(
        tmp_path,
        group(
            "text: '{{ u }} {{ c }} {{ t }}'\nrequests: 5",
            "vars: {u: {uuid: 4}, c: {choice: [a, b, c]}, t: {datetime: 1m}}\n",
        ),
    )
    backwards = [conversation.next_turn(None) for conversation in reversed(list(source.conversations()))]
    assert [str(turn.text) for turn in reversed(backwards) if turn] == texts(source)


@given(
    lines=st.lists(st.text(st.sampled_from("ab é{}\t"), max_size=10), min_size=1, max_size=5),
    indent=st.integers(1, 6),
    data=st.data(),
)
def test_prompt_text_leads_back_to_its_line_and_column(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], indent: int, data: st.DataObject
) -> None:
    """Also behind a variable: each character of a rendered block scalar is the one at the place that its origin names."""
    lines = [line.replace("{{", "{ {").replace("{", "{ ").rstrip() for line in lines]
    body = "".join(" " * (4 + indent) + line + "\n" for line in ["{{ x }} start", *lines])
    text = (
        f"version: 1\nvars: {{x: value}}\ngroups:\n- name: g\n  messages:\n  - role: user\n    text: |{indent}\n{body}"
    )
    source = load(tmp_path_factory.mktemp("place"), text)
    (turn,) = turns(source)
    content = (turn.messages or [])[0]["content"]
    assert content.startswith("value start\n")
    index = data.draw(st.integers(0, len(content) - 1))
    origin, offset = content.at(index)
    assert (origin.path, origin.part) == (source.path, "messages[0] (user)")
    line, column = origin.position(offset)
    if index < len("value"):
        assert (origin.variable, line) == ("x", 8)
        return
    assert (text.split("\n")[line - 1] + "\n")[column - 1] == content[index]
