"""The study of the Routing Keys paper: ARK and NRK."""

from weft_papers.routing_keys import study as study
