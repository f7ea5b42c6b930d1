"""The data sets: what they are, under which terms, and where they were published."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["SETS", "DataFile", "DataSet"]


@dataclass(frozen=True)
class DataFile:
    """Something to download.

    Attributes
    ----------
    url : str
        Where it is; ``.gz`` is unpacked, of a ``.zip`` the ``members`` are taken.
    sha256 : str
        Checksum of what is wanted, unpacked; of several members, of the list of their names and checksums.
    members : tuple of (str, str)
        Beginnings of names in the archive, and what they are replaced by here.
    """

    url: str
    sha256: str
    members: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class DataSet:
    """A data set.

    Attributes
    ----------
    about : str
        What it is.
    terms : str
        Under which terms it may be used.
    files : mapping of str to DataFile
        Files that are published one by one.
    archive : DataFile or None
        An archive that holds all files.
    """

    about: str
    terms: str
    files: Mapping[str, DataFile] = field(default_factory=dict)
    archive: DataFile | None = None


UCI = "https://archive.ics.uci.edu"
OLD_UCI = f"{UCI}/ml/machine-learning-databases"
NCBI = "https://raw.githubusercontent.com/spyysalo/ncbi-disease/master/conll"
CONLL = "https://www.clips.uantwerpen.be/conll2000/chunking"
VIDEOS = ("a1", "a2", "a3", "b1", "b3", "c1", "c3")

SETS = {
    "protein": DataSet(
        "secondary structure of proteins (Qian & Sejnowski 1988): amino acids, 3 labels",
        "For non-commercial research.",
        {
            f"protein-secondary-structure.{part}": DataFile(
                f"{OLD_UCI}/molecular-biology/protein-secondary-structure/protein-secondary-structure.{part}", sha256
            )
            for part, sha256 in (
                ("train", "d30a9151538dc5d82bcea09398cefe0d5d2147972bcf2bade6407fa728c66b32"),
                ("test", "19ef9733125778e6bb6df38963868ddf057318e2641ec11eb2e642f8b1b09d3d"),
            )
        },
    ),
    "hyphen": DataSet(
        "hyphenation of English words (Dietterich, Hao & Ashenfelter 2008): six letters around a gap, 2 labels",
        "Terms unstated.",
    ),
    "nettalk": DataSet(
        "pronunciation of English words (Sejnowski & Rosenberg 1987): letters; stresses, phonemes or both",
        "For non-commercial research. The draw of 1,000 + 1,000 words is not in the archive, only the dictionary.",
        {
            "nettalk.data": DataFile(
                f"{OLD_UCI}/undocumented/connectionist-bench/nettalk/nettalk.data",
                "bf5628ee4368e5348e22189a9e2236bf86853363dd5832d07f6d7223b614f8ab",
            )
        },
    ),
    "conll2000": DataSet(
        "shallow parsing (Tjong Kim Sang & Buchholz 2000): words and parts of speech, 22 tags in IOB2",
        "Data of a shared task.",
        {
            f"{part}.txt": DataFile(f"{CONLL}/{part}.txt.gz", sha256)
            for part, sha256 in (
                ("train", "82033cd7a72b209923a98007793e8f9de3abc1c8b79d646c50648eb949b87cea"),
                ("test", "73b7b1e565fa75a1e22fe52ecdf41b6624d6f59dacb591d44252bf4d692b1628"),
            )
        },
    ),
    "ncbi_disease": DataSet(
        "mentions of diseases (Doğan et al. 2014): words, 3 tags in IOB2",
        "Public domain.",
        {
            f"{part}.tsv": DataFile(f"{NCBI}/{part}.tsv", sha256)
            for part, sha256 in (
                ("train", "5f87b0de649eccff21e6d6e49e304aace808056ecae55225ea31602192517be9"),
                ("devel", "b4e1e7efcc2a35047bf2f3d281648357470e674f555d4a26a0049ac37d59cc61"),
                ("test", "8f088ce45dc4746592188f9e69de3d89d87f3bb8f0ed8c4a287d018123fa148d"),
            )
        },
    ),
    "letters": DataSet(
        "handwritten words (Kassel 1995, Taskar et al. 2004): 16 × 8 pixels, 26 letters", "Terms unstated."
    ),
    "rfid_activity": DataSet(
        "activities of older people with a worn sensor (Shinmoto Torres et al. 2013): 8 columns, 4 labels",
        "CC BY 4.0.",
        archive=DataFile(
            f"{UCI}/static/public/427/activity+recognition+with+healthy+older+people+using+a+batteryless+wearable+"
            "sensor.zip",
            "b3b884e74c0fec9863f7a3ff8ef09bccd8f13b91c8a2bfabd6d1552b0fe1e248",
            (
                ("Datasets_Healthy_Older_People/S1_Dataset/d", "S1_Dataset/d"),
                ("Datasets_Healthy_Older_People/S2_Dataset/d", "S2_Dataset/d"),
            ),
        ),
    ),
    "gesture_phase": DataSet(
        "phases of gestures (Madeo et al. 2013): 32 velocities and accelerations, 5 labels",
        "Terms unstated.",
        archive=DataFile(
            f"{UCI}/static/public/302/gesture+phase+segmentation.zip",
            "957794932ddb0bd96956c6ab2ee52cc6965860fdb6be11eaed277f1547db4577",
            tuple(
                (f"{video}_{part}.csv", f"{folder}/{video}_{part}.csv")
                for video in VIDEOS
                for part, folder in (("va3", "processed"), ("raw", "raw"))
            ),
        ),
    ),
    "occupancy": DataSet(
        "occupancy of a room by the minute (Candanedo & Feldheim 2016): 5 sensors, 2 labels",
        "Terms unstated.",
        archive=DataFile(
            f"{UCI}/static/public/357/occupancy+detection.zip",
            "cb416a737fb97f5c96a6bc96a6570a3e5af40d938e293045b0dd731771084d3a",
            (("datatest", "datatest"), ("datatraining", "datatraining")),
        ),
    ),
    "email_signature": DataSet(
        "signature lines of e-mails (mailgun/forge): lines, 2 labels",
        "CC BY 3.0.",
        archive=DataFile(
            "https://github.com/mailgun/forge/archive/refs/heads/master.zip",
            "cced446d61d0a5976fe9bc1c778ec7f25387f19c044ad0723c5dd907fde04b1b",
            (("forge-master/dataset/", "dataset/"),),
        ),
    ),
}
