"""OpenSM's files as data: forwarding tables, LIDs, GUID lists, service levels, options, dumps."""
