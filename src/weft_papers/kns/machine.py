"""CELLIA as the KNS paper describes it: fabrics, routings, placements and hardware parameters.

Values that the paper does not give are from data sheets or assumed; docs/kns-infiniband.md lists
them with their sources.
"""

from __future__ import annotations

import zlib
from base64 import b85decode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import InputError
from weft.fabrics import Fabric
from weft.fabrics.topology import build
from weft.routing import route
from weft.routing.engines.as_opensm import detected_roots
from weft.routing.routes import TableRoutes, VirtualLanes
from weft.routing.structure.kns import find_kns
from weft.sim.packet import Hardware
from weft.workload.placement import place

#: Network -> lash tables and service levels dumped from OpenSM; `unpacked` decompresses them.
DUMPED: Mapping[str, str] = {
    "KNS": (
        "c-m!_U1Ibq3`5_u8t@PMU)t3Xkj!`6c9IMjTb5;~Gv?$^pQ;(jQ%=@+Z1!{y+tgh3ctuMxD%~4vFU{>GzXMAL=9A"
        "t^)>iknJ~0wEa?1h^TTlJid^?-9wo&>}Y)A`ibFriyL1H^rIFHnJTu6!&#TgzOblQw(qb;Lc3k$p2F<4!BBa|ZK6"
        "E_E4Iu2z!!p>n+Ryx)lO%8ck0z+>w`$~ZPAT97d&RKD_&;qo4?B<ZQ*>IwK>gEt>+RAl!55%!NYs#bMfwa+Qo{}D"
        ")LF5-ws%){o!f|XF_kkgfNcz+P1Pas_lF3le&U_DSX?%s#p`5>!&Wd00ok|~C+3D=MEZM1U>j#qc`6G=a_nQOT-L"
        ";kX7A|uiro=Ea>lL5tP!4R0?SiVsN2?x7kn)98DCd&~R`uIJD&vZsL;3(s@qe}cCM~V?t#lhwZqeo`gN)Y?BtX{s"
        "SV~vnM2Ig!eI?=PM%a!P)jhOsY3!^_Ya094K#IRQ>$c9@K$UlaSoxfmw?*ZjO8>Sf!Rq-2${9rYPXoDPhovQ!7&C"
        "d*8l8Vy^o?LK%jEQf`9%FEhk1bOXU{4il@8>mRxwe1#S@=eKUzJy&Zso4W$U-&a-PDwTcASHSig11j6W^<BMor%`"
        "W<A{?dI^+!7XTm(t-RU(6>F~mBx+m=CGUi>uDX3{7xO>&2)ZAFDx%4{PikBdIx4WO5O%4Cgx$uIg|msIpk@axDBK"
        "?)XFF0olDj8x6-+X@!6%Pb)cVTlpf|#%_O~Q&C7zBF^0QblVy%)j4DR2tb|?#8%4r8+oiViqKroCQ)7hg!Gr$18p"
        "9hsEJeA_kwbjx3IAhirFCijIov4iDS(dDIF9wnv_r0sz=_~OZGs{})<Bj*Dr|b&Gz1PoW4U;UB+a2wrEfdo)+5<X"
        "Q_v8Ar$d3Dbx~M#sdCV7(vRq0A`?>OmE@Z-pywe6UO9eUlZ$EqZdHSioR5|#`Gqs!gkPdcuI)*YwWYV}pnC_1v<#"
        "Z`e*?BNaQ!~YMd@ipcPuBb>!MUcIl!SXNi=*b(n`uzo(!n9w?sANhBN`ynAy8F;b}tCG_As<@LNhvx#WG8i%YJ2m"
        "8wK$6a@`x9<>!(^2DOj(_P`}rIHI}G?}u)2Cda&b#RDft*NRKRoPRqBi^2IQmA&nwZEs=M9ZE^+bA4}%8X5k!Ko%"
        "<T;<#<0NC(Q$YX|*{RWm@KY##C&Mkg-8H<BU?tjvhJD8!GCdp~+va@259*hrOI3kUG+0$AC?c4=MvfI<(+bb0yi@"
        "TyXMWT!(V!s2K?ClQb)wrJmK^c>?n`KgwX+Sgegsh}{=wJY$Ou1LM1QYsFB6f=C24&bPZO;^RN1C*?wNq+NZD2BL"
        "&lPBH3wkebqd7%yJ6t-PtlV>`Av{+!(db!vSV+>nJ$*$5<t&GJ(y75eB!0v3QiIgSvAYA&)pR2yjeuU=+g=Wj4Yf"
        "Ii221RMGxHiLH*#%%kN*J9l2g6"
    ),
    "tree": (
        "c-n<h(YAvy2z&3>0HLk_|7ABRI=9Z9yB)QQAqg<_=ssqkJ0g=OpWfh3)QL_%B725Mo@g#K5WN?QmjZugPWbF67su"
        "jy_VK1ry1wZaiW|L?&9`Jn^t|1sP<&^|%8-;M>JrR8W4PRMI_q*=sQZ-x<0&tEM|a)s`*g-NoiFYbmtD;7F3Js?+"
        "dYTaH*~q-bUQrR47vF1ZO=fY<uC4<&KOT<Jj|^2)?a(;&${fm|G&3m?Ty^{F`cX9`Rm^|q!7;;?n&nRB&#?7=&c!"
        "Rc^M+yjDL5S!NS~y>7{vdJpd6xmq1a21S4P^Im3j?!X(7^#a?Gocn)i;fT~o`M^4<57*HixXN?Mw$+|Nazhs0Jre"
        "sDtdnFd6yW&8-RJ1_zRitFT8q|SKD8};U#AC5gDGOeY)$K~C;EVxO?+RS8G?&vM><_P}*eC"
    ),
    "KNS shuffled again": (
        "c-n22TXyV72n7GN8ma*8e`z-(DM_|xY@c?kRlJe_^}6@g-(G7ky{6yjCs*^LkM?@*mu_FH#(-1p+mAu%CGo)#ySm"
        "rTOQ$L`=g^$qnPa8v*5BH)NGxTKLH8d6E;i{D*D^@1oZ!B4GPOaCd!Oh2ee;p5?sTp)RfPQ%z1AsU-YerN`ldG5k"
        "jJ3%uYqg0PYp7tQDqGBHBh8AXOooo7?AT6ZQ+sC2KiIgd{p0US&zXZ>vr%zD&;g|TcxSt$SN=WKSl49G&QyK$odw"
        "&oY8&_a%^w++6E`rF}U|#4@>J~iB!7P0b&hO!%{ljq<v5F<BJ$H4wX*htdg`m28Y)CB21?-%rAmey6YS|(Ct&sNv"
        "U&BN=GFHtcRuP+RG9K=hGi7)f8=y?(maRp^hSC)-jmI<&ia~Xlr_kwyYHWA}}mHwC2ka){pSkdT6yl)~NK3=>Af="
        "Z_OGk9hDxIW+wCPT0SaGr&VhIR_UFG+DD~n$(e`ZhG~6Na?up`B6CuzHM3v+s<epk()vcQI(e4B(dvzGKeE1yEFU"
        "zc2BFape9L&hoj#iG2k$}S-o1X~eTvR+RpvyPqGfuD9=!L9_gQ;igrQZD?)59eDSDdrjcA{uH+w8Uyz{L=bMlqJu"
        "WLvzogXY=@n2a@<CI01?OoLezNZhr-~%tGl-~OJGs1)SiQt_!&jt6PUIZRA9O3T+WwRe^n5#pjX-&50&*wvaGd;4"
        "(@8G>n>lIp^p)r(Z`iaov<snbcnkZ`-G7m3c$*toJ;-UZJCpvarI$0iuFtikqE1pqs%leW{Wt0GpD7lDG7#-p_{3"
        "c7`NJKuuc!a48Hszs3DPB?0OOg3gx+b|+D7b3q_K@h1vQ<Fk7m3$UcpWC=P#&s0ub5_;=pI&)K;f0rY>;);$Rke*"
        "rvgY6h!t(mIq9T4q>04zSsf@Zqby|Ag>E<}-PI+YkXZ524p^00(%g&Z0sFUUizI?_dFpDqqTr3E;Vej4;Y0*f4U&"
        "9OV4Gd4SUb<r%{#$pdclfp$n_$&(%3wjv8wboK}XV1l_;(h%DYu*ft@78kB$Lqp$Kh}_fFqZJtU=2@T!Y+jhCvBB"
        "xQSmXtG;URW=BP%@tO>&^O9`W)_r}D-9&v0ADWDVwP2um^2uF&Ek|NX-r}|sfJ+M5ZEAY7PhM^&|Rh;j|@c_vrcy"
        "@X|O6)Z*eY9LWEf%!422MySDE!4NQ^0^TBQnS?*+CUPH6=l%5&plM~KQiMravu+QuX)nl!*H)(>7F~LEnG$7I5hY"
        "Sj}@bTGI!FMo3UySbt3O}{clnZ>J6Uk-!X`Otlngzpi#XBMrPtspnLMBCe%Sos10lrum9&H8%0X;O77#^YY9pNh;"
        "$aoQ_2?GU1C9nz(aZwm_HZuUOFu3Pi#aSJ3g*&3e8Fx=p5;)Bw?5n3da)Rc%&j91Ga=2g}v2o6D%HQ?^qLn(%{DO"
        "+C_31yhYE)q"
    ),
    "tree shuffled again": (
        "c-oCpTaLsa4EyIai9>+<pKS7gPN&UEODi=P<JeGU!R&*1$YgZxGDVw;pc|?zJUZB3L-}y!&b`q7qrj<P8x1rCwKu"
        "p!jB8)k!<FC)$1tJ_L^cX#bK$62`hz=MSEPro5xyQYJWTVj+(Y*iI;(8DN)#1ZdEgR7Cgx{i<ykm0POnm+=B|qSI"
        "`wt@Vpb=K^@|n?e7N1Z!MPoq%hmb56=wJyZ@<^SGw=V-c81FD<zb;hXNhW}aTn`(7lGo5HV}M}2@rYh*9!7E?CTR"
        "WtDIs_0_4L<3Hl;6-$=RS)h?4roNZb*3-DHWyO_tuM*kRX_c!U3H0KE8o`Fs~&KX6n&BgAHwAwO1W&D#Wr-zAli<"
        "3JK>AOH5G3VAh"
    ),
    "KNS in order": (
        "c-oDXQFde@2t@x`jY5+BFKwg>kUo<WA>HP+a(z&uZgsOi+uclb4~T||4hVx4@Fu=s7kCoium-${A6Ni3An3}}MJG"
        "fv(E&k~3V0J#=>kuJDmCCmP^AEDKu{%SB03@X7{GwAW}*XvDqY}7P^AXE2&xo-4G5~lz(gkmEP(;RU<!B>U(G}Z1"
        "XXIli=avY*npr)e2?gafF&>>s8RuMg3({#NqjdG9S~G002>fgiJ0hwfF&>>s8RuMf+}6$Nif|8yojG>BI}qg^MBs"
        "@NB!4{nmy+$9Nci)XK2~R(1zDm?~j=_yv{Mk)`zR-&Xira**b7$SiTY#!_D=h$1oEozfOF%XwOW%H<v~<JYe&jjb"
        "GwJ=XN?tZO;n?#tq}>h`>Dxzh?Z0D|#|kUOW|($H`%TsjD7N(bDNeXyJqbK3hDm$j(>6yZBOTuj6sK@5Q>%&F9`m"
        "c1Humi>y%y(eirYa+}46fm_7nj-H)&<Z>F5Yk6G>!s&3EPAdY}a*COdwuiRTDQ3NE*K?r?AK7Wkjv2YK{&#!C5V>"
        "u&lo9o7HKif&s2i=cJ*$s(<g(Zfg%C1IHY?&hRb^r~X>KM;u)_7X?Cv^RW|uYE*2`)gt+HF#MpYOqJn)c3hiL4>i"
        "R-90rl`1b(hT2sII~-oU6yaW&6QgA%C6;jbkdfc{-2}oJmHbF_o_OqjeyAVd{PvhG0e8_vQ|&|t{|F|bMB<EsC7P"
        "lZpcy#$KF58c~PS"
    ),
    "tree in order": (
        "c-no^K@x;82n4`8uQ4<D|F20BurM{d92D9}h~>C5#u&aL5`$Dqb*cAA1<({yDb=M`W0GAVl~P@5Hr{nyW80~aN~t"
        "b&H{NwqNTpPlx*A8l5ArIcQmRXxjo(ib&r%_kQeA2^-Wppqg;Yv)sdxT*T=6QTQmTK{u87zJG5@$SW_`7=6V4ZAZ"
        "YLn))2T10d*$_l_2QhXI$JOLBDvkKldZx3ovh6I(EVgJ!ptAQqS!3"
    ),
}


