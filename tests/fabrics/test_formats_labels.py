"""Labels of nodes."""

from __future__ import annotations

import pytest

from weft.fabrics import NodeKind
from weft.fabrics.formats.labels import choose_labels, guid_id, host_part, is_guid_id

HOST, SWITCH = NodeKind.HOST, NodeKind.SWITCH


@pytest.mark.parametrize(
    ("description", "host"),
    [
        ("node001 HCA-1", "node001"),
        ("node001 mlx5_0", "node001"),
        ("node001 mlx5_bond_0", "node001"),
        ("node001 hfi1_0", "node001"),
        ("node001 ibp65s0f1", "node001"),
        ("node001 qib0", "node001"),
        ("node001.cluster  mthca0", "node001.cluster"),
        ("node001", "node001"),
        ("rack ibm", "rack ibm"),
        ("MT25408 ConnectX Mellanox Technologies", "MT25408 ConnectX Mellanox Technologies"),
        ("two words HCA-1", "two words HCA-1"),
        ("", ""),
    ],
)
def test_host_part(description: str, host: str) -> None:
    assert host_part(description) == host


def test_ids() -> None:
    assert guid_id(SWITCH, 0x8F10500108C5C) == "S-0008f10500108c5c"
    assert guid_id(HOST, 1) == "H-0000000000000001"
    assert guid_id(NodeKind.AUXILIARY, 1, router=True) == "R-0000000000000001"
    assert is_guid_id("S-0008f10500108c5c")
    assert not is_guid_id("S-0008f10500108c5")


def test_a_label_is_the_first_unique_name() -> None:
    ids = [guid_id(kind, n) for n, kind in enumerate([SWITCH, *[HOST] * 7])]
    descriptions = [
        "n1",
        "n1 HCA-1",  # its label is the full description, as the switch is called n1
        "n2 HCA-1",
        "n3 HCA-1",
        "n3 HCA-2",
        "generic",
        "generic",
        ids[2],  # its label is its own id, as this is the id of another node
    ]
    labels = choose_labels([SWITCH, *[HOST] * 7], ids, descriptions)
    assert labels == [ids[0], "n1 HCA-1", "n2", "n3 HCA-1", "n3 HCA-2", ids[5], ids[6], ids[7]]


def test_names_given_by_users_are_kept() -> None:
    assert choose_labels([HOST, HOST], ["a", "H-0000000000000001"], ["x", "a"]) == [
        "a",
        "H-0000000000000001",
    ]
