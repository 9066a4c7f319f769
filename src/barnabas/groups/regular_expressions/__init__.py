"""Regular expressions of KIP-848 in RE2's syntax, matched against whole topic names in time linear in the name.

Own code rather than `re`: that one backtracks, so a subscription like `(a*)*b` could stop the broker for years. Here a
pattern becomes an automaton, as in RE2, and what no automaton can do (backreferences, looking around) is refused.

    expression = compile_expression("orders-[0-9]+")     raises InvalidExpression
    expression.matches("orders-7")

Topic names are ASCII; the transactional ids that ListTransactions matches may hold any character.
"""

from barnabas.groups.regular_expressions.automaton import Automaton
from barnabas.groups.regular_expressions.program import build
from barnabas.groups.regular_expressions.syntax import InvalidExpression, parse

__all__ = ["Automaton", "InvalidExpression", "compile_expression"]


def compile_expression(pattern: str) -> Automaton:
    return Automaton(build(parse(pattern)))
