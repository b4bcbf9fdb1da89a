"""Dependencies of channels while a subnet manager replaces forwarding tables."""

import numpy as np

from weft.kernels.cache import njit
from weft.kernels.routes.dependencies import set_dependency


@njit(cache=True)
def mixed_dependencies(
    before, after, lids, row_base, slot_edge, edge_offset, edge_row, start_row, first_bit, bits,
    used,
):  # fmt: skip
    """Set the dependencies of all paths on which each row uses its entry of either table.

    Parameters
    ----------
    before, after
        uint8 or uint16 [all lids, rows]: output ports; ports that a row does not have are no path.
    lids
        int32: LIDs, as indices in the tables.
    row_base, slot_edge, edge_offset, edge_row
        Attributes of `weft.fabrics.graph.SwitchGraph`.
    start_row
        int32: rows at which packets enter.
    first_bit, bits, used
        See `weft.kernels.routes.dependencies`, with one lane; bits and used are changed in place.
    """
    rows = len(row_base) - 1
    reached = np.full(rows, -1, dtype=np.int64)
    queue = np.empty(rows, dtype=np.int64)
    # The edges by which each row may send packets for the present LID, -1 for none.
    choice = np.empty((rows, 2), dtype=np.int64)
    for i in range(len(lids)):
        lid = lids[i]
        for row in range(rows):
            width = row_base[row + 1] - row_base[row]
            for k in range(2):
                port = np.int64(before[lid, row] if k == 0 else after[lid, row])
                choice[row, k] = slot_edge[row_base[row] + port] if port < width else -1
        count = 0
        for s in range(len(start_row)):
            reached[start_row[s]] = i
            queue[count] = start_row[s]
            count += 1
        at = 0
        while at < count:
            row = queue[at]
            at += 1
            for k in range(2):
                edge = choice[row, k]
                if edge < 0:
                    continue
                used[edge] = 1
                head = np.int64(edge_row[edge])
                if reached[head] != i:
                    reached[head] = i
                    queue[count] = head
                    count += 1
                for m in range(2):
                    if choice[head, m] >= 0:
                        set_dependency(
                            edge, choice[head, m], edge_offset, edge_row, 1, first_bit, bits
                        )
