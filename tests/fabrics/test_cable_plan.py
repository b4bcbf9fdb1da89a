"""Reading of cable plans: columns, ports, rates, and rows that are not understood."""

from __future__ import annotations

import math
import random
from pathlib import Path

import pytest

from weft.core.errors import InputError
from weft.fabrics.cabling import Cable, Cabling
from weft.fabrics.formats.cable_plan import is_plan, parse_columns, read_plan

HEAD = "from_node,from_port,to_node,to_port,rate\n"


def plan(text: str, columns: str = "") -> Cabling:
    return read_plan(text, "plan.csv", parse_columns(columns) if columns else {})


def ends_of(read: Cabling, cable: Cable) -> tuple[tuple[str, int, str, int | None], ...]:
    """Return device, port, rack and height of both ends of a cable."""
    ends = [(read.devices[number], port) for number, port in cable.ends]
    return tuple((device.name, port, device.rack, device.unit) for device, port in ends)


def only_end(port: str) -> tuple[str, int] | str:
    """Return the first end of a plan of one cable, or why its row is not understood."""
    read = plan(f'{HEAD}dev,"{port}",other,1,\nx,1,y,1,\n')
    assert len(read.cables) + len(read.refused) == read.rows == 2
    return read.refused[0][1] if read.refused else ends_of(read, read.cables[0])[0][:2]


@pytest.mark.parametrize(
    ("port", "end"),
    [
        ("21", ("dev", 21)),
        ("Port 21", ("dev", 21)),
        ("port21", ("dev", 21)),
        ("P21", ("dev", 21)),
        ("IB Port 2", ("dev", 2)),
        ("1/21", ("dev", 21)),
        ("swp21", ("dev", 21)),
        ("Ethernet21", "the port 'Ethernet21' is not understood"),
        ("IB1/21", ("dev", 21)),
        ("Blade 01_Port 1/5", ("dev/L1/U1", 5)),
        ("blade 16_port 2/20", ("dev/L16/U2", 20)),
        ("mlx5_3", ("dev mlx5_3", 1)),
        ("dev ibp11s0f0", ("dev ibp11s0f0", 1)),
        ("HCA-2/2", ("dev HCA-2", 2)),
        ("0", "there is no port 0"),
        ("99999", "there is no port 99999"),
        ("2/21", "the port '2/21' is not understood"),
        ("1/21/2", "the port '1/21/2' is not understood"),
        ("mgmt0", "the port 'mgmt0' is not understood"),
        ("", "has no port at one end"),
    ],
)
def test_texts_of_ports(port: str, end: tuple[str, int] | str) -> None:
    assert only_end(port) == end


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("4xHDR", (200.0, 27)),
        ("EDR", (100.0, None)),
        ("200000", (200.0, 0)),
        ("200", (200.0, 0)),
        ("200G", (200.0, 0)),
        ("100 Gb/s", (100.0, 0)),
        ("40000 Mbit/s", (40.0, 0)),
        ("", None),
        ("0", None),
        ("HDR cable", None),
    ],
)
def test_rates(text: str, rate: tuple[float, int | None] | None) -> None:
    read = plan(f"{HEAD}a,1,b,1,{text}\n")
    (cable,) = read.cables
    if rate is None:
        assert math.isnan(cable.rate_gbps)
        assert read.not_rates == ({text} if text else set())
    else:
        assert cable.rate_gbps == rate[0]
        assert bool(cable.rate_code) == (rate[1] != 0)


