"""Values decoded in the source: JSON by Arrow and one by one give the same; Avro bare and with a registry."""

from __future__ import annotations

import io
import json
import threading
import uuid
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.config.validation import ConfigError
from barnabas.spark import schema
from barnabas.spark.options import READ_OPTIONS, Options
from barnabas.spark.values import avro_values, json_values, schema_registry, value_format
from barnabas.spark.values.schema_registry import RegistryError

TYPE = pa.struct(
    [
        ("number", pa.int64()),
        ("small", pa.int32()),
        ("name", pa.string()),
        ("price", pa.float64()),
        ("flag", pa.bool_()),
        ("tags", pa.list_(pa.string())),
        ("at", pa.timestamp("us", "UTC")),
        ("day", pa.date32()),
        ("inner", pa.struct([("x", pa.int64())])),
    ]
)


def options(**given: str) -> Options:
    return Options({"subscribe": "orders", **given}, READ_OPTIONS)


def batch_of(column: list[bytes | None]) -> pa.RecordBatch:
    count = len(column)
    arrays = [pa.array(column, pa.binary()), pa.array(["orders"] * count), pa.array([2] * count, pa.int32())]
    offsets = pa.array(range(10, 10 + count), pa.int64())
    return pa.RecordBatch.from_arrays([*arrays, offsets], ["value", "topic", "partition", "offset"])


def decoded(column: list[bytes | None], wanted: pa.DataType, **given: str) -> list[Any]:
    decoder = value_format.ValueDecoder(options(**given), wanted)
    assert decoder.columns_needed(["value"]) == ["value", "topic", "partition", "offset"]
    (found,) = decoder.decoded(iter([batch_of(column)]), ["value"])
    found.validate(full=True)
    assert found.schema == pa.schema([("value", wanted)])
    return found.column("value").to_pylist()


def as_json(column: list[bytes | None], wanted: pa.DataType = TYPE, **given: str) -> list[Any]:
    return decoded(column, wanted, valueFormat="json", valueSchema="x int", **given)


class TestJson:
    def test_fields_become_typed(self) -> None:
        text = (
            b'{"number": 1, "name": "a\\u00e9", "price": 2, "flag": true, "tags": ["x", null], "other": {},'
            b' "at": "2024-05-06T07:08:09.5Z", "day": "2024-05-06", "inner": {"x": 5}}'
        )
        (found, empty, null) = as_json([text, b" { } ", None])
        assert found == {
            "number": 1,
            "small": None,
            "name": "aé",
            "price": 2.0,
            "flag": True,
            "tags": ["x", None],
            "at": datetime(2024, 5, 6, 7, 8, 9, 500_000, UTC),
            "day": date(2024, 5, 6),
            "inner": {"x": 5},
        }
        assert set(empty.values()) == {None}
        assert null is None

    @pytest.mark.parametrize(
        "text",
        [
            b"",
            b"{",
            b"17",
            b"[]",
            b'{"number": "1"}',
            b'{"number": 1.5}',
            b'{"small": 9999999999}',
            b'{"day": "soon"}',
            b'{"at": 17}',
            b'{"tags": {}}',
            b'{"number": 1} null',
            b'{}} null {"v":[{}',
            b'{}]}\nnull\n{"v":[{}',
            b"{},{}",
            b"{}{}",
            b'{"name": "\xff"}',
        ],
    )
    def test_what_does_not_fit_is_named_or_null(self, text: bytes) -> None:
        with pytest.raises(value_format.BadValue, match="offset 11 of orders-2 is not json"):
            as_json([b"{}", text, b'{"number": 3}'])
        found = as_json([b"{}", text, b'{"number": 3}'], valueErrors="null")
        assert found[1] is None
        assert found[0] is not None
        assert found[2]["number"] == 3

    def test_texts_that_look_like_trouble(self) -> None:
        assert as_json([b'{"name": "} null {"}'])[0]["name"] == "} null {"

    def test_types_that_arrow_cannot_read(self) -> None:
        wanted = pa.struct([("m", pa.map_(pa.string(), pa.int32())), ("d", pa.decimal128(6, 2)), ("b", pa.binary())])
        (found,) = as_json([b'{"m": {"a": 1}, "d": 12.5, "b": "xyz"}'], wanted)
        assert found == {"m": [("a", 1)], "d": Decimal("12.50"), "b": b"xyz"}
        with pytest.raises(value_format.BadValue, match=r"value\.d is"):
            as_json([b'{"d": 12.555}'], wanted)

    @given(
        st.lists(
            st.none()
            | st.fixed_dictionaries(
                {},
                optional={
                    "number": st.none() | st.integers(-(2**63), 2**63 - 1),
                    "name": st.none() | st.text(max_size=8),
                    "price": st.none() | st.floats(allow_nan=False, allow_infinity=False),
                    "flag": st.booleans(),
                    "tags": st.lists(st.none() | st.text(max_size=3), max_size=3),
                    "inner": st.none() | st.fixed_dictionaries({"x": st.integers(-5, 5)}),
                    "more": st.text(max_size=3),
                },
            ),
            max_size=5,
        ),
        st.booleans(),
    )
    def test_both_ways_give_the_same(self, rows: list[dict[str, Any] | None], pretty: bool) -> None:
        column = [None if row is None else json.dumps(row, indent=1 if pretty else None).encode() for row in rows]
        one = json_values.one_by_one(TYPE)
        expected = pa.array([None if each is None else one(each) for each in column], TYPE)
        found = json_values.whole_batches(TYPE)(pa.array(column, pa.binary()))
        if found is not None:
            assert found.to_pylist() == expected.to_pylist()
        else:
            assert any(each is not None and b"}" in each[:-1] for each in column)


ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 8, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "counts", "type": {"type": "map", "values": "int"}},
        {"name": "key", "type": {"type": "string", "logicalType": "uuid"}},
    ],
}
ORDER_TYPE = pa.struct(
    [
        ("id", pa.int64()),
        ("note", pa.string()),
        ("price", pa.decimal128(8, 2)),
        ("at", pa.timestamp("us", "UTC")),
        ("counts", pa.map_(pa.string(), pa.int32())),
        ("key", pa.string()),
    ]
)
ROW = {
    "id": 7,
    "note": None,
    "price": Decimal("1.25"),
    "at": datetime(2024, 1, 2, tzinfo=UTC),
    "counts": {"a": 1},
    "key": uuid.UUID(int=5),
}
EXPECTED = {**ROW, "counts": [("a", 1)], "key": str(uuid.UUID(int=5))}


