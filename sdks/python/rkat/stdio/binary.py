"""Which program serves."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence

from ..errors import RkatError


def server_command(
    command: str | os.PathLike[str] | None, args: Sequence[str], env: Mapping[str, str]
) -> tuple[str, ...]:
    """The program and its arguments: the one given, MEERKAT_BIN_PATH, `rkat-rpc`, or `rkat` with `rpc`."""
    path = env.get("PATH")
    if command is not None:
        return _with_args(_find(os.fspath(command), path, said="command"), args)
    from_env = env.get("MEERKAT_BIN_PATH", "")
    if from_env != "":
        return _with_args(_find(from_env, path, said="MEERKAT_BIN_PATH"), args)
    found = shutil.which("rkat-rpc", path=path) or shutil.which("rkat", path=path)
    if found is None:
        advice = "install rkat with npm, or name the program with command or MEERKAT_BIN_PATH"
        raise RkatError("BINARY_NOT_FOUND", f"neither rkat-rpc nor rkat is on the PATH; {advice}")
    return _with_args(found, args)


def _find(name: str, path: str | None, *, said: str) -> str:
    found = shutil.which(name, path=path)
    if found is None:
        raise RkatError(
            "BINARY_NOT_FOUND", f"{said}: {name} is no program that can be run; give its path, or put it on the PATH"
        )
    return found


def _with_args(program: str, args: Sequence[str]) -> tuple[str, ...]:
    # The whole command line serves JSON-RPC only when it is asked to.
    needs_rpc = os.path.basename(program) == "rkat" and tuple(args[:1]) != ("rpc",)
    return (program, "rpc", *args) if needs_rpc else (program, *args)
