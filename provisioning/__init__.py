"""The domain: what a stuck provision is, and the one way to fail it. Knows nothing of Prefect."""
