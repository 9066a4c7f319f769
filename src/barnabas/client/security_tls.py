"""The TLS context of a client, made of its settings and of this machine's files, once for all of its connections.

Always holds: what is wrong is said with the name of its setting, and with how to convert a store of Java's.
Does not know: connections.
"""

import ssl
from collections.abc import Callable

from barnabas.client.settings import ClientConfig
from barnabas.config.validation import ConfigError
from barnabas.runtime.system import tls


def context_of(config: ClientConfig) -> ssl.SSLContext:
    context = tls.client_context(check_host_name=config.ssl_endpoint_identification_algorithm == "https")
    password = config.ssl_key_password
    truststore, keystore = config.ssl_truststore_location, config.ssl_keystore_location
    certificates, chain, key = (
        config.ssl_truststore_certificates,
        config.ssl_keystore_certificate_chain,
        config.ssl_keystore_key,
    )
    if truststore is not None:
        _use("ssl_truststore_location", lambda: tls.trust(context, tls.read_pem(truststore)))
    elif certificates is not None:
        _use("ssl_truststore_certificates", lambda: tls.trust(context, certificates))
    else:
        context.load_default_certs()
    if keystore is not None:
        _use("ssl_keystore_location", lambda: tls.present_file(context, keystore, password))
    elif chain is not None and key is not None:
        _use("ssl_keystore_key", lambda: tls.present(context, chain, key, password))
    return context


def _use(setting: str, load: Callable[[], None]) -> None:
    try:
        load()
    except tls.BinaryStore as error:
        from barnabas.client.settings import CONVERSIONS

        raise ConfigError(f"{setting}: {error}; {CONVERSIONS[setting.removesuffix('_location')]}") from None
    except ValueError as error:
        raise ConfigError(f"{setting}: {error}") from None
