"""Seeds that nobody has run: new ones for each change of the source, and the same ones wherever that source is tested.

So each change meets worlds of its own, and whoever saw it pass knows that it passes elsewhere.
"""

from functools import cache
from hashlib import sha256
from pathlib import Path
from random import Random

import barnabas


def fresh_seed(purpose: str) -> int:
    return Random(f"{_source_digest()} {purpose}").randrange(1 << 32)


@cache
def _source_digest() -> str:
    root = Path(barnabas.__file__).parent
    digest = sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()
