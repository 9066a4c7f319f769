"""Lets the one case that `make test` runs find its helpers."""

import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS / "chaos"), str(TESTS / "support")]
