import pytest

from barnabas.metadata import topic_names


@pytest.mark.parametrize("name", ["a", "a.b", "a_b", "A-1", "x" * 249, "...", "__consumer_offsets", "-"])
def test_legal_names(name: str) -> None:
    assert topic_names.fault(name) is None


@pytest.mark.parametrize("name", ["", ".", "..", "x" * 250, "a b", "a/b", "ä", "a\n", "a\0"])
def test_illegal_names(name: str) -> None:
    assert topic_names.fault(name) is not None
    assert not topic_names.is_valid(name)


def test_names_that_metrics_cannot_tell_apart_unify_to_one() -> None:
    assert topic_names.unify_collisions("a.b") == topic_names.unify_collisions("a_b") == "a_b"
    assert topic_names.unify_collisions("ab-c") is None


def test_internal_topics() -> None:
    assert topic_names.is_internal("__consumer_offsets")
    assert not topic_names.is_internal("__cluster_metadata")
    assert not topic_names.is_internal("orders")
