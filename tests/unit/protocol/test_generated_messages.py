"""The committed modules are what the generator makes of the definitions."""

from tools.protocol_generator.__main__ import generate, read_definitions, stale


def test_committed_modules_are_up_to_date() -> None:
    assert stale(generate(read_definitions())) == []


def test_a_change_in_a_definition_makes_its_module_stale() -> None:
    vote = [each for each in read_definitions() if each.module == "vote"]
    assert "vote.py" not in stale(generate(vote))
    vote[0].messages[0].root.fields.reverse()
    assert "vote.py" in stale(generate(vote))
