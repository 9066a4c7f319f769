"""What the settings of security demand of each other, and the credentials that they make.

Always holds: what is wrong is said before anything is dialled, with the name of the setting and never with a secret.
A setting that would have no effect is refused. Does not know: how credentials and certificates are used.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from barnabas.client.security_jaas import parse
from barnabas.config.validation import ConfigError

if TYPE_CHECKING:  # which asks for what is here, and only where security is wanted
    from barnabas.client.settings import ClientConfig

Token = str | Callable[[], str | Awaitable[str]]
OAUTHBEARER: Final = "OAUTHBEARER"
_MODULES: Final = {"PLAIN": "PlainLoginModule", "SCRAM": "ScramLoginModule", OAUTHBEARER: "OAuthBearerLoginModule"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    mechanism: str
    username: str = ""
    password: str = field(default="", repr=False)
    token: Token = field(default="", repr=False)


def uses_sasl(config: "ClientConfig") -> bool:
    return config.security_protocol.startswith("SASL_")


def uses_tls(config: "ClientConfig") -> bool:
    return config.security_protocol.endswith("SSL")


def check(config: "ClientConfig") -> None:
    for name in config.overrides:
        if name.startswith("sasl.") and not uses_sasl(config):
            raise _error(config, name, "this needs security_protocol=SASL_SSL or SASL_PLAINTEXT")
        if name.startswith("ssl.") and not uses_tls(config):
            raise _error(config, name, "this needs security_protocol=SSL or SASL_SSL")
    if uses_sasl(config):
        credentials(config)
    if uses_tls(config):
        _check_stores(config)


def credentials(config: "ClientConfig") -> Credentials:
    mechanism = config.sasl_mechanism
    if mechanism is None:
        raise ConfigError(
            f"sasl_mechanism is missing; {config.security_protocol} needs one of "
            "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER, as the broker has it enabled"
        )
    if mechanism == OAUTHBEARER:
        _only(config, "sasl.oauthbearer.token", ("sasl.jaas.config", "sasl.username", "sasl.password"))
        return Credentials(mechanism=mechanism, token=config.sasl_oauthbearer_token)
    if "sasl.oauthbearer.token" in config.overrides:
        raise _error(config, "sasl.oauthbearer.token", f"this needs sasl_mechanism={OAUTHBEARER}, not {mechanism}")
    if config.sasl_jaas_config is not None:
        _only(config, "sasl.jaas.config", ("sasl.username", "sasl.password"))
        username, password = _from_jaas(mechanism, config.sasl_jaas_config)
    else:
        username, password = config.sasl_username or "", config.sasl_password or ""
    for name, value in (("username", username), ("password", password)):
        if not value:
            where = f"in sasl_jaas_config: {name} is missing" if config.sasl_jaas_config else f"sasl_{name} is missing"
            raise ConfigError(f"{where}; {mechanism} needs a username and a password")
        if "\0" in value:
            raise ConfigError(f"sasl_{name}: the character with code 0 is not allowed")
    return Credentials(mechanism=mechanism, username=username, password=password)


def _from_jaas(mechanism: str, text: str) -> tuple[str, str]:
    try:
        module, options = parse(text)
    except ValueError as error:
        raise ConfigError(f"sasl_jaas_config: the value is not allowed; {error}") from None
    wanted = _MODULES[mechanism.partition("-")[0]]
    if module != wanted:
        known = module if module in _MODULES.values() else "another login module"
        raise ConfigError(f"sasl_jaas_config: sasl_mechanism={mechanism} needs {wanted}, not {known}")
    if set(options) - {"username", "password"}:
        raise ConfigError(f"sasl_jaas_config: of {wanted} only the options username and password are supported")
    return options.get("username", ""), options.get("password", "")


def _only(config: "ClientConfig", wanted: str, others: tuple[str, ...]) -> None:
    for other in others:
        if other in config.overrides:
            raise _error(config, other, f"give {config.SETTINGS[wanted].attribute} alone")
    if wanted not in config.overrides:
        raise ConfigError(f"{config.SETTINGS[wanted].attribute} is missing; {config.sasl_mechanism} needs it")


def _check_stores(config: "ClientConfig") -> None:
    if config.ssl_truststore_location is not None and config.ssl_truststore_certificates is not None:
        raise _error(config, "ssl.truststore.certificates", "give these or ssl_truststore_location, not both")
    as_text = [name for name in ("ssl.keystore.certificate.chain", "ssl.keystore.key") if name in config.overrides]
    if config.ssl_keystore_location is not None and as_text:
        raise _error(config, as_text[0], "give this or ssl_keystore_location, not both")
    if len(as_text) == 1:
        raise _error(config, as_text[0], "ssl_keystore_key and ssl_keystore_certificate_chain need each other")
    if config.ssl_key_password is not None and config.ssl_keystore_location is None and not as_text:
        raise _error(config, "ssl.key.password", "there is no key; give ssl_keystore_location as well")


def _error(config: "ClientConfig", name: str, words: str) -> ConfigError:
    return ConfigError(f"{config.SETTINGS[name].attribute}: {words}")
