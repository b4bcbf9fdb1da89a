"""The printed cabling list, price files, and the printed plan."""

from __future__ import annotations

import tempfile
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.advice.machine_room import CostPlan, Prices, cost
from weft.advice.machine_room.cables import row_name
from weft.core.errors import InputError
from weft.fabrics import Fabric, FabricBuilder, NodeKind, Parts
from weft.fabrics.load import fabric as load

DOCS = Path(__file__).parents[2] / "docs" / "cost.md"

PRICES = """\
currency = "EUR"

[[switch]]
ports = 36
price = 9000
power_w = 150.5

[[switch]]
ports = 8
price = 1000
power_w = 40

[[adapter]]
price = 400
power_w = 12

[[cable]]
kind = "copper"
price = 50

[[cable]]
kind = "copper"
rate = "4xHDR"
length_m = 2
price = 75.5
power_w = 0

[[cable]]
kind = "optical"
rate = 200
price = 300
price_per_m = 10
power_w = 8

[rack]
price = 2000
"""


def pair(rate: str = "4xHDR", ports: int = 8) -> Fabric:
    """Return hosts a and b on switch x, c and d on switch y, and a cable from x to y."""
    build = FabricBuilder("pair", rate=rate)
    switches = build.switches(["x", "y"], ports=ports)
    hosts = build.hosts(["a", "b", "c", "d"])
    build.connect(hosts, switches.repeat(2))
    build.connect(switches[:1], switches[1:])
    return build.fabric()


def with_prices(folder: Path, text: str) -> Path:
    path = folder / "prices.toml"
    path.write_text(text)
    return path


# -- the cabling list ------------------------------------------------------------------------------


def test_cables_are_listed_by_rack_pair_longest_first() -> None:
    result = cost(load("xgft:2;4,4;1,2"), rack_units=5)
    rows = result.cables.select("from_rack", "to_rack", "length_m", "route_m").rows()
    pairs = [row[:2] for row in rows]
    runs = [pair for at, pair in enumerate(pairs) if at == 0 or pair != pairs[at - 1]]
    assert len(runs) == len(set(runs))
    longest = [max(row[3] for row in rows if row[:2] == pair) for pair in runs]
    assert longest == sorted(longest, reverse=True)
    for pair in runs:
        routes = [row[3] for row in rows if row[:2] == pair]
        assert routes == sorted(routes, reverse=True)
    assert all(a <= b for a, b in pairs)


def test_labels_name_their_own_end_first() -> None:
    result = cost(pair(), rack_units=4)
    first = result.cables.row(0, named=True)
    assert first["from_label"] == "0001 | A01 U04 x[3] > A02 U04 y[3]"
    assert first["to_label"] == "0001 | A02 U04 y[3] > A01 U04 x[3]"
    labels = [*result.cables["from_label"], *result.cables["to_label"]]
    assert len(set(labels)) == 10
    # Within a rack the upper box is first.
    assert result.cables["from_node"].to_list() == ["x", "x", "x", "y", "y"]


def test_the_cabling_list_can_be_written_as_csv(tmp_path: Path) -> None:
    result = cost(pair(), rack_units=4)
    path = tmp_path / "cables.csv"
    path.write_text("old")
    result.write_cables(path)
    again = pl.read_csv(path, schema=result.cables.schema)
    assert again.equals(result.cables)
    assert [file.name for file in tmp_path.iterdir()] == ["cables.csv"]


def test_names_with_commas_and_quotes_survive_csv(tmp_path: Path) -> None:
    build = FabricBuilder("odd")
    switch = build.switches(['rack 1, "leaf"'])
    build.connect(switch, build.hosts(["h,0"]))
    result = cost(build.fabric())
    result.write_cables(tmp_path / "cables.csv")
    again = pl.read_csv(tmp_path / "cables.csv", schema=result.cables.schema)
    assert again.equals(result.cables)


def test_a_list_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be written"):
        cost(pair()).write_cables(tmp_path / "missing" / "cables.csv")


