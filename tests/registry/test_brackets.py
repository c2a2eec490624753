"""The bracket notation: grammar, errors with their place, and the way back to text."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unlearnbench.errors import UsageError
from unlearnbench.registry.brackets import Bracket, parse_bracket, split_names


@pytest.mark.parametrize(
    ("text", "bracket"),
    [
        ("sisa", Bracket("sisa")),
        (" sisa ", Bracket("sisa")),
        ("sisa[]", Bracket("sisa")),
        ("ub-a:gif", Bracket("ub-a:gif")),
        ("amazon-photo", Bracket("amazon-photo")),
        ("m[a=1]", Bracket("m", {"a": "1"})),
        ("m[a=-1.5e-3,b=true]", Bracket("m", {"a": "-1.5e-3", "b": "true"})),
        ("m [ a = 1 , b.c = two words ]", Bracket("m", {"a": "1", "b.c": "two words"})),
        ('m[a="x,y]=z",b=""]', Bracket("m", {"a": "x,y]=z", "b": ""})),
        ('m[a="say ""no"",",b=""""]', Bracket("m", {"a": 'say "no",', "b": '"'})),
        ('file:"a ""b"".pt"', Bracket("file", {"path": 'a "b".pt'})),
        # Other signs stand for themselves.
        ('m[a="C:\\new\\"]', Bracket("m", {"a": "C:\\new\\"})),
        ('m[a="  kept  "]', Bracket("m", {"a": "  kept  "})),
        ("m[p=bekm[slack=0],q=mean]", Bracket("m", {"p": Bracket("bekm", {"slack": "0"}), "q": "mean"})),
        (
            "a[b=c[d=e[f=1],g=2],h=3]",
            Bracket("a", {"b": Bracket("c", {"d": Bracket("e", {"f": "1"}), "g": "2"}), "h": "3"}),
        ),
        ("mine=m[a=1]", Bracket("m", {"a": "1"}, "mine")),
        (" v1.5-b = file:x", Bracket("file", {"path": "x"}, "v1.5-b")),
        ("m[p=bekm [slack=0]]", Bracket("m", {"p": Bracket("bekm", {"slack": "0"})})),
    ],
)
def test_grammar(text: str, bracket: Bracket) -> None:
    assert parse_bracket(text) == bracket


@pytest.mark.parametrize(
    ("text", "wanted", "at", "found"),
    [
        ("", "a name", 1, "the end"),
        ("[a=1]", "a name", 1, "'['"),
        ("m[", "a parameter's name", 3, "the end"),
        ("m[1=2]", "a parameter's name", 3, "'1'"),
        ("m[a]", "'='", 4, "']'"),
        ("m[a=]", "a value", 5, "']'"),
        ("m[a= ,b=1]", "a value", 6, "','"),
        ("m[a=1", "',' or ']'", 6, "the end"),
        ("m[a=1,]", "a parameter's name", 7, "']'"),
        ("m[a=b=c]", "',' or ']'", 6, "'='"),
        ("m[a=1]]", "',' or the end", 7, "']'"),
        ("m[a=1]b", "',' or the end", 7, "'b'"),
        ('m[a="x]', "a value", 5, "'\"'"),
        ("m[a=b[c=]]", "a value", 9, "']'"),
        ("m n", "',' or the end", 3, "'n'"),
        ("=m", "a name", 1, "'='"),
        ("a=b=m", "',' or the end", 4, "'='"),
        ("m[p=a=b]", "',' or ']'", 6, "'='"),
    ],
)
def test_errors_say_what_was_expected_and_where(text: str, wanted: str, at: int, found: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_bracket(text)
    said = f"Cannot read {text!r}: expected {wanted} at character {at}, found {found}."
    assert caught.value.message == said
    assert "name[key=value" in caught.value.hint


@pytest.mark.parametrize("text", ["a:b=m", "a/b=m[c=1]"])
def test_an_alias_is_a_plain_name(text: str) -> None:
    with pytest.raises(UsageError, match=r"'a[:/]b' at character 1 cannot be an alias") as caught:
        parse_bracket(text)
    assert "letters, digits" in caught.value.hint


@pytest.mark.parametrize("text", ["m[a=1,a=2]", "m[a=1,b=2,a=1]", "m[b=c[a=1,a=1]]"])
def test_a_parameter_given_twice_is_an_error(text: str) -> None:
    with pytest.raises(UsageError, match="'a' is given twice"):
        parse_bracket(text)


names = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_.:/+-]{0,8}", fullmatch=True)
keys = st.from_regex(r"[A-Za-z_][A-Za-z0-9_.]{0,8}", fullmatch=True)
values = st.text(st.characters(exclude_characters="\n\r", exclude_categories=["Cs"]), max_size=8)
values |= st.text('",=[] \\', max_size=8)
brackets = st.recursive(
    st.builds(Bracket, names),
    lambda inner: st.builds(
        Bracket, names, st.dictionaries(keys, values | inner.filter(lambda bracket: bracket.arguments), max_size=3)
    ),
    max_leaves=6,
)


aliases = st.just("") | st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,8}", fullmatch=True)


@given(st.builds(replace, brackets, alias=aliases))
def test_text_of_a_bracket_reads_back(bracket: Bracket) -> None:
    assert parse_bracket(str(bracket)) == bracket


@given(st.text(alphabet='ab1[]=,". \t', max_size=12))
def test_any_text_is_read_or_refused_and_what_is_read_keeps_its_form(text: str) -> None:
    try:
        bracket = parse_bracket(text)
    except UsageError:
        with pytest.raises(UsageError, match=r"at character \d+|given twice"):
            parse_bracket(text)
    else:
        assert parse_bracket(str(bracket)) == bracket


@pytest.mark.parametrize(
    ("texts", "split"),
    [
        (["a,b", "c"], ["a", "b", "c"]),
        ([" a , b "], ["a", "b"]),
        (["a,,b,"], ["a", "b"]),
        (["", ","], []),
        (["a[x=1,y=2],b"], ["a[x=1,y=2]", "b"]),
        (["a[x=b[y=1,z=2],w=3],c"], ["a[x=b[y=1,z=2],w=3]", "c"]),
        (['a[x="p],q"],b'], ['a[x="p],q"]', "b"]),
        (['a[x="p"",q"],b'], ['a[x="p"",q"]', "b"]),
        (["a[x=1,b"], ["a[x=1,b"]),
    ],
)
def test_lists_are_split_outside_brackets_and_quotes(texts: list[str], split: list[str]) -> None:
    assert split_names(texts) == split


@given(st.lists(brackets, max_size=4))
def test_a_joined_list_splits_into_its_parts(found: list[Bracket]) -> None:
    assert [parse_bracket(text) for text in split_names([",".join(map(str, found))])] == found
