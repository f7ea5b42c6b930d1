"""The model file: one zip of ``header.json`` and ``.npy`` arrays, without pickle, sealed by a checksum.

Layout::

    header.json              {"format": "seqboost-model", "version": 3, "arrays": [names], "header": {...}}
    arrays/<name>.npy        one member per array, little-endian, C order
    zip comment              "seqboost-model/0003 sha256=<hex>"  over every byte of the file before <hex>

Version 2 may hold shared trees: leaves with a value for each label. Version 3 may hold trees that send rows with
missing values both ways, or by surrogates. Files of earlier versions are read as well.

The seal stands last, so a file cut short has none; it covers the zip's own bookkeeping, so any changed byte is noticed.
Reading trusts nothing behind the seal either (anyone can compute one): sizes are compared with what is there before
memory is asked for, and arrays of objects are refused. What the arrays and fields mean is checked by the part of the
model that stores them.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import re
import zipfile
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqboost.core.exceptions import ModelFileError
from seqboost.core.replacing import replacing

__all__ = ["FORMAT_NAME", "FORMAT_VERSION", "read_model", "write_model"]

FORMAT_NAME = "seqboost-model"
FORMAT_VERSION = 3
HEADER_MEMBER = "header.json"
SEAL = re.compile(rb"seqboost-model/(\d{4}) sha256=([0-9a-f]{64})")
DIGEST_LENGTH = 64
SEAL_LENGTH = len(f"{FORMAT_NAME}/0001 sha256=") + DIGEST_LENGTH
EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time a zip can hold: same model, same bytes
MAX_RATIO = 100  # members that would shrink further are stored as they are, so that a reader can refuse bombs
MAX_NESTING = 100  # lists and mappings of the header inside one another
PLAIN_KINDS = "biufUS"  # kinds of dtype that hold plain values
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-/]*")


def write_model(path: str | os.PathLike[str], header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write a model file, in one step: a reader sees the old file or the new one, never a part.

    Parameters
    ----------
    path : str or path-like
        Where to write. An existing file is replaced.
    header : mapping
        Anything JSON can hold.
    arrays : mapping of str to ndarray
        Arrays of plain values (bool, integers, floats, fixed-width text or bytes).

    Raises
    ------
    TypeError, ValueError
        If the header or an array cannot be stored; nothing is written.
    ModelFileError
        If ``path`` is a folder.
    OSError
        If the file cannot be written; an existing one is left as it was.

    Examples
    --------
    >>> import numpy as np, tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "model.seqboost")
    >>> write_model(path, {"labels": ["a", "b"]}, {"value": np.arange(3)})
    >>> header, arrays = read_model(path)
    >>> header["labels"], arrays["value"]
    (['a', 'b'], array([0, 1, 2]))
    """
    target = os.path.realpath(os.fspath(path))
    if os.path.isdir(target):
        raise ModelFileError(f"cannot write a model to {os.fspath(path)!r}: it is a folder; name a file inside it")
    content = _sealed(_packed(header, arrays))
    with replacing(target) as temporary, open(temporary, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    _sync_folder(os.path.dirname(target))


def read_model(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Read a model file.

    Parameters
    ----------
    path : str or path-like
        The file.

    Returns
    -------
    header : dict
        As given to `write_model`, as JSON gives it back.
    arrays : dict of str to ndarray
        As given to `write_model`.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ModelFileError
        If it is not a model file, is damaged or cut short, or was written by a newer seqboost.
    """
    name = os.fspath(path)
    if os.path.isdir(name):
        raise ModelFileError(f"{name!r} is a folder, expected a model file; name the file inside it")
    if not os.path.exists(name):
        raise FileNotFoundError(f"there is no model file {name!r}; check the path, or save a model there first")
    if not os.path.isfile(name):
        raise ModelFileError(f"{name!r} is not a regular file, expected a model file; copy the model to a disk first")
    with open(name, "rb") as file:
        content = file.read()
    _check_seal(name, content)
    try:
        return _unpacked(name, content)
    except ModelFileError:
        raise
    except Exception as error:  # a forged file can make zipfile, json and numpy raise nearly anything
        raise _damaged(name, f"its content cannot be read ({type(error).__name__})") from error


def _packed(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Make the zip, with a comment of zeros where the seal will be."""
    manifest = {"format": FORMAT_NAME, "version": FORMAT_VERSION, "arrays": list(arrays), "header": dict(header)}
    members = {HEADER_MEMBER: json.dumps(manifest, ensure_ascii=False, allow_nan=False, indent=1).encode()}
    for array_name, array in arrays.items():
        if not NAME.fullmatch(array_name):
            raise ValueError(f"array name {array_name!r} cannot be stored; use letters, digits, '_', '-', '.' and '/'")
        members[_member(array_name)] = _npy(array_name, array)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for member, data in members.items():
            info = zipfile.ZipInfo(member, EPOCH)
            info.create_system = 3
            info.external_attr = 0o644 << 16
            shrunk = len(zlib.compress(data, 6))
            worth = shrunk < len(data) < MAX_RATIO // 2 * shrunk
            info.compress_type = zipfile.ZIP_DEFLATED if worth else zipfile.ZIP_STORED
            archive.writestr(info, data, compresslevel=6)
        archive.comment = b"\0" * SEAL_LENGTH
    return buffer.getvalue()


def _npy(array_name: str, array: NDArray[Any]) -> bytes:
    array = np.asarray(array, order="C")
    if array.dtype.kind not in PLAIN_KINDS or array.dtype.itemsize == 0:
        raise TypeError(f"array {array_name!r} has dtype {array.dtype}, expected plain numbers or fixed-width text")
    buffer = io.BytesIO()
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    np.lib.format.write_array(buffer, little, version=(1, 0), allow_pickle=False)
    return buffer.getvalue()


def _member(array_name: str) -> str:
    return f"arrays/{array_name}.npy"


def _sealed(packed: bytes) -> bytes:
    body = packed[:-SEAL_LENGTH] + f"{FORMAT_NAME}/{FORMAT_VERSION:04d} sha256=".encode()
    return body + hashlib.sha256(body).hexdigest().encode()


def _check_seal(name: str, content: bytes) -> None:
    """Check that the file is ours, not too new, and whole."""
    if not content:
        raise _damaged(name, "it is empty")
    seal = SEAL.fullmatch(content[-SEAL_LENGTH:])
    if seal is None:
        if content[:4] == b"PK\x03\x04" and HEADER_MEMBER.encode() in content[:64]:
            raise _damaged(name, "its end is missing or changed")
        raise ModelFileError(f"{name!r} is not a seqboost model file; expected one written by save()")
    if hashlib.sha256(content[:-DIGEST_LENGTH]).hexdigest().encode() != seal[2]:
        raise _damaged(name, "its checksum does not agree with its content")
    _check_version(name, int(seal[1]))


def _check_version(name: str, version: Any) -> None:
    if not isinstance(version, int) or version < 1:
        raise _damaged(name, f"it names the format version {version!r}")
    if version > FORMAT_VERSION:
        raise ModelFileError(
            f"{name!r} was written by a newer seqboost (file format {version}, this one reads up to {FORMAT_VERSION}); "
            "upgrade seqboost to read it"
        )


def _unpacked(name: str, content: bytes) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {info.filename: info for info in archive.infolist()}
        if len(members) != len(archive.infolist()):
            raise _damaged(name, "a part stands in it twice")
        if HEADER_MEMBER not in members:
            raise _damaged(name, f"its part {HEADER_MEMBER!r} is missing")
        if sum(info.file_size for info in members.values()) > MAX_RATIO * len(content):
            raise _damaged(name, "it declares more than it can hold")
        manifest = _parsed(name, _member_bytes(name, archive, members[HEADER_MEMBER]))
        if not isinstance(manifest, dict) or manifest.get("format") != FORMAT_NAME:
            raise _damaged(name, "its header is not that of a seqboost model")
        _check_version(name, manifest.get("version"))
        header, array_names = manifest.get("header"), manifest.get("arrays")
        if not isinstance(header, dict) or not isinstance(array_names, list):
            raise _damaged(name, "its header lacks the list of arrays or the description of the model")
        if not all(isinstance(array_name, str) for array_name in array_names):
            raise _damaged(name, "it has an array whose name is no string")
        expected = {HEADER_MEMBER, *map(_member, array_names)}
        if expected != set(members):
            strange = ", ".join(repr(member) for member in sorted(expected ^ set(members))[:3])
            raise _damaged(name, f"its parts are not those that its header lists (see {strange})")
        arrays = {
            array_name: _array(name, array_name, _member_bytes(name, archive, members[_member(array_name)]))
            for array_name in array_names
        }
    return header, arrays


def _parsed(name: str, text: bytes) -> Any:
    """Read the header; NaN, infinities and deep nesting, which no file of ours has, are refused."""

    def refuse(number: str) -> float:
        raise _damaged(name, f"its header holds the number {number[:20]}")

    def finite(number: str) -> float:
        value = float(number)
        return value if math.isfinite(value) else refuse(number)

    manifest = json.loads(text, parse_float=finite, parse_constant=refuse)
    level: list[Any] = [[manifest]]
    depth = 0
    while level:
        if depth > MAX_NESTING:
            raise _damaged(name, f"its header is nested more than {MAX_NESTING} levels deep")
        parts = (node.values() if isinstance(node, dict) else node for node in level)
        level, depth = [node for part in parts for node in part if isinstance(node, (dict, list))], depth + 1
    return manifest


def _member_bytes(name: str, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """Unpack one member, never more than it declares nor than a file of ours can hold."""
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise _damaged(name, f"its part {info.filename!r} is packed in an unknown way")
    if info.file_size > MAX_RATIO * max(info.compress_size, 1):
        raise _damaged(name, f"its part {info.filename!r} declares more than it can hold")
    with archive.open(info) as member:
        data = member.read(info.file_size + 1)
    if len(data) != info.file_size:
        raise _damaged(name, f"its part {info.filename!r} does not have the size it declares")
    return data


def _array(name: str, array_name: str, data: bytes) -> NDArray[Any]:
    """Read an ``.npy``; its type and shape must account for every byte."""
    buffer = io.BytesIO(data)
    if np.lib.format.read_magic(buffer) != (1, 0):
        raise _damaged(name, f"its array {array_name!r} is of an unknown format")
    shape, fortran_order, dtype = np.lib.format.read_array_header_1_0(buffer)
    n_bytes = len(data) - buffer.tell()
    plain = dtype.kind in PLAIN_KINDS and dtype.names is None and not dtype.hasobject and dtype.itemsize > 0
    if not plain or fortran_order or min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != n_bytes:
        raise _damaged(name, f"its array {array_name!r} is not what it declares ({dtype}, shape {shape})")
    array = np.frombuffer(data, dtype=dtype, offset=buffer.tell()).reshape(shape)
    return array.astype(dtype.newbyteorder("="))


def _damaged(name: str, complaint: str) -> ModelFileError:
    return ModelFileError(f"{name!r} is a damaged model file: {complaint}; copy it anew, or save the model again")


def _sync_folder(folder: str) -> None:
    """Make the new name durable, where the system lets a folder be synced."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    except OSError:
        pass
    finally:
        os.close(descriptor)
