"""The routing-key scheduler as a service beside a subnet manager (``weft serve``)."""
