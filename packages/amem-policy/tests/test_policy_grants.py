"""What grants.toml may say, and what an owner is told about a mistake in it."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amem_core.domain.labels import Label
from amem_core.errors import ConfigError, UnknownFormatError
from amem_policy.grants import parse_grants

WHOLE = b"""\
format = 1
[owner]
name = "Ada"
[domains.notes]
label = "internal"
holders = ["owner"]
[domains.open]
label = "public"
holders = []
[destinations.model]
ceiling = "internal"
"""


def test_the_grants_are_read_and_indexed_by_holder() -> None:
    grants = parse_grants(WHOLE, "g")
    assert grants.domains == {"notes": Label.internal, "open": Label.public}
    assert json.loads(grants.as_json()) == {
        "grants": {
            "held": {"owner": {"notes": {"label": "internal"}}},
            "destinations": {"model": {"ceiling": "internal"}},
        }
    }


def test_a_domain_without_keys_is_internal_and_the_owners() -> None:
    grants = parse_grants(b"format = 1\n[domains.notes]\n", "g")
    assert grants.domains == {"notes": Label.internal}
    assert list(grants.held) == ["notes"]


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("format = 1\nformats = 2\n", 2, "formats is not known"),
        ("format = 1\n[domain.notes]\n", 2, "domain is not known"),
        ('format = 1\n\n[domains.notes]\nlable = "public"\n', 4, "domains.notes.lable is not known"),
        ('format = 1\n[domains.a]\nlabel="public"\n[domains.b]\nlabel = "secret"\n', 5, "domains.b.label is 'secret'"),
        ("format = 1\n[domains.b]\nlabel = 1\n", 3, "domains.b.label is 1"),
        ("format = 1\n[domains.b]\nlabel = false\n", 3, "domains.b.label is False"),
        ('format = 1\n[domains.b]\nholders = ["ada"]\n', 3, "domains.b.holders"),
        ('format = 1\n[domains.b]\nholders = "owner"\n', 3, "domains.b.holders"),
        ('format = 1\n[domains.b]\nholders = [\n "owner",\n 1,\n]\n', 3, "domains.b.holders"),
        ("format = 1\n[domains.con]\n", 2, "'con' cannot name a domain"),
        ('format = 1\n[domains."../x"]\n', 2, "'../x' cannot name a domain"),
        ("format = 1\n[domains]\nnotes = 3\n", 3, "domains.notes must be a table"),
        ('format = 1\n[domains]\nnotes = { lable = "public" }\n', 3, "domains.notes.lable is not known"),
        ("format = 1\n[destinations.model]\n", 2, "destinations.model.ceiling is missing"),
        ('format = 1\n[destinations.model]\nceiling = "Internal"\n', 3, "destinations.model.ceiling is 'Internal'"),
        ("format = 1\n[owner]\nname = 1\n", 3, "owner.name must be text"),
        ('format = 1\n[owner]\nnick = "a"\n', 3, "owner.nick is not known"),
        ("format = true\n", 1, "format must be there and be 1"),
        ('format = "1"\n', 1, "format must be there and be 1"),
        ("format = 1.0\n", 1, "format must be there and be 1"),
    ],
)
def test_a_mistake_is_named_with_file_line_and_key(text: str, line: int, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_grants(text.encode(), "/r/grants.toml")
    assert str(caught.value).startswith(f"/r/grants.toml, line {line}: ")
    assert words in str(caught.value)
    assert caught.value.hint


@pytest.mark.parametrize("data", [b"[domains", b"a = 1\na = 2", b"\xff", b"format = 1\n[domains.a]\n[domains.a]\n"])
def test_what_is_no_toml_is_named_with_its_file(data: bytes) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_grants(data, "/r/grants.toml")
    assert "/r/grants.toml is no TOML" in str(caught.value)


def test_an_empty_file_is_no_grants_of_format_1() -> None:
    with pytest.raises(ConfigError):
        parse_grants(b"", "g")


def test_a_newer_format_is_left_alone() -> None:
    with pytest.raises(UnknownFormatError):
        parse_grants(b"format = 2\n[whatever]\n", "g")


@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_but_a_named_error(data: bytes) -> None:
    with suppress(ConfigError, UnknownFormatError):
        parse_grants(b"format = 1\n" + data, "g")


@given(
    st.dictionaries(st.sampled_from(["notes", "open", "a-b", "x_1"]), st.sampled_from(list(Label)), max_size=4),
    st.booleans(),
)
def test_every_way_of_writing_a_domain_means_the_same(domains: dict[str, Label], inline: bool) -> None:
    lines = ["format = 1"]
    if inline:
        lines.append("[domains]")
        lines += [f'{name} = {{ label = "{label}" }}' for name, label in domains.items()]
    else:
        lines += [f'[domains.{name}]\nlabel = "{label}"' for name, label in domains.items()]
    assert parse_grants("\n".join(lines).encode(), "g").domains == domains
