import struct

import pytest

from weft.core.errors import InputError
from weft.fabrics.topology import build
from weft.report.timeline_picture import plot_timelines
from weft.routing import route
from weft.sim.simulate import simulate
from weft.workload import load_workload


@pytest.fixture(scope="module")
def result():
    fabric = build("xgft:2;4,4;1,2")
    work = load_workload("allreduce:size=64KiB,algorithm=ring", num_ranks=16)
    return simulate(fabric, route(fabric, "minhop"), work, level="packet")


def test_picture_is_a_png_and_the_same_each_time(result, tmp_path):
    first, second = tmp_path / "a.png", tmp_path / "b.png"
    for path in (first, second):
        plot_timelines(result, title="a $title$", size_inches=(6, 4)).write(path, dpi=100)
    data = first.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", data[16:24]) == (600, 400)
    assert data == second.read_bytes()
    assert sorted(tmp_path.iterdir()) == [first, second]


def test_ranks_time_and_messages_can_be_chosen(result, tmp_path):
    pictures = set()
    for number, options in enumerate(
        ({}, {"ranks": (2, 5)}, {"begin_ns": 1000.0, "end_ns": 4000.0}, {"messages": True})
    ):
        path = tmp_path / f"{number}.png"
        plot_timelines(result, size_inches=(5, 3), **options).write(path, dpi=60)
        pictures.add(path.read_bytes())
    assert len(pictures) == 4


@pytest.mark.parametrize(
    "options", [{"ranks": (3, 16)}, {"ranks": (4, 3)}, {"begin_ns": 1e9}, {"end_ns": 0.0}]
)
def test_empty_selections_are_refused(result, tmp_path, options):
    with pytest.raises(InputError, match="expected"):
        plot_timelines(result, **options).write(tmp_path / "a.png")
    assert list(tmp_path.iterdir()) == []
