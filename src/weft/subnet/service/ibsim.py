"""Cables of a simulated subnet, which a user unplugs to see what the service does."""

from __future__ import annotations

import threading

from fastapi import Depends, FastAPI

from weft.subnet.live.subnet import Subnet
from weft.subnet.service import models
from weft.subnet.service.access import Access


def add_cables(app: FastAPI, access: Access, subnet: Subnet) -> None:
    """Let the administrator unplug cables of a simulated subnet, and plug them in again."""
    one_at_a_time = threading.Lock()
    administrator = Depends(access.administrator)

    @app.post("/v1/ibsim/unlink", dependencies=[administrator])
    def unlink(body: models.CableRequest) -> models.Unplugged:
        """Unplug the cable in a port, and wait until OpenSM has swept."""
        with one_at_a_time:
            subnet.unlink(body.port)
            return models.Unplugged(unplugged=list(subnet.unplugged))

    @app.post("/v1/ibsim/relink", dependencies=[administrator])
    def relink(body: models.CableRequest) -> models.Unplugged:
        """Plug in the cable of a port again, and wait until OpenSM has swept."""
        with one_at_a_time:
            subnet.relink(body.port)
            return models.Unplugged(unplugged=list(subnet.unplugged))
