"""The study of the Routing Keys paper: ARK and NRK."""

from weft.studies.routing_keys import study as study
