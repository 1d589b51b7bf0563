"""Where a server listens."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from urllib.parse import urlsplit

from ..contract.errors import invalid_params


@dataclass(frozen=True)
class Origin:
    """An address, and what is shown there to be let in."""

    url: str
    host: str
    port: int
    authority: str
    prefix: str
    tls: ssl.SSLContext | None
    token: str | None


def origin_of(url: str, token: str | None, ssl_context: ssl.SSLContext | None) -> Origin:
    """The server a url names; refuses one that is no address of HTTP."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as thrown:
        raise invalid_params(f"url: {url} is no address: {thrown}") from thrown
    if parts.scheme not in ("http", "https") or not host:
        raise invalid_params(f"url: write it like http://127.0.0.1:8080, not {url}")
    if parts.username is not None or parts.query or parts.fragment:
        raise invalid_params("url: give an address alone, and the token as token")
    if token is not None and not (token.isascii() and token.isprintable() and " " not in token and token):
        raise invalid_params("token: it must be visible characters without blanks")
    tls = (ssl_context or ssl.create_default_context()) if parts.scheme == "https" else None
    return Origin(
        url=url.rstrip("/"),
        host=host,
        port=port or (443 if tls is not None else 80),
        authority=parts.netloc,
        prefix=parts.path.rstrip("/"),
        tls=tls,
        token=token,
    )