def unpacked(dump: str) -> tuple[list[str], list[str]]:
    """Return the ports and service levels of a dump, one digit each.

    Returns output ports, one line per host with one digit per switch; service levels, one line per
    switch with hosts and one digit per destination host.
    """
    ports, levels = zlib.decompress(b85decode(dump)).decode().split("\n\n")
    return ports.split("\n"), levels.split("\n")


Engines = Literal["opensm", "weft"]
Placement = Literal["linear", "random"]

HOSTS = 36
#: Cores of a node's Xeon E5-2630v3, and so the largest possible number of ranks per node.
CORES = 8
#: Data lanes of CELLIA's adapters and switches (section 4.2).
DATA_LANES = 8

#: Input buffer per lane of an InfiniScale IV port, approximately.
BUFFER_BYTES = 32768
#: Packets that an input port can send at the same time.
SPEEDUP = 2
#: Processor time at either end of a message.
OVERHEAD_NS = 300.0
ADAPTER_LATENCY_NS = 250.0
SWITCH_LATENCY_NS = 100.0
#: Messages within a node are copied through shared memory.
LOCAL_GBPS, LOCAL_LATENCY_NS = 40.0, 400.0
EAGER_BYTES = 16384


@dataclass(frozen=True)
class KnsNetwork:
    """A fabric of the study."""

    #: Short name for tables and figures.
    name: str
    #: Topology spec.
    spec: str
    #: Label -> spec of the routing engine.
    engines: Mapping[str, str]
    #: Hardware parameters that differ from CELLIA's.
    hardware: Mapping[str, float] = field(default_factory=dict)
    #: Seed of the permutation of nodes, GUIDs and ports; None for cables in order.
    shuffle: int | None = None