def test_an_ndt_sheet_with_other_columns_and_one_header_for_both_heights() -> None:
    read = plan(
        ",rack #,U height,#Fields:StartDevice,StartPort,StartDeviceLocation,EndDevice,EndPort,"
        "EndDeviceLocation,U height,LinkType,Speed,,Length\n"
        ",Rack 1,U41,leaf,Port 21,R01,dir,Blade 1_Port 1/1,R02,U25,Data,200000,HDR,10\n"
        ",Rack 1,,leaf9,Port 22,U40,dir,Blade 2_Port 1/2,R02,,data,,HDR,10\n"
        ",,40,leaf7,1,7,dir,Blade 1_Port 1/3,U2,,,,,\n"
        ",Rack 1,U1,leaf,Port 23,7,con,Port 1,R02,U25,Console,,,\n"
    )
    first, second, third = read.cables
    assert ends_of(read, first) == (("leaf", 21, "R01", 41), ("dir/L1/U1", 1, "R02", 25))
    assert ends_of(read, second) == (("leaf9", 22, "Rack 1", 40), ("dir/L2/U1", 2, "R02", None))
    assert ends_of(read, third) == (("leaf7", 1, "7", 40), ("dir/L1/U1", 3, "R02", 25))
    assert read.refused == [(5, "the link type 'Console' is not Data")]


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_separators_quotes_titles_and_headers_that_occur_twice(separator: str) -> None:
    rows = [
        ["Cables of hall 2", "", "", ""],
        ["Switch", "Port", "Host", "Port"],
        ['"sw 1"', "1", '"n\n1"', "2"],
        ["", "", "", ""],
    ]
    text = "\r\n".join(separator.join(row) for row in rows)
    read = plan(text, "from_node=switch,from_port=Port,to_node=Host,to_port=Port")
    (cable,) = read.cables
    assert cable.line == 3
    assert ends_of(read, cable) == (("sw 1", 1, "", None), ("n 1", 2, "", None))


def test_a_repeated_cable_and_a_port_with_two_cables() -> None:
    read = plan(f"{HEAD}a,1,b,1,\nb,1,a,1,\na,1,c,1,\na,2,a,2,\n")
    assert (read.rows, len(read.cables), read.repeated) == (4, 1, 1)
    assert read.refused == [
        (4, "a[1] has another cable in line 2"),
        (5, "both ends are one port"),
    ]


@pytest.mark.parametrize(
    ("text", "columns", "says"),
    [
        ("a,b\n1,2\n", "", "plan.csv: has no column 'from_node' or 'from_port' or 'to_node' or"),
        ("a,b\n1,2\n", "", "its header has 'a', 'b'; name its columns with --columns"),
        (f"{HEAD}a,1,b,1,\n", "rate=Gb", "has no column 'Gb'; its header has 'from_node'"),
        (HEAD, "", "plan.csv: has no row with a cable after its header"),
        (f"{HEAD}a,x,b,1,\n", "", "after its header; line 2: the port 'x' is not understood"),
        (f'{HEAD}a,1,b,"1,\nc,1,d,1\n', "", "plan.csv:2: is not valid CSV: unexpected end of"),
        (
            HEAD,
            "from_nod=A",
            "--columns: a plan has no column 'from_nod' (did you mean 'from_node'?)",
        ),
        (HEAD, "rate", "--columns: expected a header, as in rate=Device"),
        (HEAD, "rate=", "--columns: expected a header, as in rate=Device"),
    ],
)
def test_bad_plans(text: str, columns: str, says: str) -> None:
    with pytest.raises(InputError) as error:
        plan(text, columns)
    assert says in str(error.value)


def test_the_sheet_of_a_site(shared: Path) -> None:
    path = shared / "evidence" / "cable-plans" / "ndt.csv"
    if not path.is_file():
        pytest.skip("the sheet is not there")
    text = path.read_text(encoding="utf-8-sig")
    assert is_plan(text)
    read = read_plan(text, path.name, {})
    assert read.rows == len(text.splitlines()) - 1 == 400
    # 40 of its ports occur twice.
    assert (len(read.cables), len(read.refused)) == (360, 40)
    assert all("] has another cable in line " in why for _, why in read.refused)
    assert {cable.rate_gbps for cable in read.cables} == {200.0}


@pytest.mark.parametrize("seed", range(300))
def test_no_row_of_a_damaged_plan_is_lost(seed: int) -> None:
    rng = random.Random(seed)
    rows = [f"leaf{at},Port {at},spine,{at},HDR" for at in range(1, 30)]
    text = list(HEAD + "\n".join(rows) + "\n")
    for _ in range(rng.randint(1, 6)):
        at = rng.randrange(len(HEAD), len(text))
        text[at : at + rng.randint(0, 1)] = rng.choice(["", *"\n,;\t é0Px/\\"])
    read = plan("".join(text))
    assert read.rows == len(read.cables) + read.repeated + len(read.refused)
    lines = "".join(text).split("\n")[1:]
    assert read.rows == sum(any(letter not in ", \t" for letter in line) for line in lines)
