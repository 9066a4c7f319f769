"""A registry of schemas, asked over HTTP as Confluent's is.

Always holds: a schema of an id never changes, so each is asked for once in a process; a registry that does not answer
is an error that names it and the reason. Does not know: what a schema means.
"""

import json
import urllib.error
import urllib.request
from http.client import HTTPException
from typing import Any
from urllib.parse import quote

TIMEOUT_SECONDS = 10.0

_known: dict[tuple[str, int], str] = {}


class RegistryError(Exception):
    """The registry cannot be asked, or does not know what it was asked for."""


def schema_of_id(url: str, schema_id: int) -> str:
    found = _known.get((url, schema_id))
    if found is None:
        found = _known[url, schema_id] = _schema(url, f"/schemas/ids/{schema_id}", f"the schema {schema_id}")
    return found


def latest_schema(url: str, topic: str) -> str:
    """That of a topic's values."""
    subject = f"{topic}-value"
    return _schema(url, f"/subjects/{quote(subject, safe='')}/versions/latest", f"the subject {subject}")


def _schema(url: str, path: str, what: str) -> str:
    answer = _asked(url, path, what)
    kind = answer.get("schemaType", "AVRO")
    text = answer.get("schema")
    if kind != "AVRO" or not isinstance(text, str):
        raise RegistryError(f"{what} at {url} is {kind}, not AVRO")
    if answer.get("references"):
        raise RegistryError(f"{what} at {url} refers to other schemas, which is not supported: give valueSchema whole")
    return text


def _asked(url: str, path: str, what: str) -> dict[str, Any]:
    if not url.startswith(("http://", "https://")):
        raise RegistryError(f"schemaRegistryUrl: {url} is no http or https address")
    try:
        with urllib.request.urlopen(url.rstrip("/") + path, timeout=TIMEOUT_SECONDS) as answer:
            found = json.load(answer)
    except urllib.error.HTTPError as error:
        reason = "does not know it" if error.code == 404 else f"answered {error.code} {error.reason}"
        raise RegistryError(f"{what} was asked of the schema registry at {url}, which {reason}") from None
    except (OSError, HTTPException, ValueError) as error:
        why = getattr(error, "reason", None) or error
        raise RegistryError(f"the schema registry at {url} cannot be asked for {what}: {why}") from None
    if not isinstance(found, dict):
        raise RegistryError(f"the schema registry at {url} answered with something else than {what}")
    return found