KNS, TREE = "KNS", "tree"
#: Networks and routings of figures 9 to 17, in this order.
PAPER_ENGINES = {
    KNS: ("updn", "lash", "dfsssp", "hdor"),
    TREE: ("updn", "lash", "dfsssp", "ftree"),
}
#: Order of cables, ports and addresses -> seed of their permutation, None for the order of the
#: topology. The paper does not give the order; the first is the headline.
CABLES: Mapping[str, int | None] = {"shuffled": 1, "shuffled again": 2, "in order": None}
#: Roots of updn on the tree. The paper says "the root node"; OpenSM's own search selects three.
ROOTS: Mapping[str, str] = {
    "one root": "updn",
    "another root": "updn-other",
    "three roots": "updn-3",
}
#: KNS with routing adapters, and dragonfly: the paper's future work (sections 4.4 and 6).
ADAPTERS, SLOW_ADAPTERS, DRAGONFLY = "KNS-adapters", "KNS-adapters-100ns", "dragonfly"


def cabled(network: str, cables: str) -> str:
    """Return the name of the KNS or the tree with an order of its cables."""
    return network if cables == next(iter(CABLES)) else f"{network} {cables}"


_KNS_SPEC, _TREE_SPEC = "kns:k=6,n=2,rate=4xQDR", "cellia:nodes=36,rate=4xQDR"
_BOTH = {"lash": "lash", "dfsssp": "dfsssp", "dfsssp-few": "dfsssp"}
_KNS_ENGINES = {
    "updn": "updn:roots=center",
    **_BOTH,
    "hdor": "hdor",
    **{f"hdor-{lanes}": f"hdor:lanes={lanes}" for lanes in (2, 4, 8)},
}
#: {0} and {1} are the first two roots that OpenSM's search selects.
_TREE_ENGINES = {
    "updn": "updn:roots={0}",
    "updn-other": "updn:roots={1}",
    "updn-3": "updn",
    **_BOTH,
    "ftree": "ftree",
}
NETWORKS: Mapping[str, KnsNetwork] = {
    network.name: network
    for network in (
        *(
            KnsNetwork(cabled(name, cables), spec, engines, shuffle=seed)
            for cables, seed in CABLES.items()
            for name, spec, engines in (
                (KNS, _KNS_SPEC, _KNS_ENGINES),
                (TREE, _TREE_SPEC, _TREE_ENGINES),
            )
        ),
        KnsNetwork(
            ADAPTERS,
            f"{_KNS_SPEC},router=adapter",
            {"hdor": "hdor", "hdor-8": "hdor:lanes=8"},
            {"forward_latency_ns": 0.0, "adapter_gbps": 32.0},
        ),
        KnsNetwork(
            SLOW_ADAPTERS,
            f"{_KNS_SPEC},router=adapter",
            {"hdor": "hdor"},
            {"forward_latency_ns": SWITCH_LATENCY_NS, "adapter_gbps": 32.0},
        ),
        KnsNetwork(
            DRAGONFLY,
            "dragonfly:p=2,a=3,h=2,g=6,rate=4xQDR",
            {"updn": "updn:roots=center", "lash": "lash", "dfsssp": "dfsssp"},
        ),
    )
}
#: Engines whose paths are spread over all data lanes, as OpenSM's dfsssp does.
_SPREAD = frozenset({"dfsssp"})


