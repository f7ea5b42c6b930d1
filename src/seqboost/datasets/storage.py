"""Where data sets are found: a folder of the user's, the cache, or a public archive.

Looked for in this order:

1. ``$SEQBOOST_DATA/<set>/<file>``;
2. ``$SEQBOOST_CACHE/data/<set>/<file>`` (``~/.cache/seqboost`` unless set);
3. the archive the set was published in: what comes is compared with a checksum and kept in the cache.

Nothing is downloaded but by a loader that needs it, and data sets are never part of this package: see
:data:`seqboost.datasets.registry.SETS` for the terms of each.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import zipfile
from pathlib import Path

from seqboost.core.exceptions import DataFileError, MissingExtraError
from seqboost.core.replacing import replacing
from seqboost.datasets.registry import SETS, DataFile, DataSet

__all__ = ["cache_folder", "data_files", "find_files"]


def cache_folder() -> Path:
    """Return the folder that downloads and generated sets are kept in."""
    return Path(os.environ.get("SEQBOOST_CACHE") or Path.home() / ".cache" / "seqboost")


def _folders(name: str) -> list[Path]:
    given = os.environ.get("SEQBOOST_DATA")
    return [*([Path(given) / name] if given else []), cache_folder() / "data" / name]


def data_files(name: str, *files: str) -> list[Path]:
    """Return the paths of some files of a set; those that are not there are downloaded.

    Raises
    ------
    DataFileError
        If a file is nowhere to be had, with what can be done about it.
    MissingExtraError
        If it could be downloaded, but pooch is not installed.
    """
    return [_found(SETS[name], name, file) for file in files]


def find_files(name: str, pattern: str) -> list[Path]:
    """Return the files of a set that match a pattern, sorted by name; the set is downloaded if there are none."""
    for folder in _folders(name):
        found = sorted(folder.glob(pattern))
        if found:
            return found
    _download(SETS[name], name, SETS[name].archive, None)
    return sorted(_folders(name)[-1].glob(pattern))


def _found(known: DataSet, name: str, file: str) -> Path:
    for folder in _folders(name):
        if (folder / file).is_file():
            return folder / file
    source = known.files.get(file, known.archive)
    _download(known, name, source, file)
    return _folders(name)[-1] / file


def _download(known: DataSet, name: str, source: DataFile | None, file: str | None) -> None:
    """Fetch a file or a whole archive into the cache."""
    what = f"{name}/{file}" if file else name
    looked = ", ".join(map(str, _folders(name)))
    by_hand = f"put it into the folder $SEQBOOST_DATA/{name} by hand. {known.terms}"
    if source is None:
        raise DataFileError(
            f"the data set {what} is not here (looked in {looked}), and there is no archive to download it from; "
            f"{by_hand}"
        )
    try:
        import pooch
    except ImportError as error:
        raise MissingExtraError(
            f"the data set {what} is not here (looked in {looked}), and downloading it needs pooch, which is not "
            f'installed: pip install "seqboost[datasets]". Or {by_hand}'
        ) from error
    folder = _folders(name)[-1]
    folder.mkdir(parents=True, exist_ok=True)
    scratch = cache_folder() / "downloads"
    try:
        fetched = Path(pooch.retrieve(source.url, known_hash=None, path=scratch, progressbar=False))
    except Exception as error:  # pooch and requests have many; all mean that nothing came
        raise DataFileError(
            f"the data set {what} could not be downloaded from {source.url} ({type(error).__name__}). "
            f"Is there a network? Without one, {by_hand}"
        ) from None
    try:
        _unpack(fetched, source, folder, file)
    finally:
        fetched.unlink(missing_ok=True)


def _unpack(fetched: Path, source: DataFile, folder: Path, file: str | None) -> None:
    """Take what is wanted out of what came, check it, and put it in its place whole."""
    if source.url.endswith(".zip"):
        members = _members(fetched, source)
    else:
        content = fetched.read_bytes()
        members = {str(file): gzip.decompress(content) if source.url.endswith(".gz") else content}
    found = digest(members)
    if found != source.sha256:
        raise DataFileError(
            f"what came from {source.url} is not what was expected (checksum {found[:16]}… instead of "
            f"{source.sha256[:16]}…); nothing was kept. Get the file from elsewhere and put it into {folder}."
        )
    for name, content in members.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        with replacing(str(target)) as temporary:
            Path(temporary).write_bytes(content)


def _members(fetched: Path, source: DataFile) -> dict[str, bytes]:
    """Return the members of an archive that belong to the set, under the names they have here."""
    members: dict[str, bytes] = {}
    with zipfile.ZipFile(fetched) as archive:
        for info in archive.infolist():
            for prefix, place in source.members:
                if not info.is_dir() and info.filename.startswith(prefix):
                    rest = info.filename.removeprefix(prefix)
                    if ".." not in Path(rest).parts and not Path(rest).is_absolute():
                        members[place + rest] = archive.read(info)
    return members


def digest(members: dict[str, bytes]) -> str:
    """Return the checksum of one file, or of many with their names."""
    if len(members) == 1:
        return hashlib.sha256(next(iter(members.values()))).hexdigest()
    total = hashlib.sha256()
    for name in sorted(members):
        total.update(f"{name} {hashlib.sha256(members[name]).hexdigest()}\n".encode())
    return total.hexdigest()
