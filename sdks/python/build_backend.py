"""Builds the package with the standard library alone, so that it can be installed without a network.

The hooks are those of PEP 517 and PEP 660; a wheel is a zip of the files, what they are called and their hashes.
"""

from __future__ import annotations

import base64
import hashlib
import io
import re
import tarfile
import zipfile
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parent
_TAG = "py3-none-any"


def build_wheel(wheel_directory: str, config_settings: Any = None, metadata_directory: Any = None) -> str:
    """Writes the wheel and gives its name."""
    return _write_wheel(wheel_directory, {path: (_ROOT / path).read_bytes() for path in _package_files()})


def build_editable(wheel_directory: str, config_settings: Any = None, metadata_directory: Any = None) -> str:
    """The same for whoever works on the package: the wheel points to this folder."""
    return _write_wheel(wheel_directory, {"rkat.pth": f"{_ROOT}\n".encode()})


def build_sdist(sdist_directory: str, config_settings: Any = None) -> str:
    """Writes what a wheel can be built from and gives its name."""
    base = f"{_project()['name']}-{_project()['version']}"
    own = ["README.md", "build_backend.py", "pyproject.toml"]
    files = {path: (_ROOT / path).read_bytes() for path in [*_package_files(), *own]}
    with tarfile.open(Path(sdist_directory) / f"{base}.tar.gz", "w:gz", format=tarfile.PAX_FORMAT) as archive:
        for path, data in {**files, "PKG-INFO": _metadata()}.items():
            entry = tarfile.TarInfo(f"{base}/{path}")
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return f"{base}.tar.gz"


def _write_wheel(folder: str, files: dict[str, bytes]) -> str:
    base = f"{_project()['name']}-{_project()['version']}"
    about = f"Wheel-Version: 1.0\nGenerator: rkat\nRoot-Is-Purelib: true\nTag: {_TAG}\n"
    info = f"{base}.dist-info"
    whole = {**files, f"{info}/METADATA": _metadata(), f"{info}/WHEEL": about.encode()}
    rows = [f"{path},sha256={_digest(data)},{len(data)}" for path, data in whole.items()]
    whole[f"{info}/RECORD"] = "\n".join([*rows, f"{info}/RECORD,,", ""]).encode()
    name = f"{base}-{_TAG}.whl"
    with zipfile.ZipFile(Path(folder) / name, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in whole.items():
            archive.writestr(path, data)
    return name


def _package_files() -> list[str]:
    paths = [path for path in (_ROOT / "rkat").rglob("*") if path.suffix == ".py" or path.name == "py.typed"]
    return sorted(path.relative_to(_ROOT).as_posix() for path in paths)


def _metadata() -> bytes:
    project = _project()
    head = {
        "Metadata-Version": "2.1",
        "Name": project["name"],
        "Version": project["version"],
        "Summary": project["description"],
        "License": "MIT",
        "Requires-Python": project["requires-python"],
        "Description-Content-Type": "text/markdown",
    }
    lines = "".join(f"{field}: {value}\n" for field, value in head.items())
    return f"{lines}\n{(_ROOT / 'README.md').read_text(encoding='utf-8')}".encode()


def _project() -> dict[str, str]:
    """The plain texts of pyproject.toml; Python 3.10 has no parser for the rest."""
    text = (_ROOT / "pyproject.toml").read_text(encoding="utf-8")
    return dict(re.findall(r'^([\w-]+) = "(.*)"$', text, re.MULTILINE))


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