def hardware(network: str) -> Hardware:
    """Return the hardware of a network: 4xQDR, IS5022 switches, MTU 2048."""
    return Hardware(
        mtu_bytes=2048,
        buffer_bytes=BUFFER_BYTES,
        switch_latency_ns=SWITCH_LATENCY_NS,
        speedup=SPEEDUP,
        adapter_latency_ns=ADAPTER_LATENCY_NS,
        **NETWORKS[network].hardware,  # type: ignore[arg-type]
    )


@lru_cache(maxsize=16)
def fabric(network: str) -> Fabric:
    """Return the fabric of a network."""
    ordered = build(NETWORKS[network].spec)
    shuffle = NETWORKS[network].shuffle
    return ordered if shuffle is None else ordered.shuffled(shuffle)


def longest_latency_us(network: str, size_bytes: int = 8) -> float:
    """Return the zero-load latency of a message whose path visits every switch once.

    `size_bytes`: payload in bytes, at most that of one packet.
    """
    built, parts = fabric(network), hardware(network)
    latency = built.num_switches * parts.switch_latency_ns
    latency += (built.num_switches + 1) * float(built.cable_latency_ns.max())
    wire_ns = (size_bytes + parts.header_bytes) * 8 / float(built.link_rate_gbps.min())
    return (2 * (OVERHEAD_NS + (parts.adapter_latency_ns or 0)) + latency + wire_ns) / 1e3


