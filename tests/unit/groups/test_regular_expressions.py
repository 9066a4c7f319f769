"""Expressions against what re2j 1.8 says, which is what Kafka 4.3 uses, and against their own limits.

tests/data/re2j-1.8/verdicts.txt: first line the names; then in each line a pattern and the names that it matches, or
the word "refused". Two oddities of re2j that RE2 does not have are left out: it refuses a repeat of a plain brace
(`{*`), and `(?i)\\p{^Ll}` takes capital letters.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.groups.regular_expressions import InvalidExpression, compile_expression
from barnabas.groups.regular_expressions.automaton import STATES_MAX

VERDICTS = Path(__file__).resolve().parents[2] / "data" / "re2j-1.8" / "verdicts.txt"


def verdict(pattern: str, names: list[str]) -> list[str]:
    try:
        expression = compile_expression(pattern)
    except InvalidExpression:
        return ["refused"]
    return [name for name in names if expression.matches(name)]


def test_verdicts_are_those_of_re2j() -> None:
    lines = VERDICTS.read_text(encoding="utf-8").splitlines()
    names = lines[0].split("\t")[1:]
    recorded = {pattern: found for pattern, *found in (line.split("\t") for line in lines[1:])}
    assert len(recorded) > 700
    assert {pattern: verdict(pattern, names) for pattern in recorded} == recorded


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        (r"(a)\1", "this escape is not known: '\\\\1'"),
        ("(?=a)", "this kind of group is not known: '(?='"),
        ("(?<!a)", "a group has no valid name"),
        ("a**", "a repeat follows upon another"),
        ("*", "there is nothing to repeat"),
        ("a{2,1}", "a repeat has no valid size: '{2,1}'"),
        ("[a", "a closing bracket is missing"),
        ("(a", "a closing parenthesis is missing"),
        ("a)", "never opened"),
        ("[b-a]", "a range ends before it begins: 'b-a'"),
        (r"\p{Klingon}", "there is no such class: '\\\\p{Klingon}'"),
        ("a\\", "the pattern ends in a backslash"),
    ],
)
def test_a_refusal_says_why(pattern: str, reason: str) -> None:
    with pytest.raises(InvalidExpression) as refusal:
        compile_expression(pattern)
    assert reason in str(refusal.value)


@pytest.mark.parametrize(
    "pattern", ["(a{1000}){1000}", "((a{100}){100}){100}", "a" * 5000, "(" * 300 + "a*" + "b)*" * 300]
)
def test_a_pattern_may_not_cost_too_much(pattern: str) -> None:
    with pytest.raises(InvalidExpression, match=r"too large|too deep"):
        compile_expression(pattern)


def test_many_parentheses_cost_nothing() -> None:
    assert compile_expression("(" * 10_000 + "a" + ")" * 10_000).matches("a")


@pytest.mark.parametrize(
    "pattern", ["(a*)*b", "(a|a)*b", "(a+)+b", "(.*)*x", "((a?){20}a{20}){10}", "(a{0,20}){0,50}b"]
)
def test_work_is_linear_in_the_name_whatever_the_pattern(pattern: str) -> None:
    """`re` would take longer than the universe has been there for most of these."""
    expression = compile_expression(pattern)
    size = len(expression._program.instructions)
    assert not expression.matches("a" * 249 + "c")
    assert expression.work <= 251 * size


def test_states_are_forgotten_before_they_are_too_many() -> None:
    expression = compile_expression("[ab]*a[ab]{60}")  # as a table it would have 2**61 states
    names = [f"{number:060b}".replace("0", "a").replace("1", "b") for number in range(0, 10**9, 10**7 + 3)]
    assert [expression.matches("a" + name) for name in names] == [True] * len(names)
    assert [expression.matches("b" + name) for name in names] == [False] * len(names)
    assert len(expression._states) <= STATES_MAX


PLAIN = st.recursive(
    st.sampled_from(["a", "b", "-", r"\.", "_", "[ab]", "[^a]", r"\d", r"\w", ".", "^", "$", r"\b", r"\B", "7"]),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda pair: f"({pair[0]}|{pair[1]})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,2}", "{0,1}", "{2,}"])).map(
            lambda pair: f"(?:{pair[0]}){pair[1]}"
        ),
        inner.map(lambda each: f"(?i:{each})"),
    ),
    max_leaves=8,
)


@given(pattern=PLAIN, names=st.lists(st.text("abAB.-_7", min_size=1, max_size=6), min_size=1, max_size=8))
def test_where_both_languages_agree_so_do_re_and_this(pattern: str, names: list[str]) -> None:
    expected = [name for name in names if re.fullmatch(pattern, name, re.ASCII)]
    assert verdict(pattern, names) == expected


# Without the two characters about which the languages differ: a dot stops at one, and the other is space in `re` only.
ASCII = [chr(number) for number in range(128) if chr(number) not in "\n\v"]


@pytest.mark.parametrize("pattern", [".*", r"\S+", r"\W*", "[^a]*", "[ -~]+", "[:/]*", r"(?i)[A-Z:]*"])
def test_transactional_ids_have_characters_that_topics_do_not(pattern: str) -> None:
    """ListTransactions matches them too."""
    names = ["a:b", "sink/7:t", "x y", "größe@host", "tab\there", *ASCII]
    plain = [name for name in names if name.isascii()]
    assert verdict(pattern, plain) == [name for name in plain if re.fullmatch(pattern, name, re.ASCII)]


@pytest.mark.parametrize(
    "name", ["alnum", "alpha", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space"]
)
def test_named_classes_over_all_of_ascii(name: str) -> None:
    expected = {
        "alnum": str.isalnum,
        "alpha": str.isalpha,
        "blank": lambda each: each in " \t",
        "cntrl": lambda each: not each.isprintable(),
        "digit": str.isdigit,
        "graph": lambda each: each.isprintable() and each != " ",
        "lower": str.islower,
        "print": str.isprintable,
        "punct": lambda each: each.isprintable() and not each.isalnum() and each != " ",
        "space": lambda each: each in "\t\v\f\r ",
    }[name]
    assert verdict(f"[[:{name}:]]", ASCII) == [each for each in ASCII if expected(each)]


def test_categories_over_all_of_ascii() -> None:
    import unicodedata

    for category in (
        "L",
        "Lu",
        "N",
        "P",
        "Pc",
        "Pd",
        "Ps",
        "Pe",
        "Po",
        "S",
        "Sc",
        "Sk",
        "Sm",
        "So",
        "Z",
        "Zs",
        "C",
        "Cc",
    ):
        expected = [each for each in ASCII if unicodedata.category(each).startswith(category)]
        assert verdict(rf"\p{{{category}}}", ASCII) == expected, category


# What Kafka 4.3.1 answers for other ids and patterns is recorded in compat/answers/recorded.
@pytest.mark.parametrize(
    ("pattern", "name", "matches"),
    [
        ("(?i)[α-ω]+", "ΣΑΣ", True),
        ("(?i)σ", "ς", True),
        ("[^α-ω]+", "ΣΑΣ", True),
        ("(?m)^a$\n^b$", "a\nb", True),
        ("a$\nb", "a\nb", False),
        ("a.b", "a\nb", False),
        (r"[\W\p{Cyrillic}]+", "-ж", True),
        (r"[^\p{Cyrillic}]+", "жук", False),
        (r"\P{Cyrillic}+", "日本", True),
        (r"\pC", "\U000e0080", False),  # no character at all
    ],
)
def test_characters_beyond_ascii(pattern: str, name: str, matches: bool) -> None:
    assert compile_expression(pattern).matches(name) == matches


def test_a_large_class_costs_no_more_than_a_small_one() -> None:
    many = "".join(chr(0x4E00 + 2 * number) for number in range(10_000))
    expression = compile_expression(f"[{many}]+")
    assert expression.matches(many[:100])
    assert not expression.matches(many[:100] + chr(0x4E01))
