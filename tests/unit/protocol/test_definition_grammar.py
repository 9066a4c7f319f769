"""The grammar of the definitions: what is read, and that mistakes are named with their line."""

from pathlib import Path

import pytest

import barnabas.protocol
from tools.protocol_generator.grammar import GrammarError, Versions, parse
from tools.protocol_generator.layout import layouts
from tools.protocol_generator.module import render

README = Path(barnabas.protocol.__file__).parent / "definitions" / "README.md"


def test_the_example_in_the_readme_is_read_as_it_says() -> None:
    example = README.read_text().split("```\n")[1]
    definition = parse("example", example)
    request, response = definition.messages
    assert (definition.api_key, definition.api_name, definition.listeners) == (900, "Example", ("broker", "controller"))
    assert request.versions == Versions(1, 4)
    assert [request.flexible_in(version) for version in request.versions.all()] == [False, False, True, True]
    fields = {field.name: field for field in request.root.fields}
    assert fields["group_id"].default is None
    assert fields["rack_id"].nullable == Versions(2, 4)
    assert fields["rack_id"].versions == Versions(2, 4)
    assert fields["rack_id"].default == "null"
    assert fields["rack_id"].ignorable
    assert fields["topics"].array
    assert fields["topics"].nullable == Versions(3, 4)
    assert fields["leader"].tag == 0
    assert [field.name for field in request.structs["ExampleTopic"].fields] == ["name", "partitions"]
    assert response.root.fields[1].type == "ExampleState"
    compile(render(definition), "example", "exec")


def test_versions_with_one_layout_share_their_functions() -> None:
    definition = parse("x", "data X 0-5 flexible 4+\n    a int32\n    b string? 2+\n    c int8 4+ tag 1\n")
    assert [versions for _, versions in layouts(definition.messages[0])] == [[0, 1], [2, 3], [4, 5]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("    a int32", "x:1: a field outside"),
        ("data X 0\n  a int32", "x:2: indentation"),
        ("data X 0\n        a int32", "x:2: indented deeper"),
        ("data X 0\n    a int32 sometimes", "x:2: field a: unknown word 'sometimes'"),
        ("data X 0\n    a", "x:2: "),
        ("data X 0+", "x:1: 0\\+: an open end"),
        ("data X 0 bendable 0+", "x:1: unknown option 'bendable'"),
        ("request 0", "x:1: a request or response needs an api line"),
        ("message X 0", "x:1: unknown word 'message'"),
        ("data X 0\n    a [Y]", "no structure named Y"),
        ("data X 0\n    a [Y]\n        b int8\n    c [Y]\n        b int8", "x:4: Y is defined twice"),
        ("data X 0\n    a int8\n    a int8", "used twice"),
        ("data X 0 flexible 0+\n    a int8 tag 0\n    b int8 tag 0", "used twice"),
        ("data X 0-1 flexible 1+\n    a int8 tag 0", "not flexible"),
        ("data X 0-2\n    a int8 1-3", "versions beyond"),
        ("data X 0-2\n    a string 1+ nullable 0+", "nullable in versions"),
    ],
)
def test_mistakes_are_named(text: str, message: str) -> None:
    with pytest.raises(GrammarError, match=message):
        parse("x", text)
