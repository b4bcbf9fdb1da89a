"""Parameters and sizes of topologies that are refused with one line."""

from __future__ import annotations

import pytest

from weft.core.errors import InputError
from weft.fabrics.topology import build


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ("xgft:0;;", "empty argument"),
        ("xgft:2;4;1,2", "m must have one value per level, 2, not 1"),
        ("xgft:2;4,4;1,2;1", "p must have one value per level"),
        ("xgft:2;4,0;1,2", "m must be at least 1, not 0"),
        ("xgft:1;1;1", "this fabric would have one host"),
        ("xgft:65;" + ",".join(["1"] * 65) + ";" + ",".join(["1"] * 65), "h must be at most 64"),
        ("kary-n-tree:k=1,n=3", "k must be at least 2, not 1"),
        ("kary-n-tree:k=2,n=0", "n must be at least 1, not 0"),
        ("kary-n-tree:k=2,n=2,cables=0", "cables must be at least 1"),
        ("fat-tree:k=0", "k must be at least 2, not 0"),
        ("fat-tree:k=7", "k must be even"),
        ("fat-tree:k=4,hosts=0", "hosts must be at least 1"),
        ("leaf-spine:leaves=2,spines=0,hosts=2", "spines must be at least 1"),
        ("slimmed-fat-tree:k=4,up=5,n=2", "up must be at most k = 4"),
        ("slimmed-fat-tree:k=4,up=0,n=2", "up must be at least 1"),
        ("cellia:nodes=40", "nodes must be 45, or 36"),
        ("kns:k=1,n=2", "k must be at least 2"),
        ("kns:k=4,n=0", "n must be at least 1"),
        ("kns:k=8,n=2,s=2,d=8", "s must be 1, because one switch of 8 ports connects a line"),
        ("kns:k=16,n=2,s=1,d=8", "s must be 2 for k = 16"),
        ("kns:k=16,n=2,s=3,d=8", "2 stages of 8-port switches connect lines of 9 to 32 cables"),
        ("kns:k=16,n=2,s=2", "s must be 1"),
        ("kns:k=16,n=2,s=2,d=7", "d must be even"),
        ("kns:k=3,n=2,d=2", "d must be at least 4"),
        ("kns:k=10,n=2,s=2,d=8", "k must be a multiple of 4"),
        ("kns:k=16,n=2,d=8,cables=3", "cables must divide d/2 = 4"),
        ("kns:k=4,n=2,hosts=2,router=adapter", "hosts must be 1 if"),
        ("kns:k=4,n=2,router=toaster", "'switch' or 'adapter'"),
        ("bcube:n=1,k=2", "n must be at least 2"),
        ("bcube:n=2,k=-1", "k must be at least 0"),
        ("torus:0x4", "dims must be at least 1, not 0"),
        ("torus:4x-1", "dims must be at least 1, not -1"),
        ("torus:1x1", "this fabric would have one host"),
        ("torus:4x4,hosts=0", "hosts must be at least 1"),
        ("mesh:4xa", "dims"),
        ("mesh:" + "x".join(["1"] * 65) + ",hosts=2", "dims must have at most 64 values"),
        ("ring:1", "n must be at least 2"),
        ("hypercube:0", "n must be at least 1"),
        ("hypercube:65", "n must be at most 64"),
        ("hyperx:S=4x4,K=1,2,3", "K must have one value, or one per dimension of S, 2, not 3"),
        ("hyperx:S=4x4,T=0", "T must be at least 1"),
        ("flattened-butterfly:k=4,n=1", "n must be at least 2"),
        ("multi-ring:n=16,ratio=4,rings=3", "innermost ring must have at least two switches"),
        ("multi-ring:n=18,ratio=4,rings=2", "n must be a multiple of ratio"),
        ("multi-ring:n=16,ratio=1,rings=2", "ratio must be at least 2"),
        ("rdt:size=16,n=2,R=2", "and at least 24"),
        ("rdt:size=25,n=2,R=1", "multiple of 2"),
        ("rdt:size=48,n=2,R=2,m=3", "m must be at most R = 2"),
        ("rdt:size=4096,n=2,R=5,m=1", "R must be at most n² m = 4"),
        ("rdt:size=4,n=2,R=4", "too small for rank R = 4"),
        ("dragonfly:p=2,a=4,h=2,g=10", "g must be at most a·h + 1 = 9"),
        ("dragonfly:p=0,a=4,h=2", "p must be at least 1"),
        ("dragonfly:p=2,a=4,h=2,g=0", "g must be at least 1"),
        ("dragonfly:p=2,a=4,h=2,arrangement=circular", "'absolute' or 'palmtree'"),
        ("megafly:p=2,leaves=2,spines=2,h=2,g=6", "g must be at most spines·h + 1 = 5"),
        ("slim-fly:q=6", "q must be a prime power"),
        ("slim-fly:q=2", "q must be a prime power of 3 or more"),
        ("slim-fly:q=5,hosts=0", "hosts must be at least 1"),
        ("jellyfish:switches=5,degree=3", "must be even"),
        ("jellyfish:switches=4,degree=4", "degree must be below the number of switches, 4"),
        ("jellyfish:switches=4,degree=1", "degree must be at least 2 to connect 4 switches"),
        ("jellyfish:switches=4,degree=2,seed=-1", "seed must be at least 0"),
    ],
)
def test_impossible_parameters_are_refused(spec, reason):
    with pytest.raises(InputError) as error:
        build(spec)
    assert reason in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "spec",
    [
        "xgft:3;9999,9999,9999;1,9999,9999",
        "xgft:64;" + ",".join(["20000000"] * 64) + ";" + ",".join(["20000000"] * 64),
        "kary-n-tree:k=2,n=64",
        "fat-tree:k=20000000",
        "leaf-spine:leaves=9999,spines=9999,hosts=1",
        "slimmed-fat-tree:k=9999,up=9999,n=9",
        "kns:k=1000,n=3",
        "kns:k=20000000,n=64",
        "bcube:n=2,k=63",
        "torus:99999x99999",
        "mesh:999x999x999",
        "ring:20000000",
        "hypercube:64",
        "hyperx:S=20000x2",
        "flattened-butterfly:k=999,n=64",
        "multi-ring:n=20000000,ratio=2,rings=2",
        "rdt:size=20000,n=2,R=1",
        "dragonfly:p=99,a=99,h=99",
        "megafly:p=999,leaves=999,spines=999,h=1",
        "slim-fly:q=19997",
        "jellyfish:switches=20000000,degree=4",
    ],
)
def test_sizes_beyond_memory_are_refused_before_anything_is_built(spec):
    with pytest.raises(InputError, match=r"this fabric would have .* at most 20,000,000 nodes"):
        build(spec)


def test_values_beyond_any_machine_are_refused():
    with pytest.raises(InputError, match="n must be at most 20,000,000, not 20000001"):
        build("ring:20000001")


def test_a_node_cannot_have_more_ports_than_can_be_numbered():
    with pytest.raises(InputError, match="ports: 65536 is out of range; expected 0 to 65,534"):
        build("ring:n=2,hosts=65534")
    assert build("ring:n=2,hosts=65532").num_ports.max() == 65534
