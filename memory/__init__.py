"""Memory of past failures: what failed, what was tried, what came of it.

Importing this is light; Chroma and torch are imported when a memory is opened and used.
"""

from __future__ import annotations

from memory.embedding import Embedder, HashingEmbedder, default_embedder
from memory.errors import StoreError
from memory.failure_memory import FailureMemory
from memory.recall import Recalled, Similar
from memory.records import EditOutcome, FailureEpisode, RealisedEffect, Record, log2_change, parse_record

#: ``memory`` is a common name: harness_agents checks this to see that it got ours.
__harness_agents__ = True

__all__ = [
    "EditOutcome",
    "Embedder",
    "FailureEpisode",
    "FailureMemory",
    "HashingEmbedder",
    "RealisedEffect",
    "Recalled",
    "Record",
    "Similar",
    "StoreError",
    "default_embedder",
    "log2_change",
    "parse_record",
]
