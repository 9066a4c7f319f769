"""One setting, and the classes whose attributes are settings.

    class TopicConfig(Config):
        segment_bytes: int = integer("segment.bytes", 1 << 30, at_least(1 << 20), help="…")

The class keeps the `Setting` in `TopicConfig.SETTINGS["segment.bytes"]`; an instance has a slot `segment_bytes` that
holds the parsed value, so that the hot path reads a plain attribute.

Always holds: a config is immutable and every value in it has passed its check. The attribute is Kafka's name with
underscores for dots.
"""

from collections.abc import Callable, Mapping
from enum import Enum, IntEnum
from typing import Any, ClassVar, Final, NamedTuple

from barnabas.config.validation import Allowed, ConfigError, OutOfRange


class ValueType(IntEnum):
    """The codes are those of DescribeConfigs."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Update(Enum):
    """Whether a running broker takes a new value. The words are those of Kafka's documentation."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"  # as a default for all brokers, and also for one of them


class Synonym(NamedTuple):
    """A broker setting that gives a topic setting its default. The first that is set wins."""

    name: str
    scale: int = 1  # broker value times this is the topic value: hours and minutes become milliseconds


class Notation(NamedTuple):
    """How a value that is more than a number or a string is read and written."""

    decode: Callable[[Any], Any]  # raises ValueError with words for people
    encode: Callable[[Any], str]


def _distinct(values: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(values))


DISTINCT: Final = Notation(_distinct, ",".join)  # a name that stands in the list twice counts once


class Setting:
    """What is known of one setting."""

    __slots__ = (
        "allowed",
        "attribute",
        "default",
        "help",
        "internal",
        "name",
        "notation",
        "sensitive",
        "synonyms",
        "type",
        "update",
    )

    def __init__(
        self,
        name: str,
        type: ValueType,
        default: Any,
        allowed: Allowed | None,
        *,
        help: str,
        update: Update = Update.READ_ONLY,
        synonyms: tuple[Synonym, ...] = (),
        internal: bool = False,
        notation: Notation | None = None,
    ) -> None:
        self.name: Final = name
        self.attribute: Final = name.replace(".", "_")
        self.type: Final = type
        self.default: Final = default  # as an attribute holds it
        self.allowed: Final = allowed
        self.help: Final = help
        self.update: Final = update
        self.synonyms: Final = synonyms
        self.sensitive: Final = type is ValueType.PASSWORD
        self.internal: Final = internal  # works, but is shown to nobody: Kafka's own tests use such settings
        self.notation: Final = notation

    def decode(self, text: str) -> Any:
        """The value that the text means; ConfigError where it means none or one out of range."""
        try:
            value = _DECODE[self.type](text.strip())
        except ValueError:
            raise ConfigError(self._complaint(text, f"it must be {_TYPE_WORDS[self.type]}")) from None
        if self.allowed is not None and not self.allowed.accepts(value):
            raise OutOfRange(self._complaint(text, f"it must be {self.allowed.words}"))
        if self.notation is not None:
            try:
                value = self.notation.decode(value)
            except ValueError as error:
                raise ConfigError(self._complaint(text, str(error))) from None
        return value

    def encode(self, value: Any) -> str | None:
        """The text that tools show, in Kafka's notation."""
        if value is None:
            return None
        if self.notation is not None:
            return self.notation.encode(value)
        if self.type is ValueType.BOOLEAN:
            return "true" if value else "false"
        if self.type is ValueType.LIST:
            return ",".join(value)
        if self.type is ValueType.DOUBLE:
            return _encode_double(value)
        return str(value)

    def _complaint(self, text: str, words: str) -> str:
        shown = "the value" if self.sensitive else repr(text)
        return f"{self.name}: {shown} is not allowed; {words}"


def _decode_boolean(text: str) -> bool:
    match text.lower():
        case "true":
            return True
        case "false":
            return False
        case _:
            raise ValueError


def _decode_whole_number(bits: int) -> Callable[[str], int]:
    limit = 1 << (bits - 1)

    def decode(text: str) -> int:
        digits = text[1:] if text[:1] in ("+", "-") else text
        if not (digits.isascii() and digits.isdigit()):  # int() alone would take 1_000 and Arabic digits
            raise ValueError
        value = int(text)
        if not -limit <= value < limit:
            raise ValueError
        return value

    return decode


def _decode_double(text: str) -> float:
    value = float(text)
    if "_" in text or value != value:  # float() would take 1_000 and nan
        raise ValueError
    return value


