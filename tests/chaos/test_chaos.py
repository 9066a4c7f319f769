"""One case of the matrix, so that `make test` knows that `make chaos` works."""

import cases


def test_nothing_is_lost_when_a_leader_is_killed():
    case = next(case for case in cases.cases() if case.name == "kill -9, leader")
    result = cases.run(case._replace(hold_seconds=0.5))
    assert result.wrong == []
    assert result.found == result.acknowledged > 0
    assert result.compared_bytes > 0
