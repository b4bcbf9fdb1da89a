"""Rules of MVAPICH2 2.2: the tables that it uses by default, tuned on 16-core machines with FDR.

A row of a table has a number of ranks, and a letter for each message size 1, 2, 4 and so on. Other
sizes and numbers of ranks take the next smaller power of two, or what is nearest in the table.
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


#: d recursive doubling, s Rabenseifner; upper case: among one leader a machine.
_ALLREDUCE_ALONE = _rows("""
2 sddddddddddddsdssss 4 ssdddddddddddssssss 8 sdddddddddddsssssss 16 ddssdddddddddssssss
32 dsddsdddddddsssssss
""")
_ALLREDUCE = _rows("""
16 SSSSSDSSDdsssssssss 32 DDDDDDDDDDDssssssss 64 SDDDDDDDDDDDDssssss
128 DDDDDDDDDDDDSSsssss 256 SDDSDDDDDDDDSSsssss 512 SSDSDDDDDDDDSSsssss
""")
#: The reduction within machines: h in shared memory, p by messages, d and s by an allreduce.
_WITHIN = _rows("""
16 hhhhhhhhd 32 hhhhhhhhhpp 64 hhhhhhhhhpsss 128 hhhhhhhhhpppss 256 hhhhhhhhhsssdd
512 hhhhhhhhhhdhdd
""")
#: A radix for knomial trees of segments; b binomial, d and r scatter and allgather.
_BCAST_ALONE = _rows("""
2 8222822448828422222bb 4 4844444448888882222rr 8 8888888888888442222rr
16 4444444444444422222br 32 8888888888888444222rr
""")
_BCAST = _rows("""
16 88444222b44rbbbr8bdbb 32 888228482842222884448 64 484888848888888422222
128 888888888888884222222 256 448444444444844222222 512 888888888888844422222
""")
#: d recursive doubling, c the same in the order of machines, b Bruck, r ring.
_ALLGATHER_ALONE = _rows("""
2 rrrrrrrdrrrrrrrrdrdrd 4 dddddddddddddddddddrr 8 ddcbccccddcdcddddrrrr
16 dccccdddddcdddddddrrr 32 bbbdcdddcccbdddddrrrr
""")
_ALLGATHER = _rows("""
16 dddddddddddrrrrrrrrrr 32 ddddddddcccrrrrrrrrrr 64 dddddddccccrrrrrrrrrr
128 ddddddcccccrrrrrrrrrr 256 dddddcccccccrrrrrrrrr 512 ddcddcccccccrrrrrrrrr
1024 dbcbcccccccrrrrrrrrr
""")
#: d recursive doubling, b Bruck, l all at once, p pairwise, i in place.
_ALLTOALL_ALONE = _rows("""
2 p 4 lllllllllllllllllpppp 8 dldllldbllbllllllllll 16 dddbdddbbbbblllllllll
32 bbbbbbbbbbbllllllllll
""")
_ALLTOALL = _rows("""
16 dddddddbbblllllppippp 32 dddddbbbbbbbilliiippp 64 dddbbbbbbbbbbpppppppp
128 dbbbbbbbbbbbppppppppp 256 bbbbbbbbbbbbppppppppl 512 bbbbbbbbbbbbpppppppll
1024 bbbbbbbbbbbbbll
""")
#: By the bytes of all blocks: 1 reduce and scatter, 2 recursive halving, 3 pairwise.
_REDUCE_SCATTER = rows_below("""
9: 1 257 2 16385 3; 17: 1 65 2 65537 3; 33: 1 65 2 131073 3; 65: 1 1025 2 262145 3;
257: 1 129 2; *: 1 257 2
""")
_ALLREDUCES = {"d": "recursive-doubling", "s": "rabenseifner"}
_BCASTS = {"b": "binomial", "d": "scatter-doubling", "r": "scatter-ring"}
_ALLGATHERS = {"b": "bruck", "c": "recursive-doubling", "d": "recursive-doubling", "r": "ring"}
_ALLTOALLS = {"b": "bruck", "d": "recursive-doubling", "i": "in-place", "p": "pairwise"}
_REDUCE_SCATTERS = {1: "reduce-scatter", 2: "recursive-halving", 3: "pairwise"}


@library("mvapich2", source="MVAPICH2 2.2: src/mpi/coll/tuning/*/gen2_INTEL_XEON_E5_2680_16_*")
def mvapich(call: LibraryCall) -> AlgorithmChoice | None:
    """MVAPICH2 2.2 with its default tables (Xeon E5-2680, FDR), without hardware multicast.

    There are tables for 1 and for 16 ranks a machine; those of 16 are taken from 2 on.
    """
    alone = call.per_machine == 1
    match call.collective:
        case "allreduce":
            return _allreduce(call, alone)
        case "bcast":
            letter = _letter(_BCAST_ALONE if alone else _BCAST, call)
            if letter.isdigit():
                knomial = {"radix": int(letter), "segment": 8192}
                return AlgorithmChoice("tree" if alone else "two-level", knomial)
            between = _BCASTS[letter]
            return (
                AlgorithmChoice(between)
                if alone
                else AlgorithmChoice("two-level", {"between": between})
            )
        case "allgather":
            letter = _letter(_ALLGATHER_ALONE if alone else _ALLGATHER, call)
            why = "of ranks in the order of machines" if letter == "c" else ""
            return AlgorithmChoice(_ALLGATHERS[letter], why=why)
        case "alltoall":
            letter = _letter(_ALLTOALL_ALONE if alone else _ALLTOALL, call)
            return (
                AlgorithmChoice(_ALLTOALLS[letter])
                if letter != "l"
                else AlgorithmChoice("linear", {"throttle": 0})
            )
        case "reduce-scatter":
            number = number_below(_REDUCE_SCATTER, call.num_ranks, call.total)
            return AlgorithmChoice(_REDUCE_SCATTERS[number])
    return None


def _allreduce(call: LibraryCall, alone: bool) -> AlgorithmChoice:
    letter = _letter(_ALLREDUCE_ALONE if alone else _ALLREDUCE, call)
    between = _ALLREDUCES[letter.lower()]
    if letter.islower():
        return AlgorithmChoice(between)
    inner = _letter(_WITHIN, call)
    within = "linear" if inner == "h" else "binomial"
    why = "where it uses an allreduce within machines" if inner in "ds" else ""
    return AlgorithmChoice("two-level", {"between": between, "within": within}, why)


def _letter(rows: dict[int, str], call: LibraryCall) -> str:
    row = rows[min(max(1 << (call.num_ranks.bit_length() - 1), min(rows)), max(rows))]
    return row[min(max(call.size, 1).bit_length() - 1, len(row) - 1)]
