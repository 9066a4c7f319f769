"""What commands say and how addresses are written. Imports nothing: a supervisor needs no broker in its memory."""

import sys

WILDCARDS = ("", "0.0.0.0", "::")  # every address of this machine: fit to listen on, not to dial


def failed(message: str) -> int:
    """Says why on standard error; the exit code."""
    print(f"barnabas: {message}", file=sys.stderr, flush=True)
    return 1


def bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