@pytest.mark.parametrize(
    ("row", "name"), [(0, "A"), (25, "Z"), (26, "AA"), (27, "AB"), (702, "AAA")]
)
def test_rack_rows_are_named_by_letters(row: int, name: str) -> None:
    assert row_name(row) == name


# -- prices ----------------------------------------------------------------------------------------


def test_without_prices_there_are_no_costs() -> None:
    result = cost(pair())
    assert result.total_cost is None
    assert result.cost_per_host is None
    assert result.power_w is None
    assert result.currency is None
    assert "cost" not in result.text()
    assert "price" not in result.text()


def test_costs_by_hand(tmp_path: Path) -> None:
    path = with_prices(tmp_path, PRICES)
    result = cost(pair(), rack_units=4, prices=path)
    costs = dict(result.summary.select("item", "cost").rows())
    assert costs == {
        "8-port switch": 2000.0,
        "1-port host adapter": 1600.0,
        "0.5 m copper 4xHDR": 200.0,
        "2 m copper 4xHDR": 75.5,
        "rack": 4000.0,
    }
    assert result.total_cost == 7875.5
    assert result.cost_per_host == 7875.5 / 4
    assert result.power_w == 2 * 40 + 4 * 12 + 0
    text = result.text()
    assert "cost     7,875.50 EUR, 1,968.88 per host" in text
    assert "power    128 W, without 0.5 m copper 4xHDR" in text
    assert result.unpriced == ()
    assert repr(result) == "CostPlan('pair': 2 racks, 5 cables, 4 m, 7,876 EUR)"


def test_the_most_specific_cable_entry_is_used(tmp_path: Path) -> None:
    path = with_prices(tmp_path, PRICES)
    prices = Prices.read(path)
    assert prices.of_cable("copper", 200.0, 2.0).price == 75.5
    assert prices.of_cable("copper", 200.0, 1.0).price == 50
    assert prices.of_cable("copper", 100.0, 2.0).price == 50
    assert prices.of_cable("optical", 100.0, 2.0) is None
    optical = cost(pair(), rack_units=4, racks_per_row=1, prices=prices)
    row = optical.summary.filter(pl.col("kind") == "optical").row(0, named=True)
    assert (row["price"], row["power_w"]) == (350.0, 8.0)


def test_the_smallest_switch_that_fits_is_taken(tmp_path: Path) -> None:
    prices = Prices.read(with_prices(tmp_path, PRICES))
    assert prices.of_switch(3).price == 1000
    assert prices.of_switch(9).price == 9000
    assert prices.of_switch(37) is None
    assert prices.of_adapter(1).price == 400


def test_items_bought_are_products_of_the_price_file(tmp_path: Path) -> None:
    path = with_prices(tmp_path, PRICES.replace("[[adapter]]", "[[adapter]]\nports = 2"))
    build = FabricBuilder("sizes")
    switches = build.switches(["big", "even", "small"], ports=[30, 36, 3])
    build.connect(switches[:2], switches[1:])
    build.connect(build.hosts(["h"]), switches[:1])
    result = cost(build.fabric(), prices=path, ports_per_unit=30)
    columns = ("ports", "ports_needed", "count", "ports_used", "ports_free", "cost", "power_w")
    rows = {row["item"]: row for row in result.summary.iter_rows(named=True)}
    assert {item: tuple(rows[item][name] for name in columns) for item in list(rows)[:4]} == {
        "36-port switch": (36, 36, 1, 2, 34, 9000, 150.5),
        "36-port switch for 30 ports": (36, 30, 1, 2, 34, 9000, 150.5),
        "8-port switch for 3 ports": (8, 3, 1, 1, 7, 1000, 40),
        "2-port host adapter for 1 port": (2, 1, 1, 1, 1, 400, 12),
    }
    # The product determines the height: at 30 ports per U, its 36 ports take 2 U instead of 1.
    heights = dict(result.positions.select("node", "units").rows())
    assert heights == {"big": 2, "even": 2, "small": 1, "h": 1}
    assert "36-port switch for 30 ports" in result.text()
    with pytest.raises(InputError, match=r"big has 30 ports \(36 as bought\) and needs 36 U, m"):
        cost(build.fabric(), prices=path, ports_per_unit=1, rack_units=32)
    # Without prices there are no products, and the fabric determines the numbers of ports.
    assert cost(build.fabric()).summary["item"][:3].to_list() == [
        "36-port switch", "30-port switch", "3-port switch",
    ]  # fmt: skip


