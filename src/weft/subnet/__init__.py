"""A real subnet: tables for OpenSM, its audit, OpenSM itself, and the service that grants keys."""
