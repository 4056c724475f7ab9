"""The steps of the flows: thin Prefect tasks over the domain, one file a step."""
