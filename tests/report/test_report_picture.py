import struct

import numpy as np
import pytest

from weft.core.errors import InputError
from weft.fabrics.topology import build
from weft.report.labels import MOST, short_names, shortened
from weft.report.layout import layout
from weft.report.picture import PIECES, cable_curves, plot_fabric


def test_picture_is_a_png_and_the_same_each_time(tmp_path):
    fabric = build("xgft:2;4,4;1,2")
    load = np.arange(fabric.num_links, dtype=float)
    first, second = tmp_path / "a.png", tmp_path / "b.png"
    plot_fabric(fabric, load, title="with $ and $_", size_inches=(6, 4)).write(first, dpi=100)
    plot_fabric(fabric, load, title="with $ and $_", size_inches=(6, 4)).write(second, dpi=100)
    data = first.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", data[16:24]) == (600, 400)
    assert data == second.read_bytes()
    assert sorted(tmp_path.iterdir()) == [first, second]


def test_picture_shows_the_load(tmp_path):
    fabric = build("torus:4x4")
    quiet, busy = tmp_path / "quiet.png", tmp_path / "busy.png"
    load = np.zeros(fabric.num_links)
    plot_fabric(fabric, load, size_inches=(4, 3)).write(quiet, dpi=60)
    load[0] = 5.0
    plot_fabric(fabric, load, size_inches=(4, 3)).write(busy, dpi=60)
    assert quiet.read_bytes() != busy.read_bytes()


@pytest.mark.parametrize("load", [np.zeros(3), np.full(64, np.nan), np.full(64, -1.0)])
def test_load_that_does_not_fit_is_refused_and_nothing_is_written(tmp_path, load):
    fabric = build("xgft:2;4,4;1,2;1,2")
    assert fabric.num_links == 64
    with pytest.raises(InputError, match="64 finite numbers"):
        plot_fabric(fabric, load).write(tmp_path / "a.png")
    assert not list(tmp_path.iterdir())


def test_a_missing_folder_is_refused(tmp_path):
    fabric = build("xgft:1;2;1")
    with pytest.raises(InputError, match="cannot be written"):
        plot_fabric(fabric, np.zeros(fabric.num_links)).write(tmp_path / "no" / "a.png")
    with pytest.raises(InputError, match="folder"):
        plot_fabric(fabric, np.zeros(fabric.num_links)).write(tmp_path)


def test_curves_begin_and_end_at_their_nodes():
    fabric = build("xgft:2;4,4;1,2;1,2")
    drawing = layout(fabric)
    curves = cable_curves(fabric, drawing)
    assert curves.shape == (fabric.num_cables, PIECES + 1, 2)
    low = np.minimum(fabric.link_from[0::2], fabric.link_to[0::2])
    high = np.maximum(fabric.link_from[0::2], fabric.link_to[0::2])
    assert np.allclose(curves[:, 0], drawing.position[low])
    assert np.allclose(curves[:, -1], drawing.position[high])
    # The middle of a curve lies left of the chord, half as far from it as the control point.
    chord = drawing.position[high] - drawing.position[low]
    middle = curves[:, PIECES // 2] - (drawing.position[low] + drawing.position[high]) / 2
    left = np.stack((-chord[:, 1], chord[:, 0]), axis=1)
    assert np.allclose(middle, left * drawing.bend[:, None] / 2)


def test_long_names_lose_their_middle():
    assert shortened("leaf1") == "leaf1"
    assert shortened("a" * 20 + "0123456789", 12) == "aaaaaaa…6789"
    assert len(shortened("x" * 500)) == MOST


def test_short_names_stay_apart():
    names = [f"MF0;{room}-P1-IB-{kind}{number:02d}:MQM9700/U1" for room in ("A09", "A10")
              for kind in ("COMPUTE-LEAF", "COMPUTE-SPINE") for number in range(20)]  # fmt: skip
    short = short_names(names)
    assert len(set(short)) == len(names)
    assert max(map(len, short)) <= MOST
    for name, text in zip(names, short, strict=True):
        assert name[4:7] in text  # the distinguishing part remains
        assert name.split("-")[-1].partition(":")[0] in text
    # Names that differ in the middle, and a name that equals the shortened form of another.
    same = [f"{'a' * 30}{n}{'b' * 30}" for n in range(12)]
    decoy = shortened(same[0])
    short = short_names([decoy, *same])
    assert short[0] == decoy
    assert len(set(short)) == 13
    # Names that fit are not shortened.
    assert short_names(["leaf1", "leaf2"]) == ["leaf1", "leaf2"]
    assert short_names(["Voltaire 4036 # 4036-369C", "Voltaire 4036 # 4036-86A2"]) == [
        "Voltaire 4036 # 4…369C",
        "Voltaire 4036 # 4…86A2",
    ]