def test_adapters_of_one_machine_count_as_one_host_in_the_cost_per_host(tmp_path: Path) -> None:
    parts = Parts.of(pair())
    parts.system_guid[parts.kind == NodeKind.HOST] = [1, 1, 2, 2]
    result = cost(Fabric.of(parts), rack_units=4, prices=with_prices(tmp_path, PRICES))
    assert result.cost_per_host == result.total_cost / 2


def test_missing_sections_are_named_and_not_counted(tmp_path: Path) -> None:
    path = with_prices(tmp_path, 'currency = "CHF"\n[[adapter]]\nprice = 5\n')
    result = cost(pair(), prices=path)
    assert result.total_cost == 20
    assert result.unpriced == ("switch", "cable", "rack")
    assert "without  switches, cables, racks (no prices)" in result.text()
    assert result.power_w is None


def test_a_missing_entry_is_an_error(tmp_path: Path) -> None:
    path = with_prices(tmp_path, PRICES)
    with pytest.raises(
        InputError, match=r"prices.toml: no \[\[switch\]\] entry matches 40-port switch"
    ):
        cost(pair(ports=40), prices=path)
    with pytest.raises(InputError, match=r"no \[\[cable\]\] entry matches 5 m optical 4xNDR$"):
        cost(pair("4xNDR"), rack_units=4, racks_per_row=1, prices=path)
    with pytest.raises(
        InputError, match=r"entry matches 1 m optical 4xHDR; 1\.5 m opt.* and 1 more$"
    ):
        cost(
            load("xgft:2;8,8;1,8"),
            copper_m=0,
            prices=with_prices(
                tmp_path, 'currency = "EUR"\n[[cable]]\nkind = "copper"\nprice = 1\n'
            ),
        )


@pytest.mark.parametrize(
    ("old", "new", "line", "text"),
    [
        ('currency = "EUR"', "currency = EUR", 1, "is not valid TOML"),
        ('currency = "EUR"', "", None, "the key 'currency' is missing"),
        ('currency = "EUR"', "currency = 3", 1, "currency: 3 does not fit: expected text"),
        ('currency = "EUR"', 'currency = "EUR"\ncoin = 3', 2, "unknown key 'coin'"),
        (
            "price = 1000",
            'price = "1000"',
            10,
            r"switch 2, price: '1000' does not fit: expected a number",
        ),
        (
            "price = 1000",
            "price = -1",
            10,
            r"switch 2, price: -1 does not fit: expected 0 or more",
        ),
        (
            "price = 1000",
            "price = 1e308",
            10,
            r"switch 2, price: 1e.308 does not fit: expected 1",
        ),
        ("price = 1000", "price = " + "9" * 5000, None, "number of thousands of digits"),
        ('currency = "EUR"', "currency = " + "[" * 100_000, None, "nested too deeply"),
        (
            "price = 1000",
            "price = nan",
            10,
            r"switch 2, price: .* does not fit: expected a finite",
        ),
        (
            "price = 1000",
            "price = inf",
            10,
            r"switch 2, price: .* does not fit: expected a finite",
        ),
        ("price = 1000", "", 8, "switch 2: the key 'price' is missing"),
        (
            "price = 1000",
            "price = 1\nprize = 2",
            11,
            "switch 2: unknown key 'prize'.*; expected one of price, power_w",
        ),
        ("ports = 8", "ports = 0", 9, r"switch 2, ports: 0 does not fit: expected 1 or"),
        ("ports = 8", "ports = 99999999999999999999", 9, r"switch 2, ports: .* does not fit"),
        ("ports = 8", "ports = 8.5", 9, r"switch 2, ports: 8.5 does not fit: expected a whole"),
        ("ports = 8", "ports = 36", 8, "switch 2 is for the same item as switch 1"),
        ('rate = "4xHDR"', 'rate = "4xABC"', 21, r"cable 2, rate: unknown rate '4xABC'"),
        ('rate = "4xHDR"', "rate = -2", 21, r"cable 2, rate: a rate in Gb/s .* not -2"),
        (
            "length_m = 2",
            "length_m = 0",
            24,
            r"cable 2, length_m: 0 does not fit: expected a number gr",
        ),
        (
            'kind = "optical"',
            'kind = "glass"',
            29,
            r"cable 3, kind: 'glass' does not fit: expected 'copper'",
        ),
        ("[rack]", "[[rack]]", 35, "rack: .* does not fit: expected a table"),
        ("[rack]", "[rack", 35, "is not valid TOML"),
        ("[[adapter]]", "[[adapters]]", 13, "unknown key 'adapters' .*; expected one of currency"),
    ],
)
def test_bad_price_files_name_file_and_line(
    tmp_path: Path, old: str, new: str, line: int | None, text: str
) -> None:
    assert old in PRICES
    path = with_prices(tmp_path, PRICES.replace(old, new, 1))
    with pytest.raises(InputError, match=text) as caught:
        cost(pair(), prices=path)
    assert caught.value.file == str(path)
    assert caught.value.line == line


