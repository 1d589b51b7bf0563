"""The one error class."""

from __future__ import annotations

from typing import Any

from .contract.errors import ERRORS


class RkatError(Exception):
    """A code of the server's table of errors, or one of the client's own, and a sentence that says what and which.

    The client's own codes have the category `client`: BINARY_NOT_FOUND, CONNECTION_FAILED, CONNECTION_CLOSED,
    VERSION_MISMATCH, INVALID_RESPONSE, STREAM_OVERFLOW.
    """

    def __init__(self, code: str, message: str, *, category: str | None = None, details: Any = None) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message
        self.category = category or (ERRORS[code].category if code in ERRORS else "client")
        self.details = details

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


def error_of_wire(wire: object, *, said_by: str) -> RkatError:
    """An error as every surface sends it: `{code, category, message, details?}`."""
    if not isinstance(wire, dict) or not isinstance(wire.get("code"), str):
        return RkatError("INVALID_RESPONSE", f"{said_by} failed without saying how: {str(wire)[:200]}")
    message = wire.get("message")
    return RkatError(
        wire["code"],
        message if isinstance(message, str) else "the server gave no reason",
        category=str(wire.get("category", "internal")),
        details=wire.get("details"),
    )


def invalid_response(message: str) -> RkatError:
    """An answer that is not what the contract says."""
    return RkatError("INVALID_RESPONSE", message)


def invalid_params(message: str) -> RkatError:
    """An input that is refused before it is sent."""
    return RkatError("INVALID_PARAMS", message)