def avro(row: dict[str, Any], writer: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(writer), row)
    return out.getvalue()


def framed(schema_id: int, value: bytes) -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big") + value


class TestAvro:
    def test_bare_values(self) -> None:
        given = {"valueFormat": "avro", "valueSchema": json.dumps(ORDER)}
        assert decoded([avro(ROW, ORDER), None], ORDER_TYPE, **given) == [EXPECTED, None]
        for wrong in (b"", avro(ROW, ORDER)[:-3], avro(ROW, ORDER) + b"x"):
            with pytest.raises(value_format.BadValue, match="offset 10 of orders-2 is not avro"):
                decoded([wrong], ORDER_TYPE, **given)
            assert decoded([wrong], ORDER_TYPE, **given, valueErrors="null") == [None]

    def test_types_for_spark(self) -> None:
        assert avro_values.ddl(json.dumps(ORDER)) == (
            "struct<`id`: bigint, `note`: string, `price`: decimal(8,2), `at`: timestamp, "
            "`counts`: map<string, int>, `key`: string>"
        )

    @pytest.mark.parametrize(
        "text",
        ["{", '"string"', '{"type": "record", "name": "X", "fields": [{"name": "a", "type": ["int", "string"]}]}'],
    )
    def test_schemas_that_cannot_be_used(self, text: str) -> None:
        with pytest.raises(ConfigError, match="valueSchema"):
            avro_values.ddl(text)

    def test_values_written_by_older_schemas(self, registry: Registry) -> None:
        older = {**ORDER, "fields": [each for each in ORDER["fields"] if each["name"] != "note"]}  # type: ignore[attr-defined]
        registry.schemas = {1: older, 2: ORDER}
        registry.latest = {"orders-value": 2}
        given = {"valueFormat": "avro", "schemaRegistryUrl": registry.url}
        column = [framed(1, avro(ROW, older)), framed(2, avro({**ROW, "note": "n"}, ORDER))]
        assert value_format.value_ddl(options(**given)) == avro_values.ddl(json.dumps(ORDER))
        found = decoded([*column, *column], ORDER_TYPE, **given)
        assert found == [EXPECTED, {**EXPECTED, "note": "n"}] * 2
        assert registry.asked.count("/schemas/ids/1") == 1
        with pytest.raises(value_format.BadValue, match="does not begin with the id"):
            decoded([avro(ROW, ORDER)], ORDER_TYPE, **given)

    def test_a_registry_that_does_not_know_or_answer(self, registry: Registry) -> None:
        given = {"valueFormat": "avro", "schemaRegistryUrl": registry.url}
        with pytest.raises(RegistryError, match=f"subject orders-value was asked.*{registry.url}.*does not know"):
            value_format.value_ddl(options(**given))
        with pytest.raises(RegistryError, match="schema 9 was asked"):
            decoded([framed(9, b"")], ORDER_TYPE, **given, valueSchema=json.dumps(ORDER))
        registry.stop()
        with pytest.raises(RegistryError, match=f"registry at {registry.url} cannot be asked"):
            value_format.value_ddl(options(**given))


class Registry:
    """The two questions of Confluent's registry that a reader asks."""

    def __init__(self) -> None:
        self.schemas: dict[int, Any] = {}
        self.latest: dict[str, int] = {}
        self.asked: list[str] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked.append(self.path)
                parts = self.path.split("/")
                number = int(parts[3]) if parts[1] == "schemas" else outer.latest.get(parts[2], 0)
                found = outer.schemas.get(number)
                body = json.dumps({"schema": json.dumps(found)} if found else {"error_code": 40401}).encode()
                self.send_response(200 if found else 404)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *arguments: object) -> None:
                pass

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def stop(self) -> None:
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
            self._server.server_close()


@pytest.fixture
def registry() -> Iterator[Registry]:
    schema_registry._known.clear()
    found = Registry()
    yield found
    found.stop()


@pytest.mark.parametrize(
    "given",
    [
        {"valueSchema": "x int"},
        {"valueErrors": "null"},
        {"valueFormat": "json"},
        {"valueFormat": "json", "valueSchema": "x int", "schemaRegistryUrl": "http://x"},
        {"valueFormat": "avro"},
        {"valueFormat": "avro", "schemaRegistryUrl": "http://x", "subscribe": "a,b"},
    ],
)
def test_options_that_do_not_go_together(given: dict[str, str]) -> None:
    with pytest.raises(ConfigError):
        value_format.check(options(**given))


def test_a_schema_of_sparks_own_kind() -> None:
    text = '{"type": "struct", "fields": [{"name": "a", "type": "long", "nullable": true, "metadata": {}}]}'
    assert value_format.json_ddl(text) == "struct<a:bigint>"
    assert value_format.json_ddl("a bigint") == "struct<a bigint>"
    assert "value struct<a:bigint>" in schema.spark_ddl(["key", "value"], value_format.json_ddl(text))