@pytest.mark.parametrize(
    ("content", "text"), [(b"", "is empty"), (b"\xff\xfe", "not UTF-8"), (b"a\0b", "binary")]
)
def test_a_price_file_must_be_text(tmp_path: Path, content: bytes, text: str) -> None:
    path = tmp_path / "prices.toml"
    path.write_bytes(content)
    with pytest.raises(InputError, match=text):
        Prices.read(path)


@settings(max_examples=150)
@given(at=st.integers(0, len(PRICES) - 1), length=st.integers(0, 12), new=st.text(max_size=6))
def test_damaged_price_files_are_read_or_refused(at: int, length: int, new: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "prices.toml"
        damaged = PRICES[:at] + new + PRICES[at + length :]
        path.write_text(damaged, encoding="utf-8", errors="replace", newline="")
        try:
            read: Prices | InputError = Prices.read(path)
        except InputError as error:
            read = error
        assert read.file == str(path)
        if isinstance(read, InputError):
            assert read.line is None or 1 <= read.line <= damaged.count("\n") + 1
        else:
            assert read.currency


def test_the_documented_price_file_is_valid(tmp_path: Path) -> None:
    text = DOCS.read_text().partition("```toml\n")[2].partition("```")[0]
    prices = Prices.read(with_prices(tmp_path, text))
    assert prices.of_cable("copper", 200.0, 2.0).price == 75
    assert prices.rack.price == 2000


def test_a_price_file_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        cost(pair(), prices=tmp_path / "none.toml")


# -- the page --------------------------------------------------------------------------------------


def test_the_printed_plan() -> None:
    result: CostPlan = cost(load("kns:k=6,n=2"))
    lines = result.text().splitlines()
    assert lines[0] == "kns:k=6,n=2: 36 hosts, 48 switches, 108 cables"
    assert lines[1] == "3 racks of 42 U in 1 row, switches beside their hosts"
    assert lines[2] == "1 with switches only, in the middle of the floor"
    assert lines[-1] == "cables   108 (43 copper, 65 optical), 267 m, longest 5 m"
    table = lines[lines.index("") + 1 :]
    assert table[0].split() == ["item", "count", "ports", "used", "ports", "free", "total", "m"]
    row = next(line for line in table if line.startswith("3-port switch"))
    assert row.split() == ["3-port", "switch", "36", "108", "0"]
    assert all(len(line) <= 100 for line in lines)