@lru_cache(maxsize=96)
def routes(network: str, engine: str, engines: Engines = "opensm") -> TableRoutes:
    """Return the routes of a network by an engine.

    `network`, `engine`: name of the network, and label of one of its engines. `engines`:
    ``opensm``: tables and lanes of OpenSM 3.3.23 (`updn` and `dfsssp` are recomputed with equal
    entries, `lash` is from a dump, `ftree` and `hdor` are the same in weft; OpenSM's `dfsssp` draws
    the lane of each path, here with a fixed seed). ``weft``: tables and lanes of weft's engines,
    which balance the cables better and use fewer lanes.
    """
    built = fabric(network)
    if engines == "opensm" and engine == "lash" and network in DUMPED:
        return _dumped_lash(network)
    spec = NETWORKS[network].engines[engine]
    if "{" in spec:
        spec = spec.format(*(built.node_names[row] for row in detected_roots(built)))
    name = spec.partition(":")[0]
    if engines == "opensm" and name in {"updn", "dfsssp"}:
        spec += f"{',' if ':' in spec else ':'}balance=opensm"
    tables = route(built, spec)
    assert isinstance(tables, TableRoutes)
    if engines == "opensm" and engine in _SPREAD:
        return spread_lanes(built, tables, DATA_LANES)
    return tables


