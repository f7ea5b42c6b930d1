"""How much memory a fit needs, and how much there is."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from seqboost.chain.potentials import MIN_CHUNKS
from seqboost.core.exceptions import MemoryLimitError
from seqboost.core.offsets import CHUNK_POSITIONS
from seqboost.trees.nodes import histogram_slots
from seqboost.trees.quantise import MAX_DECIDING, n_lanes

__all__ = ["FitMemory", "available_bytes", "row_copies", "segment_length"]

BYTES_PER_CELL = 4 * 4  # scores before and after a round, gradient, curvature: float32 each
OVERHEAD = 1.4  # measured: peaks of real fits are 0.9 to 1.45 times the sum of what is counted here
ROW_BYTES, WEIGHT_BYTES = 4, 4  # of a row in a segment or a leaf, and of its weight
WEIGHTED_ROW_BYTES = ROW_BYTES + 2 * WEIGHT_BYTES  # in segments: the weight also as an integer
JOINT_LABELS = 10  # potentials="auto" is joint up to this number of labels ...
JOINT_SHARE = 0.5  # ... if that takes at most this share of the available memory


def available_bytes() -> int | None:
    """Return the memory that could be had without swapping, or None if the system does not tell.

    A container's limit counts as well, and that of the process (``ulimit -v``).
    """
    known = [n for n in (_free_bytes(), _container_bytes(), _process_bytes()) if n is not None]
    return min(known) if known else None


def _container_bytes() -> int | None:
    """Return what a control group leaves to this process."""
    folder = Path("/sys/fs/cgroup")
    try:
        limit, used = ((folder / name).read_text(encoding="ascii").strip() for name in ("memory.max", "memory.current"))
        return max(0, int(limit) - int(used)) if limit.isdigit() else None
    except (OSError, ValueError):
        return None


def _process_bytes() -> int | None:
    """Return what the limit on its address space leaves to this process."""
    try:
        import resource  # not on Windows

        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        if limit == resource.RLIM_INFINITY:
            return None
        used = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
        return max(0, limit - used)
    except (ImportError, OSError, ValueError):
        return None


def _free_bytes() -> int | None:
    """Return the memory that the system could give."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def row_copies(rate: float, n_leaves: int) -> tuple[float, float]:
    """Estimate how often a row stands in the segments of a tree, and how often in its leaves, if rows go both ways.

    With a share m of values missing and even splits, level d holds (1 + m)^d times the rows; at each level the smaller
    half of them is written anew at the end of the segments.
    """
    levels = [(1.0 + rate) ** d for d in range(1, int(max(1, n_leaves) - 1).bit_length() + 1)]
    return 1.0 + sum(levels) / 2, levels[-1] if levels else 1.0


def segment_length(n_copies: float) -> float:
    """Return how many copies of all rows the segments hold at most: they begin with two, and are doubled when full."""
    length = 2.0
    while length < n_copies:
        length *= 2
    return length if length == 2.0 else 1.5 * length  # while they are doubled, the old ones are alive


@dataclass(frozen=True)
class FitMemory:
    """Sizes that decide how much memory a fit takes.

    Attributes
    ----------
    n_rows, n_labels, order : int
        Positions, labels and Markov order.
    n_cells : int
        Cells of one histogram.
    max_leaf_nodes, n_threads : int
        Histograms per grower, and growers.
    data_bytes : int
        The binned rows.
    shared : bool
        Whether one tree is grown for all labels.
    n_bags : int
        Trees of each label in a round, whose partitions live until all of them are added.
    dividing_rate : float or None
        Share of missing values that send a row both ways; None: rows have no weights.
    """

    n_rows: int
    n_labels: int
    order: int
    n_cells: int
    max_leaf_nodes: int
    n_threads: int
    data_bytes: int
    shared: bool = False
    n_bags: int = 1
    dividing_rate: float | None = None

    def total(self, *, joint: bool) -> int:
        """Return an estimate of the bytes that a fit allocates."""
        contexts = self.n_labels**self.order
        slots = contexts if joint else 1
        cells = self.n_rows * self.n_labels * slots * BYTES_PER_CELL
        extended = contexts * 2 if self.order else 1  # at most: contexts near the start of a sequence are extra
        table = 8 * extended * self.n_labels
        if joint:
            messages, tables = 0, 4 * table
        else:
            messages = 16 * self.n_rows * contexts
            tables = (8 + 2 * max(MIN_CHUNKS, 1 + self.n_rows // CHUNK_POSITIONS)) * table
        growing = self._growers(slots, extended if joint else 1)
        return int(OVERHEAD * (cells + growing + messages + tables + self.data_bytes))

    def _growers(self, slots: int, extended: int) -> int:
        """Return the bytes of growers, one for each thread or one of shared trees, and of the leaves of a round."""
        n_growers, n_trees = (1, 1) if self.shared else (min(self.n_threads, self.n_labels), self.n_labels)
        n_outputs = min(self.n_labels, MAX_DECIDING) if self.shared else 1
        vector, sums = 4 * n_lanes(n_outputs), 8 * n_outputs
        kept = histogram_slots(self.n_cells, vector + 4, self.max_leaf_nodes)
        histograms = kept * (self.n_cells * (vector + 4) + (extended * sums if slots > 1 else 0))
        # Vectors and cells; segments, in which a row stands once for each division of its contexts, and spare ones.
        by_contexts = float(min(slots, 4))
        in_segments, in_leaves = by_contexts * ROW_BYTES, by_contexts * ROW_BYTES
        if self.dividing_rate is not None:
            n_copies, n_leaves = row_copies(self.dividing_rate, self.max_leaf_nodes)
            in_segments = WEIGHTED_ROW_BYTES * segment_length(n_copies + by_contexts - 1)
            in_leaves = (ROW_BYTES + WEIGHT_BYTES) * (n_leaves + by_contexts - 1)
        has_node_vectors = slots > 1 or self.dividing_rate is not None
        of_row = vector * (1 + has_node_vectors) + (sums * slots if slots > 1 else 0) + 5 + in_segments
        of_leaves = self.n_bags * n_trees * (4 + in_leaves)
        masks = 2 * self.max_leaf_nodes * extended
        return int(n_growers * (histograms + masks + self.n_rows * of_row) + self.n_rows * of_leaves)

    def prefers_joint(self) -> bool:
        """Tell what ``potentials="auto"`` means: joint for few labels that fit comfortably."""
        if self.order == 0 or self.n_labels > JOINT_LABELS:
            return False
        available = available_bytes()
        return available is None or self.total(joint=True) <= JOINT_SHARE * available

    def check(self, *, joint: bool) -> None:
        """Raise MemoryLimitError if the fit would not fit, naming the remedy."""
        need, available = self.total(joint=joint), available_bytes()
        if available is None or need <= available:
            return
        if joint and self.total(joint=False) <= available:
            remedy = f"potentials='factored' would need about {_gib(self.total(joint=False))}"
        elif self.order > 1:
            remedy = "use a lower order"
        else:
            remedy = "train on fewer sequences, or lower max_bins or max_leaf_nodes"
        raise MemoryLimitError(
            f"fit would need about {_gib(need)} for {self.n_rows:,} positions, {self.n_labels} labels and order "
            f"{self.order} with {'joint' if joint else 'factored'} potentials, but only {_gib(available)} is "
            f"available; {remedy}"
        )


def _gib(n_bytes: int) -> str:
    return f"{n_bytes / 2**30:.1f} GiB"
