"""The rule about words refuses other words for a segment, and retired words."""

import pytest
from planting import assert_has, refused_alone


@pytest.mark.parametrize(
    "line",
    [
        "// the shared memory block",
        "# a block of shared memory holds it",
        "a chunk of memory",
        "The Memory Region",
        "a SharedMemory block",
        "each mapped region",
        "an arena of arrays",
        "let block_bytes = 0;",
        "region_id = 1",
        "class SegmentBlock;",
        "shm_block = None",
        "SHM_CHUNK_NAME = 1",
        "pub(crate) const REGION_SIZE: u64 = 4096;",
        "struct ArenaAllocator;",
        "let regionSize = 1;",
        "int32_t shma_region_count(void);",
        "arena_max = 1",
        "subregion = 1",
        "memblock = 1",
        "The slab's free blocks are listed by size.",
        "Each block header has a generation.",
        "A slab is divided into chunks, each of one size class.",
        "the block's handle",
        "a `block` of shared memory",
        "pub struct Block { id: u64 }",
        "struct BlockRef<'a>(&'a u8);",
        "chunk = shmarray.attach(handle)",
        "typedef struct shma_chunk shma_chunk;",
        "fn attach_or_create_shared_memory_block() {}",
        "// the pool keeps warm\n// blocks",
    ],
)
def test_another_word_for_a_segment_is_refused(tmp_path, line):
    said = refused_alone("words", tmp_path, "README.md", f"\n{line}\n")
    assert_has(said, "README.md:2", "say segment")


@pytest.mark.parametrize(
    "line",
    [
        "the block of code that a call is given",
        "def map(source, &block)",
        "queue.put(1, block=False)",
        "A chunk of the stream; pickle reads it in chunks.",
        "for piece in bytes.chunks_exact(8) {",
        "a call that blocks until memory is free",
        "Pool.map(f, items, chunksize=1)",
        "BlockingIOError",
        "#[test]\nfn a_free_block_and_a_block_id_of_a_segment() {}",
        "  def test_a_block_writes_to_a_captured_shared_array",
        "regional",
    ],
)
def test_other_blocks_and_chunks_are_allowed(tmp_path, line):
    assert refused_alone("words", tmp_path, "README.md", line) == []


@pytest.mark.parametrize(
    "path", ["core/src/region.rs", "core/src/arena/mod.rs", "a/_shared_block.py"]
)
def test_the_name_of_a_file_counts(tmp_path, path):
    assert_has(refused_alone("words", tmp_path, path, "x\n"), f"{path}:0", "say segment")


@pytest.mark.parametrize(
    ("line", "instead"),
    [
        ("const PUNCHED: u64 = 4;", "DECOMMITTED"),
        ("struct Division;", "slab layout"),
        ("class Parcel:", "spawn payload"),
        ("the luggage of a message", "fds"),
        ("self._outbox.put(x)", "send queue"),
        ("family_keeper()", "lease"),
        ("let shelves = 1;", "free lists"),
        ("The last one closes the door.", "guard"),
    ],
)
def test_a_retired_word_is_refused(tmp_path, line, instead):
    said = refused_alone("words", tmp_path, "a.py", f"{line}\n")
    assert_has(said, "a.py:1", instead)


@pytest.mark.parametrize(
    "line", ["import shelve", "except ZeroDivisionError:", "a division of numbers"]
)
def test_other_uses_of_a_retired_word_are_allowed(tmp_path, line):
    assert refused_alone("words", tmp_path, "a.py", f"{line}\n") == []
