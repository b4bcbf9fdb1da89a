"""The study of the Routing Keys paper: ARK and NRK."""

from weft.papers.routing_keys import study as study
