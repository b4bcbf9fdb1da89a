"""The HTTP interface, version 1."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import Depends, FastAPI, Query, Request
from fastapi.responses import Response
from fastapi.security import HTTPBearer

from weft import __version__
from weft.subnet.service import models, page
from weft.subnet.service.access import Access, LimitMiddleware
from weft.subnet.service.direct import DirectCalls, PostCall
from weft.subnet.service.errors import handle_errors
from weft.subnet.service.keeper import Keeper
from weft.subnet.service.metrics import add_metrics
from weft.subnet.service.service import Service
from weft.subnet.service.views import (
    application_answer,
    grant,
    grant_without_paths,
    host_numbers,
    key_answer,
    key_summary,
    phase_specs,
    state_of,
)

#: Characters of the log after which an answer ends: a line of a large key has many megabytes.
_LOG_CHARACTERS = 64 << 20


class _Lines(Response):
    media_type = "application/x-ndjson"


def _json(text: str, status: int = 200) -> Response:
    return Response(text, status, media_type="application/json")


def application_of(keeper: Keeper, access: Access) -> FastAPI:
    """Return the web application of a service and the keeper of its keys."""
    service = keeper.service

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await keeper.start()
        try:
            yield
        finally:
            await keeper.stop()

    app = FastAPI(
        title="weft routing-key scheduler",
        version="1",
        summary="Routes on demand for the communication phases of applications.",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        openapi_url="/v1/openapi.json",
        # Only described here; `Access` checks the tokens, if any are required.
        dependencies=[Depends(HTTPBearer(auto_error=False))],
        responses={"4XX": {"model": models.Error}, "5XX": {"model": models.Error}},
    )
    handle_errors(app)
    calls = [*_keys(app, service, access), *_applications(app, service, access)]
    app.add_middleware(DirectCalls, access=access, calls=calls, elsewhere=service.read)
    _state(app, service, access)
    page.add_page(app, service)
    app.add_middleware(LimitMiddleware, access=access)
    add_metrics(app, service, access)
    return app


# -- applications ------------------------------------------------------------------------------


def _applications(app: FastAPI, service: Service, access: Access) -> list[PostCall]:
    """Add the calls of applications; return those with bodies."""
    administrator = Depends(access.administrator)
    owner = Depends(access.owner)

    @app.post(
        "/v1/applications",
        status_code=201,
        response_model=models.Placed,
        dependencies=[administrator],
    )
    async def place_application(body: models.ApplicationRequest) -> Response:
        """Place an application on hosts, and begin to make the keys of its phases."""
        hosts: list[int] | int | None = body.num_hosts
        if body.hosts is not None:
            hosts = host_numbers(service.fabric, body.hosts)
        assert hosts is not None  # as checked by the model
        token = await service.announce(body.name, hosts, phase_specs(body.phases), body.workload)
        access.add(body.name, token)
        placed = application_answer(service, service.ledger.application(body.name))
        return _json(models.Placed(**placed.model_dump(), token=token).model_dump_json(), 201)

    @app.get("/v1/applications", dependencies=[administrator])
    async def list_applications() -> list[models.ApplicationAnswer]:
        """List all applications."""
        async with service.stored():
            every = list(service.ledger.applications.values())
            return [application_answer(service, each) for each in every]

    @app.get("/v1/applications/{application}", dependencies=[owner])
    async def show_application(application: models.Name) -> models.ApplicationAnswer:
        """Show an application and the state of its keys."""
        async with service.stored():
            return application_answer(service, service.ledger.application(application))

    @app.delete("/v1/applications/{application}", status_code=204, dependencies=[owner])
    async def remove_application(application: models.Name) -> None:
        """Remove an application: its keys are given back and its hosts are free."""
        await service.leave(application)
        access.forget(application)

    @app.post("/v1/advice", response_model=models.AdviceAnswer, dependencies=[administrator])
    async def advise(body: models.AdviceRequest) -> Response:
        """Say which of some hosts an application should use, and in which order of ranks."""
        free = service.free_hosts(every_role=body.hosts is not None)
        if body.hosts is not None:
            wanted = set(host_numbers(service.fabric, body.hosts, wholes=True))
            free = [host for host in free if host in wanted]
        found = await service.advise(body.num_hosts, free, phase_specs(body.phases), body.workload)
        names = service.fabric.host_names
        answer = models.AdviceAnswer(
            placements=[
                models.AdvicePlacement(
                    **vars(each) | {"hosts": [names[host] for host in each.hosts]}
                )
                for each in found
            ]
        )
        return _json(answer.model_dump_json())

    return [
        PostCall("/v1/applications", models.ApplicationRequest, place_application),
        PostCall("/v1/advice", models.AdviceRequest, advise),
    ]


# -- keys --------------------------------------------------------------------------------------


def _keys(app: FastAPI, service: Service, access: Access) -> list[PostCall]:
    """Add the calls of keys; return those with bodies."""
    owner = Depends(access.owner)
    root = "/v1/applications/{application}"
    key = f"{root}/keys/{{phase}}"

    @app.post(f"{key}/request", response_model=models.Grant, dependencies=[owner])
    async def request_key(
        application: models.Name, phase: models.Name, body: models.KeyRequest | None = None
    ) -> Response:
        """Ask for the key of a phase that begins (RODRequest)."""
        body = body or models.KeyRequest()
        given = await service.request(
            application, phase, body.lease_s, body.wait_s, again=body.again
        )
        return _json(await grant(service, given, with_paths=body.paths))

    @app.post(f"{key}/done", response_model=models.Returned, dependencies=[owner])
    async def return_key(
        application: models.Name, phase: models.Name, body: models.KeyReturn | None = None
    ) -> Response:
        """Give back the key of a phase that has ended (RODDone)."""
        await service.give_back(application, phase, None if body is None else body.since_ns)
        return _json(models.Returned(application=application, phase=phase).model_dump_json())

    @app.get(key, dependencies=[owner], response_model=models.KeyAnswer)
    async def show_key(application: models.Name, phase: models.Name) -> Response:
        """Show the key of a phase and the paths of its alternatives."""
        async with service.stored():
            found = service.ledger.phase(application, phase)
            of = service.ledger.application(application)
            summary, made = key_summary(service, application, found), found.key
        return _json(await key_answer(service, of, summary, made))

    @app.post(f"{root}/renew", dependencies=[owner])
    async def renew(application: models.Name) -> models.Renewal:
        """Say that the application is alive: the leases of its grants begin anew."""
        renewed = await service.renew(application)
        return models.Renewal(grants=[grant_without_paths(each) for each in renewed])

    @app.get(f"{root}/changes", dependencies=[owner])
    async def changes(
        application: models.Name,
        after: Annotated[int, Query(ge=0)] = 0,
        wait_s: Annotated[float, Query(ge=0, le=600)] = 0.0,
    ) -> models.Changes:
        """List what happened to the keys of an application; wait until something does."""
        service.ledger.application(application)
        found = await service.wait_for_change(application, after, wait_s)
        return models.Changes(version=service.version, changes=found)

    return [
        PostCall(f"{key}/request", models.KeyRequest, request_key),
        PostCall(f"{key}/done", models.KeyReturn, return_key),
    ]


# -- state -------------------------------------------------------------------------------------


def _state(app: FastAPI, service: Service, access: Access) -> None:
    reader = page.StateReader(service, lambda: state_of(service).model_dump_json())

    @app.get("/v1/health")
    async def health(request: Request) -> models.Health:
        """Say whether the service is well; the words need a token."""
        problems = list(service.problems.values())
        if not access.may_read(request):
            problems = [f"a problem with the {kind}" for kind in service.problems]
        return models.Health(
            weft=__version__, fabric=service.fabric.name, hosts=service.fabric.num_hosts,
            problems=problems,
        )  # fmt: skip

    @app.get("/v1/state", dependencies=[Depends(access.reader)], response_model=models.State)
    async def state(
        request: Request,
        after: Annotated[int | None, Query(ge=0)] = None,
        wait_s: Annotated[float, Query(ge=0, le=600)] = 0.0,
    ) -> Response:
        """Show who holds which key, and where keys meet; wait until this is not version `after`."""
        if after is None:
            text = await reader.read()
        else:
            text = await reader.wait(after, wait_s, request.is_disconnected)
        return _json(text)

    @app.get("/v1/log", dependencies=[Depends(access.administrator)], response_class=_Lines)
    def log(
        after: Annotated[int, Query(ge=0, lt=2**63)] = 0,
        limit: Annotated[int, Query(ge=1, le=10_000)] = 1000,
    ) -> Response:
        """Return lines of the log, which 'weft replay' reads; fewer than the limit if long."""
        lines: list[str] = []
        left = _LOG_CHARACTERS
        for _, text in service.store.log(after, limit):
            lines.append(f"{text}\n")
            left -= len(text)
            if left <= 0:
                break
        return _Lines("".join(lines))
