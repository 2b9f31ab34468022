"""SSL contexts of clients and servers, created from `ssl.*` settings.

A private key is written to a temporary file in a scratch directory, because `ssl` reads only files. The file has mode
0600, is encrypted with a one-time password, and is deleted as soon as the context has loaded the key.
"""

from __future__ import annotations

import os
import secrets
import ssl
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kraal.core.private_files import make_directory

if TYPE_CHECKING:
    from kraal.config.clients.key_stores import Identity
    from kraal.config.clients.security import Tls

_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


def client_context(tls: Tls, scratch: Path) -> ssl.SSLContext:
    """Return the context of a client, which verifies the server. Uses `scratch` for a temporary file."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _set_versions(context, tls)
    context.check_hostname = tls.check_host
    if tls.trusted is None:
        context.load_default_certs()
    else:
        context.load_verify_locations(cadata=tls.trusted)
    if tls.identity is not None:
        _load_identity(context, tls.identity, scratch)
    return context


def server_context(tls: Tls, client_auth: ssl.VerifyMode, scratch: Path) -> ssl.SSLContext:
    """Return the context of an HTTP/1.1 server. Uses `scratch` for a temporary file.

    `client_auth` determines whether clients must present a certificate that `tls` trusts.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _set_versions(context, tls)
    context.set_alpn_protocols(["http/1.1"])
    if tls.trusted is not None:
        context.load_verify_locations(cadata=tls.trusted)
    context.verify_mode = client_auth
    if tls.identity is not None:
        _load_identity(context, tls.identity, scratch)
    return context


def _set_versions(context: ssl.SSLContext, tls: Tls) -> None:
    versions = [_VERSIONS[version] for version in tls.versions]
    context.minimum_version, context.maximum_version = min(versions), max(versions)


def _load_identity(context: ssl.SSLContext, identity: Identity, scratch: Path) -> None:
    """Load the certificate chain and private key into the context."""
    # Imported late, because most workers have no key and the import takes a tenth of their startup time.
    from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415
        BestAvailableEncryption,
        Encoding,
        PrivateFormat,
        load_pem_private_key,
    )

    password = secrets.token_hex(32).encode()
    key = load_pem_private_key(identity.key.encode(), None)
    encrypted_key = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(password))
    make_directory(scratch)
    handle, name = tempfile.mkstemp(prefix="identity-", suffix=".pem", dir=scratch)  # has mode 0600
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(encrypted_key + identity.chain.encode())
        context.load_cert_chain(name, password=password)
    finally:
        Path(name).unlink()
