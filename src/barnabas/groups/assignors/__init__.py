"""Server-side assignors of KIP-848: who shall own which partition, as pure functions of who is subscribed to what.

Always holds, for each of them: every partition of a subscribed topic goes to exactly one member that is subscribed to
its topic; the same input gives the same output, whatever the order of the members.
Does not know: epochs, and who owns a partition at the moment; `groups.reconciliation` leads from there to here.
"""

from collections.abc import Mapping

from barnabas.groups.assignors import range as range_assignor
from barnabas.groups.assignors import uniform
from barnabas.groups.assignors.specification import Assignor

ASSIGNORS: Mapping[str, Assignor] = {uniform.NAME: uniform.assign, range_assignor.NAME: range_assignor.assign}
