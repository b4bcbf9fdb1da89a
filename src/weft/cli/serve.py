"""`weft serve`: the routing-key scheduler as a service beside a subnet manager."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import os
import secrets
import socket
import sys
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Annotated

from weft.cli.common import NO_OPTIONS, FabricArgument, FabricOptions, announced_compile
from weft.cli.option_types import FIRST, ROUTING, SERVICE, Engine, File, Folder, Host, Pid, Whole
from weft.core.errors import InputError, WeftError
from weft.fabrics.rails import machine_facts
from weft.routing import engine as engines
from weft.sim.keys.choice import Criterion
from weft.subnet.export import CACHE
from weft.subnet.live.subnet import TIMEOUT_S, live
from weft.subnet.service.ledger import WhileMissing

#: Port of the service.
PORT = 8973


def serve_command(
    fabric: FabricArgument,
    /,
    *,
    store: Annotated[
        File, FIRST(help="SQLite database of the state, created if it does not exist.")
    ] = Path("weft-serve.sqlite"),
    host: Annotated[Host, FIRST(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[Whole, FIRST(help="Port to listen on.")] = PORT,
    engine: Annotated[
        tuple[Engine, ...],
        ROUTING(
            name=["--engine", "-e"],
            help="Engine of the base routes, those to the first LID of each host. Repeatable; the "
            "first that fits is used, also after a cable has failed.",
        ),
    ] = ("dmodk", "updn"),
    alternatives: Annotated[
        Whole,
        ROUTING(help="Largest number of alternatives of each key in the forwarding tables."),
    ] = 4,
    lmc: Annotated[
        Whole | None,
        ROUTING(
            help="LMC of the subnet. Default: that of OpenSM; with --ibsim one that is "
            "enough for the paths of keys; otherwise the largest possible."
        ),
    ] = None,
    opensm: Annotated[
        File | None,
        FIRST(
            help="opensm.conf of the running OpenSM that loads the tables; it must set "
            "routing_engine file and an lmc above 0. Default: no subnet manager; keys are only "
            "planned."
        ),
    ] = None,
    opensm_pid: Annotated[
        Pid, SERVICE(help="Process id of OpenSM, or a file that contains it.")
    ] = "/run/opensm.pid",
    opensm_cache: Annotated[Folder, SERVICE(help="Folder of OpenSM's guid2lid.")] = Path(CACHE),
    opensm_log: Annotated[
        File | None, SERVICE(help="OpenSM's log. Default: log_file of opensm.conf.")
    ] = None,
    opensm_timeout: Annotated[
        float, SERVICE(help="Time limit of each sweep of OpenSM, in seconds.")
    ] = TIMEOUT_S,
    ibsim: Annotated[
        bool,
        FIRST(
            help="Start OpenSM on a simulated subnet, and use it. Cables can be unplugged by "
            "/v1/ibsim/unlink."
        ),
    ] = False,
    criterion: Annotated[
        Criterion,
        ROUTING(
            help="What the choice of an alternative minimises: the largest load of a link, or the "
            "variance of the loads."
        ),
    ] = "max",
    while_missing: Annotated[
        WhileMissing,
        ROUTING(
            help="What a request gets while its key is not in the tables: an error after its "
            "wait_s, or the base routes at once."
        ),
    ] = "wait",
    lease: Annotated[
        float, SERVICE(help="Seconds after which a grant ends unless it is renewed.")
    ] = 300.0,
    keep_log: Annotated[
        float | None,
        SERVICE(
            help="Days of events that the log has at least; after as many again they are removed. "
            "Default: all events are kept."
        ),
    ] = None,
    seed: Annotated[Whole, ROUTING(help="Seed of the random choices when keys are made.")] = 0,
    tokens: Annotated[bool, SERVICE(help="Require tokens, also on a loopback address.")] = False,
    new_admin_token: Annotated[
        bool, SERVICE(help="Replace the administrator's token, and print the new one.")
    ] = False,
    new_monitor_token: Annotated[
        bool,
        SERVICE(
            help="Replace the monitor's token, which opens only the page, /v1/state and /metrics, "
            "and print the new one."
        ),
    ] = False,
    tls_cert: Annotated[File | None, SERVICE(help="Certificate (PEM).")] = None,
    tls_key: Annotated[File | None, SERVICE(help="Private key of the certificate (PEM).")] = None,
    send_tokens_unencrypted: Annotated[
        bool,
        SERVICE(
            help="Serve other machines without TLS. Anyone who can read the traffic can use the "
            "tokens."
        ),
    ] = False,
    max_body: Annotated[Whole, SERVICE(help="Largest request body in bytes.")] = 64 << 20,
    max_rate: Annotated[
        float, SERVICE(help="Requests per second from one client address; 0 for no limit.")
    ] = 5000.0,
    max_applications: Annotated[Whole, SERVICE(help="Largest number of applications.")] = 1000,
    options: FabricOptions = NO_OPTIONS,
) -> int:
    """Place applications on a fat tree, make their routing keys, and grant them over HTTP.

    Without --tokens, every user of this machine can do everything. Addresses other than loopback
    require tokens and TLS. The address / shows the state as a page, and /v1/openapi.json describes
    the interface.

    Example: `weft serve cluster.net --opensm /etc/opensm/opensm.conf`
    """
    try:
        import uvicorn

        from weft.subnet.service import http
        from weft.subnet.service.connections import allow_many, server_config
    except ImportError as error:
        raise WeftError(
            f"weft serve needs further packages ({error.name} is missing): "
            "pip install 'weft[serve]'"
        ) from None
    from weft.sim.keys.network import key_network
    from weft.sim.keys.tables import enough_lmc, installed_tables, most_lmc
    from weft.subnet.service import makers
    from weft.subnet.service.access import ADMINISTRATOR, MONITOR, Access, RequestLimits
    from weft.subnet.service.ibsim import add_cables
    from weft.subnet.service.installer import Attachment, Installer
    from weft.subnet.service.keeper import Keeper
    from weft.subnet.service.models import LONGEST_S
    from weft.subnet.service.service import Rules, Service
    from weft.subnet.service.store import ServiceStore

    loopback = _is_loopback(host)
    if (tls_cert is None) != (tls_key is None):
        raise InputError("expected both --tls-cert and --tls-key, or neither")
    if ibsim and opensm is not None:
        raise InputError("expected --opensm or --ibsim, and not both")
    if alternatives < 1:
        raise InputError(f"--alternatives must be at least 1, not {alternatives}")
    for file in (tls_cert, tls_key):
        if file is not None and not os.access(file, os.R_OK):
            raise InputError("does not exist or cannot be read", file=file)
    if not loopback and tls_cert is None and not send_tokens_unencrypted:
        raise InputError(
            f"{host} is not a loopback address: give --tls-cert and --tls-key, or accept that "
            "tokens can be read on the network with --send-tokens-unencrypted"
        )
    if not 0 < lease <= LONGEST_S:
        raise InputError(f"--lease must be above 0 s and at most {LONGEST_S:,.0f} s, not {lease:g}")
    if keep_log is not None and not 0 < keep_log < float("inf"):
        raise InputError(f"--keep-log must be above 0 days, not {keep_log:g}")
    if not 0 <= max_rate < float("inf"):
        raise InputError(f"--max-rate must be at least 0, not {max_rate:g}")
    required = tokens or not loopback
    if new_monitor_token and not required:
        raise InputError("--new-monitor-token is of use only with --tokens")
    with announced_compile():
        loaded = options.load(fabric)
        network = key_network(loaded)
        for name in engine:
            engines.bind(*engines.parse(name))
    most = most_lmc(loaded)
    if lmc is not None and not 1 <= lmc <= most:
        raise InputError(f"--lmc must be 1 to {most} on {loaded.name}, not {lmc}")
    opened = ServiceStore(
        store, loaded.digest, {"criterion": criterion, "while_missing": while_missing}
    )
    rules = Rules(
        criterion, while_missing, lease, max_applications,
        keep_log_s=None if keep_log is None else keep_log * 86400,
    )  # fmt: skip
    with closing(opened), ExitStack() as stack:
        installer = subnet = None
        if ibsim:
            base = makers.base_routes(loaded, engine)
            tables = installed_tables(loaded, base, [], lmc or enough_lmc(network), loaded)
            subnet = stack.enter_context(live(loaded, routes=tables, timeout_s=opensm_timeout))
            opensm, opensm_pid = subnet.folder / "opensm.conf", str(subnet.manager.process.pid)
            opensm_cache, opensm_log = subnet.folder, None
        if opensm is not None:
            place = Attachment(opensm, opensm_pid, opensm_cache, opensm_log, opensm_timeout)
            installer = Installer(loaded, place, engine)
            if lmc not in (None, installer.lmc):
                raise InputError(f"--lmc is {lmc}, but OpenSM has LMC {installer.lmc}")
            lmc = installer.lmc
        settings = makers.MakerSettings(tuple(engine), lmc or most, alternatives, seed)
        stream = stack.enter_context(_listening(host, port))
        access = Access(
            opened.tokens(), required=required, limits=RequestLimits(max_body, max_rate),
            hosts=(host.lower(), f"[{host.lower()}]", "localhost", "127.0.0.1", "[::1]"),
        )  # fmt: skip
        first = new_admin_token or ADMINISTRATOR not in opened.tokens()
        for owner, words, new in (
            (ADMINISTRATOR, "administrator's", first), (MONITOR, "monitor's", new_monitor_token)
        ):  # fmt: skip
            if required and new:
                token = secrets.token_urlsafe(32)
                opened.record([], {owner: token})
                access.add(owner, token)
                print(f"The {words} token, shown only once: {token}", flush=True)

        said = [
            f"LMC {settings.lmc}" if settings.lmc else "no LIDs",
            "no subnet manager" if opensm is None else f"OpenSM of {opensm}",
            f"listening on {'http' if tls_cert is None else 'https'}://"
            f"{f'[{host}]' if ':' in host else host}:{stream.getsockname()[1]}",
            *([f"no keys for {network.clos.left_out}"] if network.clos.left_out else []),
            *([] if access.required else ["without tokens: all users of this machine may use it"]),
        ]

        async def run() -> None:
            keeper = Keeper(Service(loaded, opened, settings, rules), installer)
            app = http.application_of(keeper, access)
            if subnet is not None:
                add_cables(app, access, subnet)
            config = server_config(app, tls_cert, tls_key)
            try:
                await keeper.start()
                machines = "".join(f", {name} {text}" for name, text in machine_facts(loaded))
                print(
                    f"weft: {loaded.name}, {loaded.num_hosts:,} hosts{machines}, {', '.join(said)}",
                    file=sys.stderr,
                )
                await uvicorn.Server(config).serve([stream])
            finally:
                await keeper.stop()

        allow_many()
        # The loop that uvicorn would choose: uvloop where it is installed.
        with asyncio.Runner(loop_factory=uvicorn.Config(run).get_loop_factory()) as runner:
            runner.run(run())
    return 0


def _is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _listening(host: str, port: int) -> socket.socket:
    """Return a socket that listens on an address."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=1024)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        reason = reason.partition(" (while ")[0]  # create_server repeats the address
        if getattr(error, "errno", None) == errno.EADDRINUSE:
            reason += "; stop the other program, or give another --port"
        raise InputError(f"cannot listen on {host}:{port}: {reason}") from None