def spread_lanes(fabric: Fabric, routes: TableRoutes, lanes: int, seed: int = 0) -> TableRoutes:
    """Split the lanes with most paths into several lanes, as OpenSM's dfsssp does.

    The paths of a split lane are distributed at random over the resulting lanes. This cannot create
    a credit loop, because each resulting lane has a subset of the paths.

    `fabric`, `routes`: the fabric and its routes, in which SL i must be VL i. `seed`: seed of the
    random choices. OpenSM makes a new choice for every path query.
    """
    rows, ends = fabric.graph.num_rows, fabric.num_destinations
    base = np.broadcast_to(routes.sl, (rows, ends)).astype(np.int64)
    needed = routes.num_vls
    if needed >= lanes:
        return routes
    sources = fabric.graph.destination_row[: fabric.num_host_endpoints]
    paths = np.bincount(base[sources][:, : fabric.num_host_endpoints].ravel(), minlength=needed)
    split = np.ones(needed, dtype=np.int64)
    for _ in range(lanes - needed):
        split[np.argmax(paths / split)] += 1
    first = np.concatenate([[0], np.cumsum(split)])
    draw = np.random.default_rng(seed).integers(0, 2**32, (rows, ends))
    return replace(
        routes,
        sl=(first[base] + draw % split[base]).astype(np.uint8),
        lanes=VirtualLanes.uniform(range(lanes)),
        notes=(*routes.notes, f"needs {needed} lanes, spread over {lanes}"),
    )


def _dumped_lash(network: str) -> TableRoutes:
    """Return the dumped routes of OpenSM's lash on one of CELLIA's fabrics."""
    built = fabric(network)
    ports, levels = (_digits(lines) for lines in unpacked(DUMPED[network]))
    # The dump has only hosts as destinations; the entries for switches are from minhop.
    other = route(built, "minhop:balance=opensm")
    assert isinstance(other, TableRoutes)
    table = other.table.copy()
    table[: len(ports)] = ports
    hosts = built.num_host_endpoints
    sl = np.zeros((built.graph.num_rows, built.num_destinations), dtype=np.uint8)
    sl[np.unique(built.graph.destination_row[:hosts]), :hosts] = levels
    return replace(
        other,
        engine="lash",
        table=table,
        sl=sl,
        lanes=VirtualLanes.uniform(range(int(sl.max()) + 1)),
        options={},
        notes=("as programmed by OpenSM 3.3.23",),
    )


def _digits(lines: Sequence[str]) -> NDArray[np.uint8]:
    return np.array([[int(digit) for digit in line] for line in lines], dtype=np.uint8)


@lru_cache(maxsize=16)
def _in_order(network: str) -> tuple[int, ...]:
    """Return the hosts in order of their coordinates, by line (KNS) or leaf switch (tree)."""
    built = fabric(network)
    hosts = np.arange(built.num_hosts)
    if NETWORKS[network].shuffle is None:
        return tuple(hosts.tolist())
    rows = built.graph.destination_row[: len(hosts)]
    if NETWORKS[network].spec == _KNS_SPEC:
        kns = find_kns(built)
        coordinates = np.full((built.graph.num_rows, 2), -1)
        coordinates[kns.routers] = kns.coordinates
        order = np.lexsort(coordinates[rows].T)
    else:
        # The leaf switches of a group have the same middle switches.
        first = np.full(built.graph.num_rows, built.graph.num_rows)
        np.minimum.at(first, built.graph.edge_tail, built.graph.edge_row)
        order = np.lexsort((hosts, rows, first[rows]))
    return tuple(order.tolist())


def hosts_of(
    network: str, placement: Placement, ranks_per_node: int, seed: int
) -> NDArray[np.int32]:
    """Return the host of each rank: in order, or each rank on a random core of the cluster.

    `network`: name of the network; its hosts are ordered by their coordinates. `placement`:
    ``linear`` fills node by node. ``random`` is drawn with `seed`, the same for every run.
    """
    spec = "linear" if placement == "linear" else f"random:seed={seed},over=seats"
    return place(
        fabric(network),
        HOSTS * ranks_per_node,
        spec,
        ranks_per_host=ranks_per_node,
        hosts=np.array(_in_order(network)),
    )


def check_ranks(ranks_per_node: int) -> None:
    """Check that a node has a core for each of its ranks."""
    if not 1 <= ranks_per_node <= CORES:
        raise InputError(
            f"expected 1 to {CORES} ranks per node (a node has {CORES} cores), not {ranks_per_node}"
        )
