"""What an operator sees of a run in Prefect: its name, log, report, events, links and history."""