def _encode_double(value: float) -> str:
    """As Java writes a double: 1.0E-5 rather than 1e-05."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(float(value))
    shortest = next(text for text in (f"{value:.{places}e}" for places in range(1, 18)) if float(text) == value)
    digits, _, exponent = shortest.partition("e")
    return f"{digits}E{int(exponent)}"


def _decode_list(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",")) if text else ()


_DECODE: Final[Mapping[ValueType, Callable[[str], Any]]] = {
    ValueType.BOOLEAN: _decode_boolean,
    ValueType.STRING: str,
    ValueType.INT: _decode_whole_number(32),
    ValueType.SHORT: _decode_whole_number(16),
    ValueType.LONG: _decode_whole_number(64),
    ValueType.DOUBLE: _decode_double,
    ValueType.LIST: _decode_list,
    ValueType.CLASS: str,
    ValueType.PASSWORD: str,
}
_TYPE_WORDS: Final[Mapping[ValueType, str]] = {
    ValueType.BOOLEAN: "true or false",
    ValueType.STRING: "text",
    ValueType.INT: "a whole number of 32 bits",
    ValueType.SHORT: "a whole number of 16 bits",
    ValueType.LONG: "a whole number of 64 bits",
    ValueType.DOUBLE: "a number",
    ValueType.LIST: "a list with commas",
    ValueType.CLASS: "a name",
    ValueType.PASSWORD: "text",
}


# These return Any so that the annotation beside them is what type checkers see, as with dataclasses.field.
def boolean(name: str, default: bool, **facts: Any) -> Any:
    return Setting(name, ValueType.BOOLEAN, default, None, **facts)


def integer(name: str, default: int | None, allowed: Allowed | None = None, **facts: Any) -> Any:
    return Setting(name, ValueType.INT, default, allowed, **facts)


def short(name: str, default: int | None, allowed: Allowed | None = None, **facts: Any) -> Any:
    return Setting(name, ValueType.SHORT, default, allowed, **facts)


def long(name: str, default: int | None, allowed: Allowed | None = None, **facts: Any) -> Any:
    return Setting(name, ValueType.LONG, default, allowed, **facts)


def double(name: str, default: float, allowed: Allowed | None = None, **facts: Any) -> Any:
    return Setting(name, ValueType.DOUBLE, default, allowed, **facts)


def string(name: str, default: Any, allowed: Allowed | None = None, **facts: Any) -> Any:
    return Setting(name, ValueType.STRING, default, allowed, **facts)


def password(name: str, default: str | None, **facts: Any) -> Any:
    """Shown to nobody."""
    return Setting(name, ValueType.PASSWORD, default, None, **facts)


def names(name: str, default: Any, allowed: Allowed | None = None, **facts: Any) -> Any:
    return Setting(name, ValueType.LIST, default, allowed, **facts)


class ConfigClass(type):
    """Takes the settings out of a class body and puts a slot in the place of each. Those of its bases come first."""

    def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> "ConfigClass":
        settings = {value.name: value for value in namespace.values() if isinstance(value, Setting)}
        for setting in settings.values():
            found = namespace.pop(setting.attribute, None)
            assert found is setting, f"{setting.name} must be the attribute {setting.attribute}"
        attributes = tuple(setting.attribute for setting in settings.values())
        namespace["__slots__"] = (*namespace.get("__slots__", ()), *attributes)
        inherited = (found for base in bases for found in getattr(base, "SETTINGS", {}).items())
        namespace["SETTINGS"] = {**dict(inherited), **settings}
        return super().__new__(cls, name, bases, namespace)


class Config(metaclass=ConfigClass):
    """Base of the typed configs: the values, and what was set explicitly."""

    __slots__ = ("overrides",)
    SETTINGS: ClassVar[Mapping[str, Setting]]
    overrides: Mapping[str, str]  # by Kafka's name, as given; what is missing here has its default

    def value(self, name: str) -> Any:
        """The value by Kafka's name. KeyError where there is no such setting."""
        return getattr(self, self.SETTINGS[name].attribute)

    @classmethod
    def usable(cls, overrides: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
        """What of these can be used, and what is wrong with the rest.

        For values that were written down long ago, perhaps by another version: they must not keep a broker from
        starting. New values are checked before they are written down.
        """
        good: dict[str, str] = {}
        complaints: list[str] = []
        for name, text in overrides.items():
            setting = cls.SETTINGS.get(name)
            if setting is None:
                complaints.append(f"{name} is unknown")
                continue
            try:
                setting.decode(text)
            except ConfigError as error:
                complaints.append(str(error))
            else:
                good[name] = text
        return good, complaints

    def _fill(self, overrides: Mapping[str, str], default: Callable[[Setting], Any], what: str) -> None:
        for name in overrides:
            if name not in self.SETTINGS:
                raise ConfigError(f"Unknown {what} config name: {name}")
        object.__setattr__(self, "overrides", dict(overrides))
        for name, setting in self.SETTINGS.items():
            text = overrides.get(name)
            object.__setattr__(self, setting.attribute, default(setting) if text is None else setting.decode(text))

    def __setattr__(self, attribute: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable: {attribute} cannot be set")

    def __delattr__(self, attribute: str) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable: {attribute} cannot be deleted")

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, each.attribute) == getattr(other, each.attribute) for each in self.SETTINGS.values())

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = (
            f"{name}={'[hidden]' if self.SETTINGS[name].sensitive else text!r}" for name, text in self.overrides.items()
        )
        return f"{type(self).__name__}({', '.join(shown)})"
