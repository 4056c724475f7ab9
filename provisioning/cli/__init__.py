"""`provision-reaper`: the operator's tool, over the domain. Needs no Prefect in its process."""
