"""Rules of MVAPICH2 2.1: its tables for unknown processors, tuned on 16-core machines with FDR.

A row of a table has a number of ranks, and a letter for each message size 1, 2, 4 and so on. Other
sizes and numbers of ranks take the next smaller power of two, or what is nearest in the table. The
last size of each table of the library is not here, as its own look-up never reaches it.
"""

from __future__ import annotations

from weft.workload.collectives.libraries.library_registry import (
    AlgorithmChoice,
    LibraryCall,
    library,
    number_below,
    rows_below,
)


def _rows(text: str) -> dict[int, str]:
    words = text.split()
    return dict(zip(map(int, words[::2]), words[1::2], strict=True))


#: d recursive doubling, s Rabenseifner; upper case: among one leader a machine, after a reduction
#: in shared memory. Such a reduction by messages: E for D; by an allreduce: F for D, U for S.
_ALLREDUCE_ALONE = _rows("""
2 sddddddddddddsdsss 4 ssdddddddddddsssss 8 sdddddddddddssssss 16 dDssDdDDddddSsssss
32 dsDDsdDDdddEssssss
""")
_ALLREDUCE = _rows("""
16 SSSSSDSSFdssssssss 32 DDDDDDDDDEEsssssss 64 SDDDDDDDDEFFFsssss
128 DDDDDDDDDEEEUUssss 256 SDDSDDDDDFFFUUssss 512 SSDSDDDDDDFDUUssss
""")
#: A radix for knomial trees of segments; b binomial, d and r scatter and allgather. Upper case, and
#: radices: among one leader a machine.
_BCAST_ALONE = _rows("""
2 8222822448828422222b 4 4844444448888882222R 8 8888888888888442222r
16 4444444444444422222B 32 8888888888888444222r
""")
_BCAST = _rows("""
16 88444222B44RBBBR8BDB 32 88822848284222288444 64 48488884888888842222
128 88888888888888422222 256 44844444444484422222 512 88888888888884442222
""")
#: d recursive doubling, c the same in the order of machines, b Bruck, r ring.
_ALLGATHER_ALONE = _rows("""
2 rrrrrrrdrrrrrrrrdrdr 4 dddddddddddddddddddr 8 ddcbccccddcdcddddrrr
16 dccccdddddcdddddddrr 32 bbbdcdddcccbdddddrrr
""")
_ALLGATHER = _rows("""
16 dddddddddddrrrrrrrrr 32 ddddddddcccrrrrrrrrr 64 dddddddccccrrrrrrrrr
128 ddddddcccccrrrrrrrrr 256 dddddcccccccrrrrrrrr 512 ddcddcccccccrrrrrrrr
1024 dbcbcccccccrrrrrrrr
""")
#: d recursive doubling, b Bruck, l 32 peers at once, p pairwise, i in place.
_ALLTOALL_ALONE = _rows("""
2 p 4 lllllllllllllllllppp 8 dldllldbllblllllllll 16 dddbdddbbbbbllllllll
32 bbbbbbbbbbblllllllll
""")
_ALLTOALL = _rows("""
16 dddddddbbblllllppipp 32 dddddbbbbbbbilliiipp 64 dddbbbbbbbbbbppppppp
128 dbbbbbbbbbbbpppppppp 256 bbbbbbbbbbbbpppppppp 512 bbbbbbbbbbbbpppppppl
1024 bbbbbbbbbbbbbl
""")
#: By the bytes of all blocks: 1 reduce and scatter, 2 recursive halving, 3 pairwise.
_REDUCE_SCATTER = rows_below("""
9: 1 257 2 16385 3; 17: 1 65 2 65537 3; 33: 1 65 2 131073 3; 65: 1 1025 2 262145 3;
257: 1 129 2; *: 1 257 2
""")
_TABLES = {
    "allreduce": (_ALLREDUCE_ALONE, _ALLREDUCE),
    "bcast": (_BCAST_ALONE, _BCAST),
    "allgather": (_ALLGATHER_ALONE, _ALLGATHER),
    "alltoall": (_ALLTOALL_ALONE, _ALLTOALL),
}
_BCASTS = {"b": "binomial", "d": "scatter-doubling", "r": "scatter-ring"}
_ALLGATHERS = {"b": "bruck", "c": "recursive-doubling", "d": "recursive-doubling", "r": "ring"}
_ALLTOALLS = {
    "b": "bruck", "d": "recursive-doubling", "i": "in-place", "l": "linear", "p": "pairwise",
}  # fmt: skip
_REDUCE_SCATTERS = {1: "reduce-scatter", 2: "recursive-halving", 3: "pairwise"}


@library("mvapich2", source="MVAPICH2 2.1: src/mpi/coll/tuning/*/gen2_INTEL_XEON_E5_2680_16_*")
def mvapich(call: LibraryCall) -> AlgorithmChoice | None:
    """MVAPICH2 2.1 on processors for which it has no tables, without hardware multicast and CMA.

    It has tables for 1, 2 and 16 ranks on each machine, and takes those for 1 for other numbers.
    """
    if call.collective == "reduce-scatter":
        number = number_below(_REDUCE_SCATTER, call.num_ranks, call.total)
        return AlgorithmChoice(_REDUCE_SCATTERS[number])
    if call.collective not in _TABLES:
        return None
    if call.per_machine == 2:
        return AlgorithmChoice("", why="from its tables for 2 ranks on each machine")
    full = call.per_machine == 16
    letter = _letter(_TABLES[call.collective][full], call)
    two_level = not letter.islower() and call.per_machine != 1
    if call.collective == "alltoall":
        return AlgorithmChoice(_ALLTOALLS[letter])
    if call.collective == "allgather":
        why = "of ranks in the order of machines" if letter == "c" else ""
        return AlgorithmChoice(_ALLGATHERS[letter], why=why)
    if letter.isdigit():
        knomial = {"radix": int(letter), "segment": 8192}
        return AlgorithmChoice("two-level" if two_level else "tree", knomial)
    if call.collective == "bcast":
        between = _BCASTS[letter.lower()]
        options, why = {}, "" if full else "where it uses knomial trees within machines"
    else:
        between = "recursive-doubling" if letter in "dDEF" else "rabenseifner"
        options = {"within": "linear" if letter in "DS" else "binomial"}
        why = "where it uses an allreduce within machines" if letter in "FU" else ""
    if two_level:
        return AlgorithmChoice("two-level", {"between": between, **options}, why)
    return AlgorithmChoice(between)


def _letter(rows: dict[int, str], call: LibraryCall) -> str:
    row = rows[min(max(1 << (call.num_ranks.bit_length() - 1), min(rows)), max(rows))]
    return row[min(max(call.size, 1).bit_length() - 1, len(row) - 1)]
