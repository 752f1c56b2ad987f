"""Findings of one line in several groups are told together, and none is lost."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kvtool.results.finding import Finding, LoggedPlace
from kvtool.results.shared_line import by_line, claim_of
from tests.made_results import finding

_FINDINGS = st.lists(
    st.builds(
        lambda code, group, line, values, fix, logged, template: finding(
            code,
            group=group,
            line=line,
            message=f"the time stops reuse. It has {values} values",
            fix=fix,
            logged=LoggedPlace(record=line, part="prompt", content=None, line=3, template=template)
            if logged and line
            else None,
        ),
        st.sampled_from(["KV101", "KV201"]),
        st.sampled_from(["a", "b", "c", ""]),
        st.integers(0, 2),
        st.integers(2, 9),
        st.sampled_from(["move it", "remove it"]),
        st.booleans(),
        st.integers(0, 2),
    ),
    max_size=12,
)


@given(_FINDINGS)
def test_each_finding_is_told_once_and_a_group_once_beside_a_line(findings: list[Finding]) -> None:
    lines = by_line(findings)
    assert sorted(map(id, findings)) == sorted(id(each) for line in lines for each in line)
    for line in lines:
        assert len({each.group for each in line}) == len(line)
        assert len({(each.code, each.fix, claim_of(each), each.logged is None) for each in line}) == 1
        if line[0].logged is None:
            assert len({each.line for each in line}) == 1
        else:
            assert len({each.logged and each.logged.template for each in line}) == 1
            assert line[0].logged.template or not line[1:], "texts that were not compared may differ"
    first = [next(at for at, each in enumerate(findings) if each is line[0]) for line in lines]
    assert first == sorted(first), "the costliest line stays first"


def test_records_of_a_log_are_told_together_by_the_place_inside_them() -> None:
    def at(record: int, template: int) -> LoggedPlace:
        return LoggedPlace(record=record, part="messages[0] (system)", content=None, line=1, template=template)

    groups = [finding(group=name, line=record, logged=at(record, 1)) for record, name in enumerate("abc", 1)]
    assert by_line(groups) == [groups]
    other = finding(group="d", line=4, logged=at(4, 2))
    assert by_line([*groups, other]) == [groups, [other]], "the same place has other text"
